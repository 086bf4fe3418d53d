import type { Action } from "@dev/protocol";
import type { Clock } from "./clock.ts";

/** How an action's wait ended. */
export type Wait =
  /** It may begin; `end` is called when it has ended, and lets others begin. */
  | { readonly kind: "begin"; readonly end: () => void }
  /** It was cancelled, and will not begin. */
  | { readonly kind: "cancelled" }
  /** Nothing begins any more. */
  | { readonly kind: "closed" };

/**
 * The order in which actions begin: that of their ids, whatever the order in which they come. Those
 * that only read go side by side. One that may change something waits for all before it, and all
 * after it wait for it: so each sees what those before it did, and nothing of those after it.
 */
export class Order {
  readonly #clock: Clock;
  readonly #waiting: Entry[] = [];
  readonly #underWay = new Set<Entry>();
  #gathering = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Waits until it is the action's turn; aborting ends the wait at once. */
  wait(action: Action, signal: AbortSignal): Promise<Wait> {
    return new Promise((settle) => {
      const entry = { action, settle };
      this.#waiting.push(entry);
      signal.addEventListener("abort", () => this.#cancel(entry), { once: true });
      void this.#gather();
    });
  }

  /** What waits is `closed`; what is under way goes on. */
  close(): void {
    for (const { settle } of this.#waiting.splice(0)) settle({ kind: "closed" });
  }

  #cancel(entry: Entry): void {
    const at = this.#waiting.indexOf(entry);
    if (at === -1) return;
    this.#waiting.splice(at, 1);
    entry.settle({ kind: "cancelled" });
    this.#admit();
  }

  /** Calls of one batch arrive together: the first to begin is chosen when they all have. */
  async #gather(): Promise<void> {
    if (this.#gathering) return;
    this.#gathering = true;
    await this.#clock.sleep(0);
    this.#gathering = false;
    this.#admit();
  }

  #admit(): void {
    if (this.#gathering) return;
    this.#waiting.sort((a, b) => a.action.id - b.action.id);
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      if (this.#blocks(first)) return;
      this.#waiting.shift();
      this.#begin(first);
    }
  }

  /** Whether what is under way keeps this one waiting, and with it all behind it. */
  #blocks({ action }: Entry): boolean {
    if (changes(action)) return this.#underWay.size > 0;
    return [...this.#underWay].some((other) => changes(other.action));
  }

  #begin(entry: Entry): void {
    this.#underWay.add(entry);
    const end = (): void => {
      this.#underWay.delete(entry);
      this.#admit();
    };
    entry.settle({ kind: "begin", end });
  }
}

type Entry = { readonly action: Action; readonly settle: (wait: Wait) => void };

/** Whether an action may change something that another one sees. */
function changes({ op }: Action): boolean {
  return op.kind !== "read" && op.kind !== "search";
}
