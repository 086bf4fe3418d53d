import type { Chance } from "./chance.ts";

/** Virtual time does not go past this: whatever waits longer is stuck. */
const LAST_MS = 3_600_000;
/** Nor do more events than this happen: whatever goes on longer goes round in circles. */
const EVENT_LIMIT = 50_000;
/** An ordinary wait is shorter than this, so that waits of several parties meet and mix. */
const WAIT_LIMIT_MS = 6;

type Due = { readonly atMs: number; readonly order: number; readonly run: () => void };

/**
 * Virtual time. Events run one after another, in the order of their times; chance orders those of one
 * time. Between two of them every promise that can settle does, so the seed alone decides all order.
 */
export class Schedule {
  readonly #chance: Chance;
  readonly #queue: Due[] = [];
  #nowMs = 0;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Runs something after a while; without `ms`, after a short one that chance decides. */
  after(run: () => void, ms: number = 1 + this.#chance.below(WAIT_LIMIT_MS)): void {
    this.#queue.push({ atMs: this.#nowMs + ms, order: this.#chance.next(), run });
  }

  /** Runs what is due until `isOver`, and says why it stopped. */
  async run(isOver: () => boolean): Promise<"over" | "stuck" | "endless"> {
    for (let count = 0; count < EVENT_LIMIT; count++) {
      await settled();
      if (isOver()) return "over";
      const due = this.#take();
      if (due === undefined) return "stuck";
      if (due.atMs > LAST_MS) return "endless";
      this.#nowMs = due.atMs;
      due.run();
    }
    return "endless";
  }

  #take(): Due | undefined {
    let first = 0;
    for (const [index, due] of this.#queue.entries()) {
      const best = this.#queue[first];
      if (best === undefined || comesBefore(due, best)) first = index;
    }
    return this.#queue.splice(first, 1)[0];
  }
}

function comesBefore(a: Due, b: Due): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** Resolves when no promise is left that could settle by itself: an immediate runs after them all. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
