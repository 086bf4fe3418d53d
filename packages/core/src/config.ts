import type { ModelOp, ToolSpec } from "@dev/protocol";
import { isObject, isStatedConfig, wrongPart } from "./shape.ts";

/** What a session's core is made with. It is kept in every snapshot and never changes. */
export type Config = {
  /** `provider/model`. */
  readonly model: string;
  readonly effort: ModelOp["effort"];
  /** The first message of every conversation: who the agent is, and what the project says. */
  readonly prelude: string;
  readonly tools: readonly ToolSpec[];
  readonly limits: Limits;
  /** What the model takes in at most, in tokens; 0: not known, and the provider has to say when it is too much. */
  readonly windowTokens: number;
  /** Whether the model takes images. */
  readonly images: boolean;
  /** The kinds of sub-agent that a model may ask for by name. */
  readonly agents: readonly AgentKind[];
};

/** A kind of sub-agent. The usual one, which has no name, is as the agent that spawns it. */
export type AgentKind = {
  readonly name: string;
  /** When to use it, as the model is told. */
  readonly description: string;
  /** The first message of its conversation. */
  readonly prelude: string;
  /** `provider/model`. */
  readonly model: string;
  readonly windowTokens: number;
  /** The names of the tools it may use, of those that its parent has; null is all of them. */
  readonly tools: readonly string[] | null;
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
  /** In millionths of a US dollar, over the session; 0 is no limit. */
  readonly costMicroUsdPerSession: number;
  /** Of the model's window, the share that the last call may use before the conversation is compacted. */
  readonly compactPercent: number;
  /** What compaction keeps of the newest messages, as JSON; never less than the last one and its calls. */
  readonly keptBytes: number;
  /** How deep sub-agents may be nested; 0 is none at all. Past it a spawn fails in place. */
  readonly agentDepth: number;
  /** Sub-agents at work at a time. Past it a spawn fails in place. */
  readonly agentCount: number;
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
  costMicroUsdPerSession: 0,
  compactPercent: 80,
  keptBytes: 64 * 1024,
  agentDepth: 2,
  agentCount: 8,
  queuedTurns: 64,
  steers: 64,
};

/**
 * What is wrong with what was given as a config, or null where nothing is. What a later release added
 * may be missing.
 */
export function configFlaw(given: unknown): string | null {
  if (!isObject(given)) return "a config is an object";
  if (!isStatedConfig(given)) return "a config has lists of tools and agents, and limits";
  const name = wrongPart(kept(given as Config));
  return name === null ? null : `a config's ${name} is missing or of another type`;
}

/**
 * A config as the core keeps it: with its fields in one order, so that equal configs give equal bytes,
 * and with the default of each limit that a config written by an older release does not name.
 */
export function kept(config: Config): Config {
  const { model, effort, prelude, tools } = config;
  // What an older release wrote lacks what came later.
  const later: Partial<Config> = config;
  return {
    model,
    effort,
    prelude,
    tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    limits: keptLimits(config.limits),
    windowTokens: later.windowTokens ?? 0,
    images: later.images ?? false,
    agents: (later.agents ?? []).map(keptKind),
  };
}

function keptLimits(given: Partial<Limits>): Limits {
  const limits: { -readonly [Name in keyof Limits]: number } = { ...DEFAULT_LIMITS };
  for (const name of LIMIT_NAMES) limits[name] = given[name] ?? limits[name];
  return limits;
}

const LIMIT_NAMES = Object.keys(DEFAULT_LIMITS) as readonly (keyof Limits)[];

function keptKind(kind: AgentKind): AgentKind {
  const { name, description, prelude, model, windowTokens, tools } = kind;
  return { name, description, prelude, model, windowTokens, tools };
}
