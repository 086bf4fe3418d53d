import { fail, fault, ok, type Result } from "@dev/protocol";
import * as v from "valibot";

/**
 * What a scripted model says, one step for each request: the first that is left of those for the
 * request's conversation, and else the first that is left of those for any.
 */
export type Script = readonly ScriptStep[];

export type ScriptStep = FixedStep | ((request: ScriptedRequest) => FixedStep);

export type FixedStep = (ReplyStep | FaultStep) & {
  /** Texts that the messages behind the last answer must hold, or a predicate of the request. */
  readonly expect?: readonly string[] | ((request: ScriptedRequest) => boolean);
  /**
   * The step is for a conversation alone whose first message of a user has this text: several agents ask
   * at the same time, in any order.
   */
  readonly when?: string;
  /** Held back until the gate of this name is released. */
  readonly gate?: string;
};

export type ReplyStep = { readonly reply: ScriptedReply; readonly usage?: ScriptedUsage };

export type ScriptedReply = {
  readonly text?: string;
  readonly reasoning?: string;
  readonly calls?: readonly ScriptedCall[];
  /** Left out: `tool_calls` where there are calls, otherwise `stop`. */
  readonly finish?: "stop" | "tool_calls" | "length" | "content_filter";
};

/** `arguments` is sent as it is if it is a text, and otherwise as JSON. */
export type ScriptedCall = {
  readonly tool: string;
  readonly arguments: unknown;
  readonly id?: string;
};

export type ScriptedUsage = {
  readonly input: number;
  readonly output: number;
  readonly cached?: number;
  readonly reasoning?: number;
};

export type FaultStep = { readonly fault: ScriptedFault };

export type ScriptedFault =
  /** The connection is dropped before a byte of the answer. */
  | { readonly kind: "refuse" }
  /** Nothing comes, ever. */
  | { readonly kind: "hang" }
  /** The first bytes of the reply come, and then nothing. */
  | { readonly kind: "hang_after"; readonly bytes: number; readonly reply: ScriptedReply }
  /** The first bytes of the reply come, and then the connection breaks. */
  | { readonly kind: "cut"; readonly bytes: number; readonly reply: ScriptedReply }
  /** A call whose arguments stop in the middle: the stream ends there, or says `length`. */
  | { readonly kind: "half_call"; readonly call: ScriptedCall; readonly end: "cut" | "length" }
  /** An answer with this status, such as 429 or 500. */
  | {
      readonly kind: "status";
      readonly status: number;
      readonly body?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** A stream whose data is no JSON. */
  | { readonly kind: "garbage" }
  /** The reply, with this wait before each piece. */
  | { readonly kind: "slow"; readonly gapMs: number; readonly reply: ScriptedReply };

/** A request as the scripted model got it. Its key is not kept, only whether there was one. */
export type ScriptedRequest = {
  /** Counts from 1. */
  readonly count: number;
  readonly body: string;
  readonly messages: readonly ScriptedMessage[];
  readonly tools: readonly string[];
  readonly hasKey: boolean;
};

export type ScriptedMessage = {
  readonly role: string;
  /** The text, or the JSON of what else it is. */
  readonly content: string;
  readonly calls: readonly {
    readonly id: string;
    readonly tool: string;
    readonly arguments: string;
  }[];
};

/** Reads a script from JSON text: a list of steps without functions. Fault: `usage`. */
export function parseScript(text: string): Result<Script> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fail(fault("usage", "a script must be JSON"));
  }
  const parsed = v.safeParse(v.array(STEP), value);
  if (parsed.success) return ok(parsed.output);
  const [issue] = parsed.issues;
  return fail(
    fault("usage", `a script cannot be read: ${issue.message}`, v.getDotPath(issue) ?? ""),
  );
}

const COUNT = v.pipe(v.number(), v.integer(), v.minValue(0));

const CALL = v.strictObject({
  tool: v.string(),
  arguments: v.unknown(),
  id: v.exactOptional(v.string()),
});

const REPLY = v.strictObject({
  text: v.exactOptional(v.string()),
  reasoning: v.exactOptional(v.string()),
  calls: v.exactOptional(v.array(CALL)),
  finish: v.exactOptional(v.picklist(["stop", "tool_calls", "length", "content_filter"])),
});

const USAGE = v.strictObject({
  input: COUNT,
  output: COUNT,
  cached: v.exactOptional(COUNT),
  reasoning: v.exactOptional(COUNT),
});

const FAULT = v.variant("kind", [
  v.strictObject({ kind: v.literal("refuse") }),
  v.strictObject({ kind: v.literal("hang") }),
  v.strictObject({ kind: v.literal("hang_after"), bytes: COUNT, reply: REPLY }),
  v.strictObject({ kind: v.literal("cut"), bytes: COUNT, reply: REPLY }),
  v.strictObject({ kind: v.literal("half_call"), call: CALL, end: v.picklist(["cut", "length"]) }),
  v.strictObject({
    kind: v.literal("status"),
    status: COUNT,
    body: v.exactOptional(v.string()),
    headers: v.exactOptional(v.record(v.string(), v.string())),
  }),
  v.strictObject({ kind: v.literal("garbage") }),
  v.strictObject({ kind: v.literal("slow"), gapMs: COUNT, reply: REPLY }),
]);

const COMMON = {
  expect: v.exactOptional(v.array(v.string())),
  when: v.exactOptional(v.string()),
  gate: v.exactOptional(v.string()),
};

const STEP = v.union([
  v.strictObject({ reply: REPLY, usage: v.exactOptional(USAGE), ...COMMON }),
  v.strictObject({ fault: FAULT, ...COMMON }),
]);
