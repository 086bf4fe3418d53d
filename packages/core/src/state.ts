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
  /** The highest turn id accepted; 0 before the first. */
  readonly highestTurn: number;
  readonly turn: Turn | null;
  readonly queue: readonly TurnEvent[];
  readonly agent: Agent;
  /** What waits to be put in front of the model. */
  readonly steers: readonly string[];
  readonly plan: readonly PlanItem[];
  readonly tokenCount: number;
  /** Whether anything has changed since the last `Save`. */
  readonly dirty: boolean;
};

/** The turn in flight. */
export type Turn = {
  readonly id: TurnId;
  readonly modelCallCount: number;
  /** How many replies in a row have made just the calls of the last one; 0 before the first. */
  readonly identicalCount: number;
};

/** A conversation and where it stands. */
export type Agent = {
  readonly id: AgentId;
  readonly messages: readonly Message[];
  readonly messageBytes: number;
  /** How many of the messages the host has been told. */
  readonly told: number;
  readonly phase: Phase;
};

export type Phase =
  | { readonly kind: "idle" }
  | { readonly kind: "asking"; readonly action: ActionId }
  /** The calls of one reply, in the order it made them. */
  | { readonly kind: "acting"; readonly slots: readonly Slot[] };

export type Slot =
  | {
      readonly kind: "waiting";
      readonly ref: string;
      readonly action: ActionId;
      readonly family: Family;
    }
  | {
      readonly kind: "answered";
      readonly ref: string;
      readonly text: string;
      readonly failed: boolean;
    };

/** The state of a session before its first turn. */
export function create(config: Config): State {
  return {
    config: kept(config),
    nextAction: 1,
    highestTurn: 0,
    turn: null,
    queue: [],
    agent: { id: ROOT_AGENT, messages: [], messageBytes: 0, told: 0, phase: { kind: "idle" } },
    steers: [],
    plan: [],
    tokenCount: 0,
    dirty: false,
  };
}
