import { act } from "./conversation.ts";
import type { StateDraft } from "./draft.ts";
import { tellText } from "./render.ts";
import type { Slot, State } from "./state.ts";

/** The questions that wait for an answer, of every agent. */
export function openQuestions(state: State): readonly string[] {
  return state.agents.flatMap(({ phase, messages }) => {
    const last = messages.at(-1);
    if (phase.kind !== "acting" || last?.kind !== "assistant") return [];
    return phase.slots.flatMap((slot, index) => {
      const op = last.calls[index]?.op;
      return isQuestion(slot) && op?.kind === "question" ? [op.text] : [];
    });
  });
}

/** Answers every open question with a person's words. */
export function answerQuestions(state: StateDraft, text: string): void {
  const told = tellText(text, state.config.limits.resultBytes);
  for (const agent of state.agents) {
    const { phase } = agent;
    if (phase.kind !== "acting" || !phase.slots.some(isQuestion)) continue;
    const slots = phase.slots.map(
      (slot): Slot => (isQuestion(slot) ? { kind: "answered", ref: slot.ref, ...told } : slot),
    );
    act(agent, slots);
  }
}

function isQuestion(slot: Slot): boolean {
  return slot.kind === "waiting" && slot.family === "reply";
}
