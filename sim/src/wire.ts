import type { Schedule } from "./schedule.ts";

/** One direction of a link: what is sent arrives in order, some time later, unless it is cut before. */
export class Wire {
  readonly #schedule: Schedule;
  readonly #queue: (() => void)[] = [];
  #isCut = false;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  /** Each message takes its time; one that is faster than the one before waits for it. */
  send(deliver: () => void): void {
    this.#queue.push(deliver);
    this.#schedule.after(() => {
      const next = this.#queue.shift();
      if (!this.#isCut) next?.();
    });
  }

  /** Loses what is on its way and whatever is sent later. */
  cut(): void {
    this.#isCut = true;
  }
}
