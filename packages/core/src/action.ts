import type { Action, AgentId, DoneOp, Op, TurnId } from "@dev/protocol";
import { actionId, ROOT_AGENT } from "@dev/protocol";
import type { Draft } from "./draft.ts";
import type { State } from "./state.ts";

/** What a step answers: the next state, and what is to be done. */
export type Step = { readonly state: State; readonly actions: readonly Action[] };

/** A step that changes nothing. */
export function still(state: State): Step {
  return { state, actions: [] };
}

/** Gives an op its id. What a `done` names is its turn; the rest belongs to the one in flight. */
export function mint(draft: Draft, op: Op, agent: AgentId = ROOT_AGENT): Draft {
  const { state, actions } = draft;
  const turn = op.kind === "done" ? op.turn : (state.turn?.id ?? (state.highestTurn as TurnId));
  actions.push({ id: actionId(state.nextAction), agent, turn, op });
  state.nextAction += 1;
  return draft;
}

export function done(turn: TurnId, outcome: DoneOp["outcome"], reason: string): DoneOp {
  return { kind: "done", turn, outcome, reason };
}
