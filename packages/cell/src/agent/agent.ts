import {
  type Action,
  type ActionId,
  effectFamily,
  encodeEvent,
  type Fault,
  fail,
  fault,
  isEffect,
  never,
  type Outcome,
  ok,
  type Result,
} from "@dev/protocol";
import type { Clock } from "./clock.ts";
import type { Evidence } from "./log.ts";
import { Order } from "./order.ts";
import type { Spool } from "./spool.ts";

/** What performs the actions. The agent asks each of them at most once, whatever it is asked. */
export interface Effects {
  /** Looks at the world and changes nothing: an answer already, or what is to be done. */
  plan(action: Action, signal: AbortSignal): Promise<Plan>;
  /** What became of an effect that an agent of before had begun. */
  recover(id: ActionId, evidence: Evidence): Promise<Recovery>;
  /** The outcome of this action is durable: what was kept as evidence may go. */
  settled(id: ActionId): void;
  /** Kills every process that was started, those in the background too. */
  killAll(): Promise<void>;
}

export type Plan =
  | { readonly kind: "done"; readonly outcome: Outcome }
  | {
      readonly kind: "effect";
      /** Durable before `run` is called. */
      readonly evidence: Evidence;
      readonly run: (onOutput: OnText, signal: AbortSignal) => Promise<Outcome>;
    };

export type Recovery =
  | { readonly kind: "ended"; readonly outcome: Outcome }
  /** There is proof that it did not happen: it may be performed when it is asked for again. */
  | { readonly kind: "never" };

export type OnText = (stream: "stdout" | "stderr", text: string) => void;

/** Actions that may be under way at once, with those that wait for their turn. */
export const AGENT_RUNNING_LIMIT: number = 256;

/**
 * Performs actions, each once for ever: what it was asked before is answered from the spool. They begin
 * in the order of their ids, and only those that change nothing go side by side: see `Order`.
 */
export class Agent {
  readonly #spool: Spool;
  readonly #effects: Effects;
  readonly #order: Order;
  readonly #running = new Map<ActionId, Running>();
  #state: "open" | "ending" = "open";

  private constructor(spool: Spool, effects: Effects, clock: Clock) {
    this.#spool = spool;
    this.#effects = effects;
    this.#order = new Order(clock);
  }

  /**
   * Takes over a spool. What the agent of before had begun and not ended is decided now, from the
   * evidence, before anything new can blur it. Fault: `io`.
   */
  static async open(spool: Spool, effects: Effects, clock: Clock): Promise<Result<Agent>> {
    for (const { id, evidence } of spool.unfinished()) {
      const recovery = await effects.recover(id, evidence);
      const written =
        recovery.kind === "never"
          ? await spool.forget(id)
          : await spool.finish(id, eventOf(id, evidence, recovery.outcome));
      if (!written.ok) return written;
    }
    return ok(new Agent(spool, effects, clock));
  }

  /** The spool's identity. */
  get identity(): string {
    return this.#spool.identity;
  }

  /**
   * Performs an action, or joins it, or answers from the spool; the answer is an encoded event. A fault
   * (`limit`, `link_lost`, `bad_call`) says that this call had no effect, not that none ever did.
   */
  async perform(action: Action, onOutput: OnText): Promise<Result<Uint8Array>> {
    const joined = this.#running.get(action.id);
    if (joined !== undefined) {
      joined.listeners.add(onOutput);
      return joined.event;
    }
    const known = this.#spool.find(action.id);
    switch (known.kind) {
      case "finished":
        return ok(known.event);
      case "acknowledged":
        return ok(encoded(action, { kind: "failed", fault: acknowledgedFault(action.id) }));
      case "started":
        throw new Error(`action ${action.id} is started, and neither runs nor was recovered`);
      case "never":
        break;
      default:
        return never(known);
    }
    const refusal = this.#refusal(action);
    return refusal === null ? this.#begin(action, onOutput).event : fail(refusal);
  }

  /** Stops an action that is under way or waits; its answer says what came of it. */
  cancel(id: ActionId): void {
    this.#running.get(id)?.abort.abort();
  }

  /** These outcomes are safe elsewhere. */
  async acknowledge(ids: readonly ActionId[]): Promise<Result<void>> {
    return this.#spool.acknowledge(ids);
  }

  /**
   * Nobody listens any more: begins nothing new, lets what runs end (each has its deadline) with its
   * outcome in the spool, and kills what runs in the background. Of what still waits nothing is in the
   * spool: the next agent performs it when it is asked to.
   */
  async finish(): Promise<void> {
    this.#state = "ending";
    this.#order.close();
    await this.#idle();
    await this.#effects.killAll();
    await this.#spool.close();
  }

  /** Ends everything at once; what was running is `cancelled` in the spool. */
  async close(): Promise<void> {
    this.#state = "ending";
    for (const running of this.#running.values()) running.abort.abort();
    await this.#effects.killAll();
    await this.#idle();
    // What had just been about to start is dead now too.
    await this.#effects.killAll();
    await this.#spool.close();
  }

  #refusal(action: Action): Fault | null {
    if (!isEffect(action.op)) {
      return fault("bad_call", `a cell performs no ${action.op.kind}`, `action ${action.id}`);
    }
    if (this.#state === "ending") return ENDING;
    if (this.#running.size < AGENT_RUNNING_LIMIT) return null;
    const message = `${AGENT_RUNNING_LIMIT} actions are under way in the cell`;
    return fault("limit", message, "AGENT_RUNNING_LIMIT", "wait for one");
  }

  #begin(action: Action, onOutput: OnText): Running {
    const abort = new AbortController();
    const listeners = new Set([onOutput]);
    const event = this.#inTurn(action, listeners, abort.signal);
    const running = { abort, listeners, event };
    this.#running.set(action.id, running);
    void event.finally(() => this.#running.delete(action.id));
    return running;
  }

  async #inTurn(
    action: Action,
    listeners: Set<OnText>,
    signal: AbortSignal,
  ): Promise<Result<Uint8Array>> {
    const wait = await this.#order.wait(action, signal);
    switch (wait.kind) {
      case "begin": {
        const event = await this.#run(action, listeners, signal);
        wait.end();
        return ok(event);
      }
      case "cancelled":
        return ok(await this.#end(action, NEVER_BEGAN));
      case "closed":
        return fail(ENDING);
      default:
        return never(wait);
    }
  }

  async #run(action: Action, listeners: Set<OnText>, signal: AbortSignal): Promise<Uint8Array> {
    const plan = await this.#effects.plan(action, signal);
    if (plan.kind === "done") return this.#end(action, plan.outcome);
    if (signal.aborted) return this.#end(action, NEVER_BEGAN);
    const started = await this.#spool.start(action.id, plan.evidence);
    // It has not begun, and nothing says that it has: it may be asked for again.
    if (!started.ok) return encoded(action, { kind: "failed", fault: started.fault });
    if (signal.aborted) return this.#end(action, NEVER_BEGAN);
    const onOutput: OnText = (stream, text) => {
      for (const listener of listeners) listener(stream, text);
    };
    return this.#end(action, await plan.run(onOutput, signal));
  }

  async #end(action: Action, outcome: Outcome): Promise<Uint8Array> {
    const event = encoded(action, outcome);
    const written = await this.#spool.finish(action.id, event);
    // When it could not be written it is answered none the less: the truth is better than `unknown`,
    // and should the answer be lost too, the next agent finds `started` and says no more than it knows.
    if (written.ok) this.#effects.settled(action.id);
    return event;
  }

  async #idle(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.all([...this.#running.values()].map((running) => running.event));
    }
  }
}

type Running = {
  readonly abort: AbortController;
  readonly listeners: Set<OnText>;
  readonly event: Promise<Result<Uint8Array>>;
};

const ENDING: Fault = fault("link_lost", "the agent is ending", "the cell");
const NEVER_BEGAN: Outcome = { kind: "cancelled", known: "it was stopped before it began" };

function encoded(action: Action, outcome: Outcome): Uint8Array {
  if (!isEffect(action.op)) throw new Error(`no effect: ${action.op.kind}`);
  return encodeEvent({ kind: effectFamily(action.op), id: action.id, outcome });
}

/** The event of an action of which only the evidence is left. */
function eventOf(id: ActionId, evidence: Evidence, outcome: Outcome): Uint8Array {
  return encodeEvent({ kind: evidence.kind, id, outcome });
}

function acknowledgedFault(id: ActionId): Fault {
  const message = `action ${id} was performed, and its outcome was acknowledged`;
  return fault("diverged", message, "the cell's spool", "its outcome is in the session's ledger");
}
