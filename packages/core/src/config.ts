import type { ModelOp, ToolSpec } from "@dev/protocol";

/** What a session's core is made with. It is kept in every snapshot and never changes. */
export type Config = {
  /** `provider/model`. */
  readonly model: string;
  readonly effort: ModelOp["effort"];
  /** The first message of every conversation: who the agent is, and what the project says. */
  readonly prelude: string;
  readonly tools: readonly ToolSpec[];
  readonly limits: Limits;
};

/** Reaching one ends the turn as `limit`, saying which, with the figure; see the fields for others. */
export type Limits = {
  readonly modelCallsPerTurn: number;
  /** Replies in a row that make the same calls. */
  readonly identicalReplies: number;
  readonly callsPerReply: number;
  /** A prompt with its images, or a reply, as JSON; and what waits as steers. In bytes of UTF-8. */
  readonly messageBytes: number;
  /** A call's result as the model is told of it: past it the middle is cut, and that is said. */
  readonly resultBytes: number;
  /** All messages as JSON, and the prompts that wait to be among them. */
  readonly conversationBytes: number;
  /** Input and output together, over the session; 0 is no limit. */
  readonly tokensPerSession: number;
  /** Turns waiting behind the one in flight: past it a turn is ended at once. */
  readonly queuedTurns: number;
  /** Steers waiting for the next model call: past it the oldest are joined into one. */
  readonly steers: number;
};

export const DEFAULT_LIMITS: Limits = {
  modelCallsPerTurn: 200,
  identicalReplies: 5,
  callsPerReply: 64,
  messageBytes: 4 * 1024 * 1024,
  resultBytes: 64 * 1024,
  conversationBytes: 14 * 1024 * 1024,
  tokensPerSession: 0,
  queuedTurns: 64,
  steers: 64,
};

/**
 * A config as the core keeps it: with its fields in one order, so that equal configs give equal bytes,
 * and with the default of each limit that a config written by an older release does not name.
 */
export function kept({ model, effort, prelude, tools, limits }: Config): Config {
  const given: Partial<Limits> = limits;
  const named = Object.entries(DEFAULT_LIMITS).map(([name, value]) => [
    name,
    given[name as keyof Limits] ?? value,
  ]);
  return {
    model,
    effort,
    prelude,
    tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    limits: Object.fromEntries(named) as Limits,
  };
}
