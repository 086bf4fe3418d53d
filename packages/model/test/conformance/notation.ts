import type { AssistantMessage, FaultCode, ModelAnswer, Usage } from "@dev/protocol";
import { expect } from "vitest";
import type { Provider } from "../../src/index.ts";
import type { Answer, Asked } from "../endpoint.ts";

/** What a test lets a provider say, whatever the wire. */
export type Spoken = {
  readonly text: string;
  readonly reasoning: string;
  /** What the provider wants back with its reasoning: a signature, an encrypted text. Empty: nothing. */
  readonly secret: string;
  readonly calls: readonly { readonly ref: string; readonly name: string; readonly json: string }[];
  readonly stop: "end" | "calls" | "length" | "refusal";
  /** Null: the provider says nothing of it. */
  readonly usage: Usage | null;
  /** How much of a text one event carries; see `piecesOf`. */
  readonly pieceUnits: number;
};

/** How a wire writes things down: all that the suite has to know of it. */
export type WireNotation = {
  readonly wire: Provider["wire"];
  /**
   * The events of a stream, each with the blank line behind it. Text, reasoning and arguments come in
   * `piecesOf` them; the pieces of several calls are mixed where the API may do so.
   */
  readonly stream: (spoken: Spoken) => readonly string[];
  /** Which of these events makes the answer whole. */
  readonly finishedBy: (events: readonly string[]) => number;
  /** An event with a part of a text, which can stand at a stream's beginning. */
  readonly text: (text: string) => string;
  /** A whole answer that is no stream. */
  readonly whole: (spoken: Spoken) => string;
  /** Events that may come anywhere in a stream and say nothing: pings, types of a later version. */
  readonly quiet: readonly string[];
  /**
   * Whether an event that is sent twice is known again, so that the second changes nothing. It is not
   * where it adds to what came before and has no number of its own to be told by.
   */
  readonly knownAgain: (event: string) => boolean;
  /** An error with this code or type, inside a stream. */
  readonly error: (code: string, message: string) => string;
  /** The body of an HTTP answer other than 2xx, with this code or type. */
  readonly refusal: (code: string, message: string) => string;
  /** How this API says each of these: as an HTTP status with its body, and inside a stream. */
  readonly says: Readonly<Record<Said, Sayings>>;
  /** Whether a reply's `opaque` carries `secret` into the next ask; otherwise it is empty. */
  readonly carries: boolean;
};

/** What every API has a way to say. */
export type Said = FaultCode & ("rate_limited" | "overloaded" | "context_overflow");

export type Sayings = {
  readonly answers: readonly (readonly [status: number, body: string])[];
  /** Events; none where the API says this by a status alone. */
  readonly events: readonly string[];
};

/** The pieces in which a stream carries a text; the first and the last are empty. */
export function piecesOf(text: string, units: number): readonly string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += units) pieces.push(text.slice(at, at + units));
  return ["", ...pieces, ""];
}

/** The pieces of all calls' arguments with the call's position, a piece of each in turn. */
export function mixedPieces({ calls, pieceUnits }: Spoken): readonly (readonly [number, string])[] {
  const rows = calls.map((call, index) =>
    piecesOf(call.json, pieceUnits).map((json) => [index, json] as const),
  );
  const longest = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: longest }, (_, at) =>
    rows.flatMap((row) => row.slice(at, at + 1)),
  ).flat();
}

export const SAID: Spoken = {
  text: "Grüße — 日本語 🎉\nand a second line",
  reasoning: "first, think ✓",
  secret: "c2VjcmV0IHRob3VnaHQ=",
  calls: [
    { ref: "a1", name: "read", json: '{"path":"ü.txt"}' },
    { ref: "b2", name: "exec", json: '{"command":"echo \\"{}\\" && ls"}' },
  ],
  stop: "calls",
  usage: { inputTokens: 120, cachedTokens: 100, outputTokens: 30, reasoningTokens: 7 },
  pieceUnits: 9,
};

export const HEARD: ModelAnswer & { readonly kind: "reply" } = {
  kind: "reply",
  text: SAID.text,
  reasoning: SAID.reasoning,
  calls: [
    { ref: "a1", op: { kind: "read", path: "ü.txt", from: 0, to: 0 } },
    {
      ref: "b2",
      op: {
        kind: "exec",
        argv: ["/bin/sh", "-c", 'echo "{}" && ls'],
        cwd: ".",
        env: [],
        stdin: "",
        timeoutMs: 0,
        background: false,
      },
    },
  ],
  stop: "calls",
  opaque: "",
};

/** `HEARD`, as it is heard over this wire. */
export function heardOver({ carries }: WireNotation): ModelAnswer {
  return carries ? { ...HEARD, opaque: expect.stringContaining(SAID.secret) } : HEARD;
}

/** A little of everything, for tests that look at each of its bytes. */
export const BRIEF: Spoken = {
  ...SAID,
  text: "ü 🎉",
  reasoning: "hm",
  calls: SAID.calls.slice(0, 1),
  pieceUnits: 99,
};

/** What is heard of `BRIEF` where this is heard of `SAID`. */
export function briefly(heard: ModelAnswer): ModelAnswer {
  const { text, reasoning } = BRIEF;
  return heard.kind === "reply"
    ? { ...heard, text, reasoning, calls: heard.calls.slice(0, 1) }
    : heard;
}

export const PLAIN: Spoken = { ...SAID, reasoning: "", secret: "", calls: [], stop: "end" };

export const events: Readonly<Record<string, string>> = { "content-type": "text/event-stream" };

export const streaming =
  (...pieces: readonly (string | Uint8Array)[]): Answer =>
  (response) => {
    response.writeHead(200, events);
    for (const piece of pieces) response.write(piece);
    response.end();
  };

export const saying =
  (status: number, body: string, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(status, headers);
    response.end(body);
  };

/** The message that a reply becomes in a conversation. */
export function messageOf({ answer }: Asked): AssistantMessage {
  if (answer.kind !== "reply") throw new Error(`no reply: ${JSON.stringify(answer)}`);
  const { text, reasoning, calls, opaque } = answer;
  return { kind: "assistant", text, reasoning, calls, opaque };
}
