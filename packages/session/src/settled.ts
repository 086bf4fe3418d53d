import type { ActionId, Event } from "@dev/protocol";
import type { Settled } from "@dev/store";
import type { OpenAction } from "./recovery.ts";

/** The end, in the ledger, of an action whose turn ended before its answer came. */
export function settledUnanswered({ action, standing }: OpenAction, atMs: number): Settled {
  return standing.kind === "minted"
    ? { id: action.id, state: "refused", detail: "its turn ended before dispatch", atMs }
    : { id: action.id, state: "unknown", detail: "its turn ended before its answer", atMs };
}

/** That of an action whose answer came after its turn had ended. */
export function settledLate(id: ActionId, event: Event, atMs: number): Settled {
  const detail = `late: ${JSON.stringify(event)}`.slice(0, LATE_DETAIL_LIMIT);
  return { id, state: lateState(event), detail, atMs };
}

/** That of a question that a person's message answered. */
export function settledByMessage(given: OpenAction, text: string, atMs: number): Settled {
  const detail = `answered by a message: ${text.slice(0, MESSAGE_DETAIL_LIMIT)}`;
  const state = given.standing.kind === "minted" ? "refused" : "completed";
  return { id: given.action.id, state, detail, atMs };
}

/** Of a late result, what the ledger keeps as its detail, in characters. */
const LATE_DETAIL_LIMIT = 16 * 1024;
/** Of a message, which the journal has whole. */
const MESSAGE_DETAIL_LIMIT = 1_000;

/** What a late event says of its action, in the ledger's words. */
function lateState(event: Event): Settled["state"] {
  if (!("outcome" in event)) return "completed";
  const { kind } = event.outcome;
  return kind === "refused" || kind === "unknown" ? kind : "completed";
}
