import type { ModelEvent } from "@dev/protocol";
import { type Step, still } from "./action.ts";
import { drafted, type StateDraft } from "./draft.ts";
import { countedTokens, sum } from "./limit.ts";
import { type State, UNHEARD_LIMIT, type Unheard } from "./state.ts";

/** Counts what an answer about a conversation of so many bytes has used. */
export function count(state: StateDraft, event: ModelEvent, messageBytes: number): void {
  const tokens = countedTokens(state.config.limits, event, messageBytes);
  state.tokenCount = sum(state.tokenCount, tokens);
  state.costMicroUsd = sum(state.costMicroUsd, event.costMicroUsd);
  state.dirty = true;
}

/** Keeps the asks that are out as their turn ends: what they used counts when it is known. */
export function leaveUnheard(state: StateDraft): void {
  const out = state.agents.flatMap(({ phase, messageBytes }): Unheard[] =>
    "action" in phase ? [{ action: phase.action, messageBytes }] : [],
  );
  out.sort((a, b) => a.action - b.action);
  state.unheard = [...state.unheard, ...out].slice(-UNHEARD_LIMIT);
}

/** Hears an answer whose turn has ended, for what it used; what it says is not heard. */
export function hearLate(before: State, event: ModelEvent): Step {
  const late = before.unheard.find(({ action }) => action === event.id);
  if (late === undefined) return still(before);
  const draft = drafted(before);
  draft.state.unheard = before.unheard.filter((each) => each !== late);
  count(draft.state, event, late.messageBytes);
  return draft;
}
