import type { Observation } from "@dev/cell";
import type { Delta } from "@dev/model";
import type { Action, DoneOp, Event, Fault, SessionId, TurnId, Usage } from "@dev/protocol";
import type { Extent } from "./conversation.ts";
import type { Member, MemberEnd } from "./roster.ts";

/** What whoever watches a session is told, in the order in which it happens. */
export type Progress =
  | { readonly kind: "turn_started"; readonly turn: TurnId }
  /** A sub-agent is at work, or is again after a crash. Its actions carry its id. */
  | { readonly kind: "agent_started"; readonly member: Member }
  | { readonly kind: "agent_ended"; readonly member: Member; readonly end: MemberEnd }
  /** An agent's conversation is about to be shortened by this action: all that is in `extent`. */
  | { readonly kind: "compacting"; readonly action: Action; readonly extent: Extent }
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
  /** The answer came after its turn had ended: it is written down, and changes nothing else. */
  | { readonly kind: "late"; readonly action: Action; readonly event: Event }
  /** Nobody was there to answer this question: the model is about to be told so. */
  | { readonly kind: "unanswered"; readonly action: Action }
  /** A person's message stands for the answer to this question. */
  | { readonly kind: "overtaken"; readonly action: Action; readonly text: string }
  | { readonly kind: "said"; readonly action: Action; readonly text: string }
  | { readonly kind: "cell"; readonly observation: Observation["kind"]; readonly note: string }
  /** What it came to is known once `run` answers: model calls that were out are waited for. */
  | { readonly kind: "turn_ended"; readonly turn: TurnId };

export type TurnEnd = {
  readonly session: SessionId;
  readonly turn: TurnId;
  readonly outcome: DoneOp["outcome"];
  /** Why, for every outcome but `complete`. */
  readonly reason: string;
  /** Of all the turn's model calls, whichever agent made them and whatever for. */
  readonly usage: Usage;
  /** Likewise, in millionths of a US dollar; 0 where no price is known. */
  readonly costMicroUsd: number;
  /** The last thing that was said in this turn: by the session's own agent, or about the session. */
  readonly message: string;
  /** What the session's own agent answered, whole or cut: the text of a reply with no calls. */
  readonly answer: string;
  /** Whether policy refused any of the last calls that were made, those of sub-agents included. */
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
