import type { Fault } from "./fault.ts";
import type { ActionId, TurnId } from "./id.ts";
import type { Call, Image } from "./message.ts";
import type { Outcome } from "./outcome.ts";

/** What the core is told. Replaying any event is safe: one that was taken before changes nothing. */
export type Event =
  | TurnEvent
  | ModelEvent
  | EffectEvent
  | ReplyEvent
  | TimerEvent
  | SteerEvent
  | CancelEvent;

/** What a turn may do without being asked for: see the policy. */
export type Mode = "plan" | "ask" | "edits" | "full";

export const MODES: readonly Mode[] = ["plan", "ask", "edits", "full"];

/** A prompt. An empty one adds no message: the model is asked to go on where it stopped. */
export type TurnEvent = {
  readonly kind: "turn";
  readonly id: TurnId;
  readonly prompt: string;
  readonly images: readonly Image[];
  readonly mode: Mode;
};

/** The answer to a `Model` action. */
export type ModelEvent = {
  readonly kind: "model";
  readonly id: ActionId;
  readonly answer: ModelAnswer;
  readonly usage: Usage;
  /** What the call cost, in millionths of a US dollar; 0 where its price is not known. */
  readonly costMicroUsd: number;
};

export type ModelAnswer =
  | {
      readonly kind: "reply";
      readonly text: string;
      readonly reasoning: string;
      readonly calls: readonly Call[];
      readonly stop: "end" | "calls" | "length" | "refusal";
      /** See `AssistantMessage`. */
      readonly opaque: string;
    }
  /** `partial` is the text that had arrived; it is never an answer. */
  | { readonly kind: "failed"; readonly fault: Fault; readonly partial: string }
  | { readonly kind: "cancelled"; readonly partial: string };

/** What the provider said was used, in tokens; 0 where it did not say. */
export type Usage = {
  readonly inputTokens: number;
  /** Of the input, those read from the provider's cache. */
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Of the output, those spent on reasoning. */
  readonly reasoningTokens: number;
};

export const NO_USAGE: Usage = {
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};

/** The answer to an effect; `kind` is the family of the op that it answers (see `familyOf`). */
export type EffectEvent = {
  readonly kind: "exec" | "file" | "git" | "browse" | "tool";
  readonly id: ActionId;
  readonly outcome: Outcome;
};

/** A person's answer to a `Question`: one of its choices, several, or words of their own. */
export type ReplyEvent = {
  readonly kind: "reply";
  readonly id: ActionId;
  readonly text: string;
  readonly choices: readonly string[];
};

/** Time has passed: save if anything changed. */
export type TimerEvent = { readonly kind: "timer" };

/** A message put in front of the model at its next call, without ending the turn. */
export type SteerEvent = { readonly kind: "steer"; readonly text: string };

/** Stop that turn, and what is queued behind it. */
export type CancelEvent = { readonly kind: "cancel"; readonly turn: TurnId };
