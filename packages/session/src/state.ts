import type { Action, Event, TurnId } from "@dev/protocol";
import type { SessionState } from "@dev/store";

/**
 * A session's state after an event: that of the turn in flight, if there is one, whatever else ended.
 * `inFlight`: the turn in flight before it.
 */
export function stateAfter(
  event: Event,
  minted: readonly Action[],
  before: SessionState,
  inFlight: TurnId | null,
): SessionState {
  let state: SessionState = event.kind === "turn" ? "active" : before;
  let turn = inFlight;
  for (const { op } of minted) {
    if (op.kind === "model") state = "active";
    if (op.kind !== "done" || (turn !== null && op.turn !== turn)) continue;
    state = op.outcome;
    turn = null;
  }
  return state;
}
