import type { Ask } from "@dev/model";
import type { Action, AgentId, Message, ModelOp, TurnId } from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";

/** What a compaction is to put a summary in the place of. */
export type Extent = { readonly messageCount: number; readonly sizeBytes: number };

/**
 * The conversations that a core's asks tell of, put together from their deltas. Feeding it every
 * model action and every `done` of the ledger in id order rebuilds it after a restart.
 */
export class Conversations {
  readonly #told = new Map<AgentId, Told>();

  /** Takes the next ask of an agent: a delta, which takes the place of all from its index on. */
  take(action: Action): void {
    const { op, agent, turn, id } = action;
    if (op.kind !== "model") throw new Error(`action ${id} asks no model`);
    if (op.from === 0) {
      this.#told.set(agent, { turn, op, begun: op, messages: [...op.messages] });
      return;
    }
    const before = this.#told.get(agent);
    const toldCount = before?.messages.length ?? 0;
    if (before === undefined || op.from > toldCount) {
      throw new Error(`action ${id} tells from ${op.from}, and ${toldCount} were told`);
    }
    // In place: what an ask costs follows what is new in it.
    before.messages.splice(op.from, toldCount - op.from, ...op.messages);
    this.#told.set(agent, { ...before, turn, op });
  }

  /** Forgets the sub-agents of a turn that has ended: they end with it at the latest. */
  retire(turn: TurnId): void {
    for (const [agent, told] of this.#told) {
      if (agent !== ROOT_AGENT && told.turn === turn) this.#told.delete(agent);
    }
  }

  /** All that the model is to be sent for the last ask of an agent. */
  ask(agent: AgentId): Ask {
    const { op, begun, messages } = this.#toldTo(agent);
    const { model, effort } = op;
    // A copy, since the next ask changes what is kept while this one may still be tried again.
    return {
      model,
      effort,
      prelude: begun.prelude,
      tools: begun.tools,
      messages: messages.slice(),
    };
  }

  /** What the last ask of an agent is about, being one that compacts: all but its instruction. */
  extent(agent: AgentId): Extent {
    const messages = this.#toldTo(agent).messages.slice(0, -1);
    const sizeBytes = messages.reduce((sum, each) => sum + sizeOf(each), 0);
    return { messageCount: messages.length, sizeBytes };
  }

  #toldTo(agent: AgentId): Told {
    const told = this.#told.get(agent);
    if (told === undefined) throw new Error(`agent ${agent} has asked nothing`);
    return told;
  }
}

type Told = {
  /** Of the last ask, as `op`. */
  readonly turn: TurnId;
  readonly op: ModelOp;
  /** The ask that told it from its start: it has the prelude and the tools. */
  readonly begun: ModelOp;
  readonly messages: Message[];
};

function sizeOf(message: Message): number {
  return Buffer.byteLength(JSON.stringify(message));
}
