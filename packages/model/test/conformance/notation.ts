import type { ModelAnswer, Usage } from "@dev/protocol";
import type { Provider } from "../../src/index.ts";
import type { Answer } from "../endpoint.ts";

/** What a test lets a provider say, whatever the wire. */
export type Spoken = {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly ref: string; readonly name: string; readonly json: string }[];
  readonly stop: "end" | "calls" | "length" | "refusal";
  readonly usage: Usage;
};

/** How a wire writes things down: all that the suite has to know of it. */
export type WireNotation = {
  readonly wire: Provider["wire"];
  /** The events of a stream, each with the blank line behind it. */
  readonly stream: (spoken: Spoken) => readonly string[];
  /** Which of these events makes the answer whole. */
  readonly finishedBy: (events: readonly string[]) => number;
  /** An event with a part of a text. */
  readonly text: (text: string) => string;
  /** A whole answer that is no stream. */
  readonly whole: (spoken: Spoken) => string;
  readonly error: (code: string, message: string) => string;
  /** The code of each of these, as this wire has it. */
  readonly codes: { readonly rateLimited: string; readonly overflow: string };
};

export const SAID: Spoken = {
  text: "Grüße — 日本語 🎉\nand a second line",
  reasoning: "first, think ✓",
  calls: [
    { ref: "a1", name: "read", json: '{"path":"ü.txt"}' },
    { ref: "b2", name: "exec", json: '{"command":"echo \\"{}\\" && ls"}' },
  ],
  stop: "calls",
  usage: { inputTokens: 120, cachedTokens: 100, outputTokens: 30, reasoningTokens: 7 },
};

export const HEARD: ModelAnswer = {
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
};

export const PLAIN: Spoken = { ...SAID, reasoning: "", calls: [], stop: "end" };

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
