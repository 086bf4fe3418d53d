import type { Crash } from "./case.ts";
import type { Schedule } from "./schedule.ts";

/** A process that can die: a driver, or an agent. The dead neither hear anything nor do anything. */
export type Party = { readonly name: string; alive: boolean };

/**
 * Counts and names the points at which something can go wrong: each call across a seam, before it and
 * after it. What the case says goes wrong at a point does, before the party that came to it goes on.
 */
export class Steps {
  readonly trace: string[] = [];
  readonly #schedule: Schedule;
  readonly #crashes: readonly Crash[];
  readonly #onCrash: (crash: Crash) => void;
  readonly #watchers: { readonly mark: string; readonly run: () => void }[] = [];
  #count = 0;

  constructor(schedule: Schedule, crashes: readonly Crash[], onCrash: (crash: Crash) => void) {
    this.#schedule = schedule;
    this.#crashes = crashes;
    this.#onCrash = onCrash;
  }

  get count(): number {
    return this.#count;
  }

  /** Comes to a point; false when the party is dead, or dies there. */
  point(party: Party, what: string): boolean {
    if (!party.alive) return false;
    this.#count += 1;
    this.note(`#${this.#count}`, `${party.name}: ${what}`);
    for (const crash of this.#crashes) {
      if (crash.step !== this.#count) continue;
      this.note("", `*** ${crash.kind} ***`);
      this.#onCrash(crash);
    }
    const watching = this.#watchers.findIndex(({ mark }) => what.startsWith(mark));
    if (watching >= 0) this.#watchers.splice(watching, 1)[0]?.run();
    return party.alive;
  }

  /** Comes to a point and waits a while there; to the dead it never resolves. */
  pass(party: Party, what: string, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      if (!this.point(party, what)) return;
      this.#schedule.after(() => {
        if (party.alive) resolve();
      }, ms);
    });
  }

  /** Runs something, once, as soon as any party comes to a point that is called so. */
  watch(mark: string, run: () => void): void {
    this.#watchers.push({ mark, run });
  }

  /** Writes a line of the trace that is no point. */
  note(step: string, what: string): void {
    this.trace.push(`${step.padStart(5)} ${String(this.#schedule.nowMs).padStart(6)} ms  ${what}`);
  }
}
