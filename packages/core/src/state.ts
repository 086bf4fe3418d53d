import type {
  ActionId,
  AgentId,
  Family,
  Message,
  PlanItem,
  TurnEvent,
  TurnId,
} from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";
import { type Config, kept } from "./config.ts";

/** All that the core knows. It is never changed in place: a step answers with the next one. */
export type State = {
  readonly config: Config;
  /** The id that the next action gets. */
  readonly nextAction: number;
  /** The id that the next sub-agent gets. */
  readonly nextAgent: number;
  /** The highest turn id accepted; 0 before the first. */
  readonly highestTurn: number;
  readonly turn: Turn | null;
  readonly queue: readonly TurnEvent[];
  /** What waits to be put in front of the session's own agent. */
  readonly steers: readonly string[];
  /** The last steer that was taken, until a model has answered since: it is known again by its text. */
  readonly lastSteer: string;
  /**
   * Input and output of every model call of the session, together. Where tokens are limited, a reply for
   * which the provider said nothing counts as an estimate.
   */
  readonly tokenCount: number;
  readonly costMicroUsd: number;
  /** The model calls that were out when their turn ended, at most `UNHEARD_LIMIT`: they still cost. */
  readonly unheard: readonly Unheard[];
  /** Whether anything has changed since the last `Save`. */
  readonly dirty: boolean;
  /** The session's own agent, and behind it the sub-agents at work, in the order of their ids. */
  readonly agents: readonly Agent[];
};

/** A model call whose answer is heard for what it used alone. */
export type Unheard = {
  readonly action: ActionId;
  /** What the conversation weighed that it was asked about. */
  readonly messageBytes: number;
};

/** Of more, the oldest are forgotten. */
export const UNHEARD_LIMIT = 256;

/** The turn in flight. */
export type Turn = {
  readonly id: TurnId;
  /** Those of every agent, and those that summarise. */
  readonly modelCallCount: number;
};

/** A conversation and where it stands. */
export type Agent = {
  readonly id: AgentId;
  /** The agent that spawned it and waits for it; null for the session's own. */
  readonly parent: AgentId | null;
  /** How many agents are above it. */
  readonly depth: number;
  /** Its kind in the config; empty is the usual one. */
  readonly kind: string;
  /** The names of the tools it was given. */
  readonly tools: readonly string[];
  readonly messages: readonly Message[];
  /** What they weigh, and the results that wait to be among them. */
  readonly messageBytes: number;
  /** How many of the messages the host has been told; the next ask begins with those behind them. */
  readonly told: number;
  readonly phase: Phase;
  readonly plan: readonly PlanItem[];
  /** How many replies in a row have made just the calls of the last one; 0 before the first of a turn. */
  readonly identicalCount: number;
  /** Input and output of its last answer, as far as the provider said; 0 where it never did. */
  readonly usedTokens: number;
  readonly summary: Summary;
};

/**
 * Whether its first message stands for what was said before. It is `fresh` until an answer has shown,
 * or another turn may show, that the conversation fits its window again, and `last` when it took
 * the place of one that was fresh: there is no third in a row.
 */
export type Summary = "none" | "fresh" | "last" | "settled";

export type Phase =
  | { readonly kind: "idle" }
  | { readonly kind: "asking"; readonly action: ActionId }
  /** The messages before `cut` are being summarised; then the model is asked on, or the turn ends. */
  | {
      readonly kind: "compacting";
      readonly action: ActionId;
      readonly cut: number;
      readonly next: "ask" | "end";
    }
  /** The calls of one reply, in the order it made them. */
  | { readonly kind: "acting"; readonly slots: readonly Slot[] };

export type Slot =
  | {
      readonly kind: "waiting";
      readonly ref: string;
      readonly action: ActionId;
      readonly family: Family;
    }
  /** A sub-agent is at work on it. */
  | { readonly kind: "spawned"; readonly ref: string; readonly agent: AgentId }
  | {
      readonly kind: "answered";
      readonly ref: string;
      readonly text: string;
      readonly failed: boolean;
    };

/** The state of a session before its first turn. */
export function create(config: Config): State {
  const known = kept(config);
  return {
    config: known,
    nextAction: 1,
    nextAgent: 1,
    highestTurn: 0,
    turn: null,
    queue: [],
    steers: [],
    lastSteer: "",
    tokenCount: 0,
    costMicroUsd: 0,
    unheard: [],
    dirty: false,
    agents: [
      {
        id: ROOT_AGENT,
        parent: null,
        depth: 0,
        kind: "",
        tools: known.tools.map(({ name }) => name),
        ...NOTHING_SAID,
      },
    ],
  };
}

/** A conversation in which nothing was said yet. */
export const NOTHING_SAID: Omit<Agent, "id" | "parent" | "depth" | "kind" | "tools"> = {
  messages: [],
  messageBytes: 0,
  told: 0,
  phase: { kind: "idle" },
  plan: [],
  identicalCount: 0,
  usedTokens: 0,
  summary: "none",
};
