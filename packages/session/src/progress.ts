import type { Observation } from "@dev/cell";
import type { Delta } from "@dev/model";
import type { Action, DoneOp, Event, Fault, SessionId, TurnId, Usage } from "@dev/protocol";

/** What whoever watches a session is told, in the order in which it happens. */
export type Progress =
  | { readonly kind: "turn_started"; readonly turn: TurnId }
  /** An action is about to be performed, or is performed again after a crash. */
  | { readonly kind: "started"; readonly action: Action }
  | { readonly kind: "delta"; readonly action: Action; readonly delta: Delta }
  | {
      readonly kind: "output";
      readonly action: Action;
      readonly stream: "stdout" | "stderr";
      readonly text: string;
    }
  /** A model call is tried again. */
  | { readonly kind: "retried"; readonly action: Action; readonly after: Fault }
  /** The action has its answer, and the store has both. */
  | { readonly kind: "answered"; readonly action: Action; readonly event: Event }
  | { readonly kind: "said"; readonly action: Action; readonly text: string }
  | { readonly kind: "cell"; readonly observation: Observation["kind"]; readonly note: string }
  | { readonly kind: "turn_ended"; readonly end: TurnEnd };

export type TurnEnd = {
  readonly session: SessionId;
  readonly turn: TurnId;
  readonly outcome: DoneOp["outcome"];
  /** Why, for every outcome but `complete`. */
  readonly reason: string;
  /** Of all the turn's model calls. */
  readonly usage: Usage;
  /** The last thing the model said in this turn. */
  readonly message: string;
  /** Whether policy refused any of the last calls that the model made. */
  readonly refused: boolean;
};

/** Asks a person, who may not be there. */
export interface Asker {
  /** Whether this action may be performed. */
  permit(action: Action, reason: string, signal: AbortSignal): Promise<Permit>;
  /** A question of the model's. Null: nobody answered. */
  answer(action: Action, signal: AbortSignal): Promise<Answer | null>;
}

export type Permit =
  | { readonly kind: "once" }
  /** And whatever is like it, for as long as this driver lives. */
  | { readonly kind: "session" }
  | { readonly kind: "no"; readonly message: string };

export type Answer = { readonly text: string; readonly choices: readonly string[] };
