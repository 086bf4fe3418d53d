import type { Action, ActionId, Event } from "@dev/protocol";
import type { Prompt } from "./turns.ts";

/** An event and what the core minted of it. */
export type Stepped = { readonly event: Event; readonly minted: readonly Action[] };

/**
 * The text with which a step answered every question that was open; null where it is no answer. A
 * steer answers them; and so does a prompt, which then is a turn that is complete at once: one that
 * is no answer would wait behind the turn that has the questions.
 */
export function answerIn({ event, minted }: Stepped): string | null {
  if (event.kind === "steer") return event.text;
  if (event.kind !== "turn" || event.prompt === "") return null;
  const isTaken = minted.some(
    ({ op }) => op.kind === "done" && op.turn === event.id && op.outcome === "complete",
  );
  return isTaken ? event.prompt : null;
}

/** The action that an event answers by its id; null for one that answers none. */
export function answeredId(event: Event): ActionId | null {
  return "id" in event && event.kind !== "turn" ? event.id : null;
}

/** Whether a prompt may be an answer at all. */
export function mayAnswer({ text, images }: Prompt): boolean {
  return text !== "" && images.length === 0;
}
