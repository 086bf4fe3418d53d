import type { Candidate } from "./candidate.ts";
import type { Had } from "./trial/trial.ts";

export const LATE_LIMITS = {
  /** Of what came to its deadline, those that are tried once more with nothing else left to try. */
  lastCount: 40,
  /** One that had all of its deadline has so many times as long. */
  factor: 5,
  /** What passed a test that is known to fail has at least this. */
  nearMs: 5_000,
  /** What had but a part of its deadline has the whole beside the others, for this share of the time, after a while. */
  partShare: 0.15,
  partAfterMs: 1_500,
  /** The same for what passed a test that is known to fail, of which the first is never waited with. */
  nearShare: 0.3,
} as const;

/** A candidate that was stopped at its deadline; `isLast` where it had the most that it will have. */
export type LateOne = {
  readonly candidate: Candidate;
  readonly rank: number;
  readonly had: Had;
  readonly isLast: boolean;
};

/** How much time there is for those that were stopped, in milliseconds since the search began. */
export type Spare = { readonly elapsedMs: number; readonly isHalfway: boolean };

/** Those that were stopped at their deadlines, and when each may have more: a fix may be slower than the fault. */
export class Late {
  readonly #waiting: LateOne[] = [];
  #spentMs = 0;
  #nearCount = 0;
  #count = 0;

  push(one: LateOne): void {
    if (!one.isLast) this.#waiting.push(one);
  }

  /** One was tried again, and took so long. */
  spent(durationMs: number): void {
    this.#spentMs += durationMs;
  }

  /** The one that is to be tried next, before any other; undefined where they have to wait. */
  next({ elapsedMs, isHalfway }: Spare): LateOne | undefined {
    const { nearShare, partShare, partAfterMs, lastCount } = LATE_LIMITS;
    const isAffordable = (share: number) => this.#spentMs <= share * elapsedMs;
    if (this.#nearCount === 0 || isAffordable(nearShare)) {
      const near = this.#taken("near");
      if (near !== undefined) this.#nearCount += 1;
      if (near !== undefined) return near;
    }
    if (elapsedMs >= partAfterMs && isAffordable(partShare)) {
      const part = this.#taken("part");
      if (part !== undefined) return part;
    }
    if (!isHalfway || this.#count >= lastCount) return undefined;
    this.#count += 1;
    return this.#taken("whole");
  }

  /** With nothing else left to try: the likeliest of all. */
  rest(): LateOne[] {
    const order: readonly Had[] = ["near", "part", "whole"];
    const all = this.#waiting.splice(0);
    const sorted = all.toSorted((a, b) => order.indexOf(a.had) - order.indexOf(b.had));
    return sorted.slice(0, LATE_LIMITS.lastCount);
  }

  #taken(had: Had): LateOne | undefined {
    const at = this.#waiting.findIndex((one) => one.had === had);
    return at < 0 ? undefined : this.#waiting.splice(at, 1)[0];
  }
}

/** What one has that is tried again, where a candidate has `deadlineMs`. */
export function moreMs(had: Had, deadlineMs: number): number {
  const { factor, nearMs } = LATE_LIMITS;
  if (had === "part") return deadlineMs;
  return had === "near" ? Math.max(nearMs, deadlineMs * factor) : deadlineMs * factor;
}
