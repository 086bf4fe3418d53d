import type { Limits } from "@dev/core";
import type { LimitKey } from "./settings-file.ts";

/** The names in a file of settings, and the limits of the core that they set. */
export const LIMIT_KEYS: Readonly<Record<LimitKey, keyof Limits>> = {
  model_calls_per_turn: "modelCallsPerTurn",
  identical_replies: "identicalReplies",
  calls_per_reply: "callsPerReply",
  tokens_per_session: "tokensPerSession",
  cost_per_session: "costMicroUsdPerSession",
  compact_percent: "compactPercent",
  agent_depth: "agentDepth",
  agent_count: "agentCount",
};

/** A limit that was reached, as the settings know it. */
export type Reached = {
  /** What was reached, by the name that the settings have for it. */
  readonly text: string;
  /** Whether every later turn of the session would end at once, since it keeps its limits. */
  readonly isSessions: boolean;
};

/** Reads a core's words for the limit that it reached: its name for it comes first. */
export function reached(reason: string): Reached {
  const [, name, figures] = /^(\w+)(: .*)$/s.exec(reason) ?? [];
  const key = KEYS.find((each) => LIMIT_KEYS[each] === name);
  if (key === undefined || figures === undefined) return { text: reason, isSessions: false };
  const isSessions = key === "cost_per_session" || key === "tokens_per_session";
  return { text: key + figures, isSessions };
}

const KEYS = Object.keys(LIMIT_KEYS) as readonly LimitKey[];
