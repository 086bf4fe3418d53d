import { setMaxListeners } from "node:events";
import type { Change } from "./action.ts";
import type { Candidate } from "./candidate.ts";
import { Deadlines } from "./deadline.ts";
import { TIMER_MAX_MS } from "./execution.ts";
import { Late, type LateOne, moreMs } from "./late.ts";
import type { Ledger, Open } from "./ledger.ts";
import { candidates } from "./operator/candidates.ts";
import { symptomsOf } from "./operator/symptom.ts";
import type { Revision } from "./revision.ts";
import type { Scene } from "./scene.ts";
import type { Trials } from "./trial/trial.ts";
import { record } from "./tried.ts";

/** A candidate that the trials let pass, and its action, which is `validated`. */
export type Passing = {
  candidate: Candidate;
  readonly action: Open;
  /** How many were begun before it. */
  readonly rank: number;
};

export type Hunt = {
  /** In order of weight. */
  readonly passing: readonly Passing[];
  readonly triedCount: number;
  readonly end: "exhausted" | "gathered" | "late" | "settled";
};

export type HuntOptions = {
  readonly scene: Scene;
  /** A better ranking, which takes the place of the first as soon as it is there. */
  readonly better: Promise<Scene>;
  readonly trials: Trials;
  readonly revision: Revision;
  readonly ledger: Ledger;
  /** How long the tests take, to set deadlines by. */
  readonly baseMs: number;
  /** They do not end. */
  readonly isHanging: boolean;
  readonly leftMs: () => number;
  /** Whether to go on with nothing found. */
  readonly isLate: () => boolean;
  /** Whether so much of the time is gone that what was stopped at its deadline should have more. */
  readonly isHalfway: () => boolean;
  readonly nowMs: () => number;
  /** Told of the first that passes, while others are still tried; it is dropped where this says no. */
  readonly onFirst: (passing: Passing) => Promise<boolean>;
  readonly onTry: (candidate: Candidate, triedCount: number) => void;
};

export const HUNT_LIMITS = {
  /** After the first that passes, others are gathered for as long, and as many, as it took to find it, within these. */
  gatherLeastMs: 1_000,
  gatherMostMs: 3_000,
  gatherShare: 1,
  gatherLeastCount: 150,
  gatherMostCount: 800,
  passingCount: 12,
  /** How long nothing else is tried while the first that passed is verified. */
  pauseMs: 1_500,
  /** A candidate this much less likely than the first that passed has nothing to say. */
  weightShare: 1e-4,
} as const;

/** Of a signal, who may listen: each candidate that is under way. */
const LISTENERS_MAX = 2_000;

/** A search that can be taken up again where it stopped. */
export type Hunting = {
  /**
   * Tries candidates, the likeliest first, as many at once as there are slots. After the first that
   * passes it looks a little further, so that it can be held against others. Rejects only when aborted.
   */
  run(signal: AbortSignal): Promise<Hunt>;
  /** Drops one that passed: the verifier does not confirm it. */
  refuse(passing: Passing): void;
  close(): void;
};

export function openHunt(options: HuntOptions): Hunting {
  const hunter = new Hunter(options);
  // A search that is aborted has no use for it.
  void options.better.then(
    (scene) => hunter.rank(scene),
    () => hunter.rank(options.scene),
  );
  return {
    run: async (signal) => {
      hunter.begin();
      const overMs = Math.min(Math.max(0, Math.ceil(options.leftMs())), TIMER_MAX_MS);
      const over = AbortSignal.timeout(overMs);
      const until = AbortSignal.any([signal, over]);
      setMaxListeners(LISTENERS_MAX, until);
      try {
        const lanes = Array.from({ length: options.trials.depth }, () => hunter.work(until));
        await Promise.all(lanes);
        await hunter.confirmed();
        if (hunter.found === 0) await hunter.again(until);
      } catch (error) {
        signal.throwIfAborted();
        // What is under way when the time is over has no time to be waited for.
        if (!over.aborted) throw error;
        hunter.late();
        await hunter.confirmed();
      }
      await hunter.confirmed();
      options.ledger.flush();
      return hunter.result();
    },
    refuse: (passing) => hunter.refuse(passing),
    close: () => {
      hunter.close();
      options.ledger.flush();
    },
  };
}

class Hunter {
  readonly #options: HuntOptions;
  #source: Generator<Candidate, void>;
  #isClosed = false;
  /** Whether the ranking is the last one: before that, what passed is held against nothing yet. */
  #isRanked = false;
  /** Those that were begun, under whatever ranking. */
  readonly #begunKeys = new Set<string>();
  readonly #deadlines: Deadlines;
  #retryingCount = 0;
  readonly #passing: Passing[] = [];
  readonly #late = new Late();
  #triedCount = 0;
  #end: Hunt["end"] = "settled";
  #first: { readonly atMs: number; readonly rank: number; readonly weight: number } | null = null;
  readonly #beganMs: number;
  #confirming: Promise<void> = Promise.resolve();
  #isConfirmed = false;
  #pausedMs = 0;

  constructor(options: HuntOptions) {
    this.#options = options;
    this.#source = candidates(
      options.scene.sources,
      options.scene.suspects,
      symptomsOf(options.scene.report),
    );
    this.#beganMs = options.nowMs();
    const { baseMs, isHanging, trials } = options;
    this.#deadlines = new Deadlines({ baseMs, isHanging, isSteady: trials.isSteady });
  }

  get found(): number {
    return this.#passing.length;
  }

  result(): Hunt {
    const passing = this.#passing.toSorted((a, b) => b.candidate.weight - a.candidate.weight);
    return { passing, triedCount: this.#triedCount, end: this.#end };
  }

  /** Goes on in the order of another ranking, without what was tried already. */
  rank(scene: Scene): void {
    if (this.#isClosed) return;
    this.#isRanked = true;
    this.#source.return();
    this.#source = candidates(scene.sources, scene.suspects, symptomsOf(scene.report));
  }

  /** Whether it is late is asked anew each time that it is taken up. */
  begin(): void {
    this.#end = "settled";
  }

  /** The time is over. */
  late(): void {
    if (this.#first === null) this.#end = "late";
  }

  close(): void {
    this.#isClosed = true;
    this.#source.return();
  }

  /** Resolves when the first that passed is confirmed, or dropped. */
  confirmed(): Promise<void> {
    return this.#confirming;
  }

  refuse(passing: Passing): void {
    const at = this.#passing.indexOf(passing);
    if (at >= 0) this.#passing.splice(at, 1);
    const [next] = this.#passing;
    const { nowMs } = this.#options;
    this.#first =
      next === undefined ? null : { atMs: nowMs(), rank: next.rank, weight: next.candidate.weight };
    this.#end = "settled";
  }

  async work(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      // What else passes can wait: the verifier has the machine to itself, where it is soon done.
      if (this.#first !== null && !this.#isConfirmed) await this.#confirmedSoon();
      if (this.#isOver()) return;
      const waiting = this.#waiting();
      if (waiting !== undefined) {
        this.#retryingCount += 1;
        await this.#retry(waiting, signal);
        this.#retryingCount -= 1;
        continue;
      }
      const next = this.#source.next();
      if (next.done === true) {
        if (!this.#isRanked) await this.#ranking();
        else {
          if (this.#first === null) this.#end = "exhausted";
          return;
        }
        continue;
      }
      if (this.#isRanked && this.#isUnlikely(next.value)) return;
      const key = JSON.stringify(next.value.edits);
      if (this.#begunKeys.has(key)) {
        this.#reweigh(key, next.value);
        continue;
      }
      this.#begunKeys.add(key);
      const rank = this.#triedCount;
      this.#triedCount += 1;
      const one = { candidate: next.value, rank, isLast: false };
      await this.#try(one, this.#deadlines.nextMs(), signal);
    }
  }

  async #confirmedSoon(): Promise<void> {
    const { nowMs } = this.#options;
    const beganMs = nowMs();
    const limitMs = HUNT_LIMITS.pauseMs;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([this.#confirming, late]);
    clearTimeout(timer);
    this.#isConfirmed = true;
    // What is gathered after it has the time that it would have had beside it.
    this.#pausedMs = Math.max(this.#pausedMs, nowMs() - beganMs);
  }

  async #ranking(): Promise<void> {
    await this.#options.better.catch(() => undefined);
    this.#isRanked = true;
  }

  #waiting(): LateOne | undefined {
    const { isHalfway, nowMs, trials } = this.#options;
    // They take long, so that what has not been tried yet goes on beside them.
    if (this.#retryingCount >= Math.max(1, trials.slotCount / 2)) return undefined;
    if (this.#first !== null) return undefined;
    return this.#late.next({ elapsedMs: nowMs() - this.#beganMs, isHalfway: isHalfway() });
  }

  /** One that was stopped, with more time. */
  async #retry({ candidate, rank, had }: LateOne, signal: AbortSignal): Promise<void> {
    const deadlineMs = moreMs(had, this.#deadlines.nextMs());
    const one = { candidate, rank, isLast: had !== "part" };
    this.#late.spent(await this.#try(one, deadlineMs, signal));
  }

  /** What passed under the first ranking has another weight under the second. */
  #reweigh(key: string, candidate: Candidate): void {
    const at = this.#passing.findIndex((each) => JSON.stringify(each.candidate.edits) === key);
    const passing = this.#passing[at];
    if (passing === undefined) return;
    passing.candidate = candidate;
    if (this.#first?.rank === passing.rank) {
      this.#first = { ...this.#first, weight: candidate.weight, atMs: this.#options.nowMs() };
    }
  }

  /** Those that were stopped, with more time: the fix may be slower than the fault. */
  async again(signal: AbortSignal): Promise<void> {
    const { trials } = this.#options;
    const waiting = this.#late.rest();
    const work = async (): Promise<void> => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        signal.throwIfAborted();
        if (this.#isOver()) return;
        await this.#retry(one, signal);
      }
    };
    await Promise.all(Array.from({ length: trials.slotCount }, work));
  }

  /** Resolves with how long it took. */
  async #try(
    { candidate, rank, isLast }: Omit<LateOne, "had">,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<number> {
    const { trials, onFirst, onTry, leftMs } = this.#options;
    onTry(candidate, this.#triedCount);
    const action = this.#begun(candidate);
    action.become("attempted");
    const limitMs = Math.max(this.#deadlines.leastMs, Math.min(deadlineMs, leftMs()));
    const trial = await trials.try(candidate, limitMs, signal);
    record(action, trial);
    if (trial.kind === "timeout") {
      this.#late.push({ candidate, rank, had: trial.had, isLast });
      // What had but a part of its deadline says nothing of it.
      if (trial.had !== "part") this.#deadlines.late();
    } else if (trial.kind !== "broken") this.#deadlines.took(trial.durationMs);
    if (trial.kind !== "passed") return trial.durationMs;
    const passing = { candidate, action, rank };
    this.#passing.push(passing);
    if (this.#first !== null) return trial.durationMs;
    this.#first = { atMs: this.#options.nowMs(), rank, weight: candidate.weight };
    [this.#isConfirmed, this.#pausedMs] = [false, 0];
    this.#confirming = onFirst(passing).then((isGood) => {
      this.#isConfirmed = true;
      if (!isGood) this.refuse(passing);
    });
    // Whoever waits for it hears of it; where nobody does any more, the run was aborted.
    this.#confirming.catch(() => undefined);
    return trial.durationMs;
  }

  #begun(candidate: Candidate): Open {
    const { ledger, revision, trials, scene } = this.#options;
    const { site, operator, weight } = candidate;
    const where = site.function === null ? site.file : `${site.file} ${site.function}`;
    return ledger.begin({
      revision,
      evidence: `weight ${weight.toPrecision(3)} at ${where}:${site.line}`,
      operation: { kind: "mutate", operator, edits: changesOf(candidate, scene) },
      preconditions: [`revision ${revision}`],
      authorization: "copy",
      expected: "the tests pass",
      verification: trials.name,
      source: "rule",
    });
  }

  #isUnlikely(candidate: Candidate): boolean {
    if (this.#first === null) return false;
    if (candidate.weight >= this.#first.weight * HUNT_LIMITS.weightShare) return false;
    this.#end = "gathered";
    return true;
  }

  #isOver(): boolean {
    const { nowMs, isLate } = this.#options;
    if (this.#first === null) {
      if (isLate()) this.#end = "late";
      return this.#end === "late";
    }
    const now = nowMs();
    const { atMs, rank } = this.#first;
    const limits = HUNT_LIMITS;
    const tookMs = (atMs - this.#beganMs) * limits.gatherShare;
    const timeMs = Math.min(limits.gatherMostMs, Math.max(limits.gatherLeastMs, tookMs));
    const count = Math.min(limits.gatherMostCount, Math.max(limits.gatherLeastCount, rank));
    const isEnough =
      (this.#isRanked && now - atMs - this.#pausedMs >= timeMs) ||
      (this.#isRanked && this.#triedCount - rank > count) ||
      this.#passing.length >= limits.passingCount;
    if (isEnough) this.#end = "gathered";
    return isEnough;
  }
}

/** A candidate's edits as the ledger keeps them. */
export function changesOf({ edits }: Candidate, { sources }: Pick<Scene, "sources">): Change[] {
  return edits.map((edit) => {
    const source = sources.find(({ file }) => file === edit.file);
    const line = source?.line(edit.from) ?? 0;
    const before = source?.text.slice(0, edit.from) ?? "";
    return {
      file: edit.file,
      line,
      column: before.length - before.lastIndexOf("\n"),
      old: source?.text.slice(edit.from, edit.to) ?? "",
      new: edit.text,
    };
  });
}
