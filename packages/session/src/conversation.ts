import type { Ask } from "@dev/model";
import type { Action, AgentId, Message } from "@dev/protocol";

/**
 * The conversations that a core's asks tell of, put together from their deltas. Feeding it every
 * model action of the ledger in id order rebuilds it after a restart.
 */
export class Conversations {
  readonly #told = new Map<AgentId, Ask>();

  /** Takes the next ask of an agent. */
  take(action: Action): void {
    const { op, agent } = action;
    if (op.kind !== "model") throw new Error(`action ${action.id} asks no model`);
    const before = this.#told.get(agent);
    const told = { prelude: op.prelude, tools: op.tools, messages: [...op.messages] };
    const next =
      op.from === 0 || before === undefined
        ? told
        : continued(before, op.from, op.messages, action.id);
    this.#told.set(agent, { ...next, model: op.model, effort: op.effort });
  }

  /** All that the model is to be sent for the last ask of an agent. */
  ask(agent: AgentId): Ask {
    const told = this.#told.get(agent);
    if (told === undefined) throw new Error(`agent ${agent} has asked nothing`);
    return told;
  }
}

function continued(
  before: Ask,
  from: number,
  messages: readonly Message[],
  id: number,
): Omit<Ask, "model" | "effort"> {
  if (from !== before.messages.length) {
    throw new Error(`action ${id} tells from ${from}, and ${before.messages.length} were told`);
  }
  return { ...before, messages: [...before.messages, ...messages] };
}
