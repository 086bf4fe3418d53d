import type { Action, AgentId, Event, PlanItem } from "@dev/protocol";

/** The plans that agents have written down, to tell of one when it changes. */
export type Plans = {
  /** The plan that this answer changes; null: it changes none. */
  take(action: Action, event: Event): readonly PlanItem[] | null;
};

export function openPlans(): Plans {
  const known = new Map<AgentId, string>();
  return {
    take: (action, event) => {
      const { agent } = action;
      const isTurns = action.op.kind === "model" && action.op.purpose === "turn";
      const items = isTurns ? planIn(event) : null;
      const text = JSON.stringify(items);
      if (items === null || text === (known.get(agent) ?? "[]")) return null;
      known.set(agent, text);
      return items;
    },
  };
}

/** The plan that a model's answer writes down: of several the last, as its core takes it. */
function planIn(event: Event): readonly PlanItem[] | null {
  // What a model that refuses had begun to call is not called.
  if (event.kind !== "model" || event.answer.kind !== "reply") return null;
  if (event.answer.stop === "refusal") return null;
  const last = event.answer.calls.findLast(({ op }) => op.kind === "plan");
  return last?.op.kind === "plan" ? last.op.items : null;
}
