import { setMaxListeners } from "node:events";
import type { Candidate } from "../candidate.ts";
import type { Tree } from "../copy.ts";
import type { Shell, Start } from "../shell.ts";
import { changedFiles, changesIn, type Texts, textsOf } from "./changed.ts";
import { Pool } from "./pool.ts";
import { Slot } from "./slot.ts";
import type { Cover, Had, Trial, Trials } from "./trial.ts";
import { type Answer, type Ask, type FileChange, Worker } from "./worker.ts";

/** A way to try candidates without starting the command for each. */
export type Warmth = {
  readonly name: string;
  /** One worker tries several candidates at once, in one copy, where its tests write to no file. */
  readonly isShared: boolean;
  /**
   * It is given edits rather than texts, holds more candidates than it can run, and counts the time on the
   * processor.
   */
  readonly isQueued: boolean;
  /** It can run the tests with a probe of Python's. */
  readonly isCovering: boolean;
  /** `written`: the worker says when something was written to the copy; `always`: it cannot tell. */
  readonly mends: "written" | "always";
  /** Whether it names the tests that fail; else it says no more than that the command does. */
  readonly namesTests: boolean;
  readonly start: (slot: Slot) => Start;
};

export type WarmOptions = {
  readonly shell: Shell;
  readonly tree: Tree;
  /** A directory of its own, which is made. */
  readonly place: string;
  readonly env: Readonly<Record<string, string>>;
  readonly slotCount: number;
  readonly warmth: Warmth;
  /** How long the proof may take. */
  readonly proofMs: number;
  /** Whether what the worker says of the unchanged files is what the command says of them. */
  readonly agrees: (answer: Answer) => boolean;
  /** What tries the candidates that this cannot be sure of. */
  readonly next: () => Promise<Trials>;
  /** One that was opened already; it is used before any other. */
  readonly lane: Lane | null;
  /** What that one has said already; null where it was not asked. */
  readonly proved: Proved | null;
  readonly nowMs: () => number;
};

export const WARM_LIMITS = {
  /** A project that takes down so many workers is tried by other means. */
  restartCount: 500,
  /** For each slot, candidates that a worker holds which tries them in batches. */
  batchCount: 32,
  /** Of a signal, who may listen beside those that are tried; more are warned of. */
  listenerCount: 1_000,
} as const;

/** A place for trials, and the worker in it; null where it could not be had. */
export type Lane = { readonly slot: Slot; worker: Promise<Worker | null> };

/** What a worker has said that was asked ahead. */
export type Proved = {
  readonly answer: Promise<Answer | null>;
  /** What a probe wrote, by its text; null where it was not run, or wrote nothing. */
  readonly covered: { readonly probe: string; readonly said: Promise<string | null> };
};

/** Tries candidates in workers, and leaves those that a worker is not sure of to the next way. */
export class WarmTrials implements Trials {
  readonly name: string;
  readonly slotCount: number;
  readonly depth: number;
  readonly isSteady: boolean;
  readonly cover: Cover | null;
  readonly baseMs: number;
  readonly #options: WarmOptions;
  readonly #texts: Texts;
  readonly #lanes: Lane[];
  readonly #pool: Pool<Lane>;
  readonly #closing = new AbortController();
  readonly #signals = new WeakMap<AbortSignal, AbortSignal>();
  /** Those that were late in company. */
  readonly #ranCount: number;
  readonly #brief = new WeakSet<Candidate>();
  #restartCount = 0;

  private constructor(options: WarmOptions, lane: Lane, isShared: boolean, proof: Proven) {
    this.name = options.warmth.name;
    this.slotCount = options.slotCount;
    const isQueued = isShared && options.warmth.isQueued;
    this.depth = options.slotCount * (isQueued ? WARM_LIMITS.batchCount : 1);
    this.isSteady = options.warmth.isQueued;
    this.#texts = textsOf(options.tree);
    const { isCovering } = options.warmth;
    const ahead = options.proved?.covered;
    const known = async (probe: string) => (probe === ahead?.probe ? ahead.said : null);
    this.cover = isCovering
      ? async (probe, ms, until) =>
          (await known(probe)) ?? (await this.#cover(lane, probe, ms, until))
      : null;
    this.baseMs = proof.baseMs;
    this.#ranCount = proof.ranCount;
    this.#options = options;
    this.#lanes = [lane];
    this.#pool = new Pool(this.depth, async (index) => {
      if (index === 0 || isShared) return lane;
      const made = await openLane(options, index, this.#closing.signal);
      this.#lanes.push(made);
      return made;
    });
  }

  /** Starts a worker and has it prove itself; null where it is not as good as the command. */
  static async open(options: WarmOptions, signal: AbortSignal): Promise<WarmTrials | null> {
    const lane = options.lane ?? (await openLane(options, 0, signal));
    const worker = await lane.worker;
    const startMs = options.nowMs();
    const answer = worker === null ? undefined : await proofOf(worker, options, signal);
    const isGood = answer !== undefined && !answer.spawned && options.agrees(answer);
    if (!isGood || signal.aborted) {
      await worker?.close();
      await lane.slot.close();
      signal.throwIfAborted();
      return null;
    }
    const baseMs = answer.tookMs ?? options.nowMs() - startMs;
    if (answer.wrote || options.warmth.mends === "always") await lane.slot.mend();
    const proven = { baseMs, ranCount: answer.ranCount };
    return new WarmTrials(options, lane, options.warmth.isShared && !answer.wrote, proven);
  }

  async try(candidate: Candidate, deadlineMs: number, signal: AbortSignal): Promise<Trial> {
    const either = this.#either(signal);
    either.throwIfAborted();
    const { isQueued } = this.#options.warmth;
    const files = await (isQueued ? changesIn : changedFiles)(this.#texts, candidate);
    if (files === null) return { kind: "broken", durationMs: 0 };
    const trial = await this.#pool.use(
      (lane) => this.#ask(lane, files, deadlineMs, this.#brief.has(candidate), either),
      either,
    );
    // Whoever comes again with it wants to know more.
    if (trial?.kind === "timeout") this.#brief.add(candidate);
    if (trial !== null) return trial;
    const next = await this.#options.next();
    return next.try(candidate, deadlineMs, either);
  }

  /** One signal for all that are tried under the same one: to listen anew for each costs more than a trial. */
  #either(signal: AbortSignal): AbortSignal {
    const known = this.#signals.get(signal);
    if (known !== undefined) return known;
    const either = AbortSignal.any([signal, this.#closing.signal]);
    setMaxListeners(this.depth + WARM_LIMITS.listenerCount, either);
    this.#signals.set(signal, either);
    return either;
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the trials are closed"));
    await Promise.all(this.#lanes.map(async ({ worker }) => (await worker)?.close()));
    await this.#pool.idle();
    // A worker may have been started anew while the first ones were closed.
    await Promise.all(this.#lanes.map(async ({ worker }) => (await worker)?.close()));
    await Promise.all(this.#lanes.map(({ slot }) => slot.close()));
  }

  async #ask(
    lane: Lane,
    files: ReadonlyMap<string, FileChange>,
    deadlineMs: number,
    alone: boolean,
    signal: AbortSignal,
  ): Promise<Trial | null> {
    const worker = await this.#alive(lane, signal);
    if (worker === null) return null;
    const startMs = this.#options.nowMs();
    const ask: Ask = { kind: "try", files, deadlineMs, ...(alone ? { alone } : {}) };
    const answer = await worker.ask(ask, signal);
    const durationMs = answer.tookMs ?? this.#options.nowMs() - startMs;
    if (answer.kind === "lost") await worker.close();
    if (answer.wrote || this.#options.warmth.mends === "always") await lane.slot.mend();
    signal.throwIfAborted();
    switch (answer.kind) {
      case "failed":
        return { kind: "failed", failedTests: answer.failed, durationMs };
      case "passed":
        // It makes tests fewer, and the verifier would say so.
        if (answer.ranCount < this.#ranCount)
          return { kind: "failed", failedTests: [], durationMs };
        return { kind: "passed", durationMs };
      case "broken":
        return { kind: answer.kind, durationMs };
      case "timeout":
        return { kind: "timeout", durationMs, had: hadOf(answer) };
      default:
        return null;
    }
  }

  async #cover(
    lane: Lane,
    probe: string,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<string | null> {
    const either = this.#either(signal);
    const worker = await this.#alive(lane, either);
    if (worker === null) return null;
    const ask: Ask = { kind: "cover", files: new Map(), deadlineMs, probe };
    const { kind, said, wrote } = await worker.ask(ask, either);
    if (wrote) await lane.slot.mend();
    either.throwIfAborted();
    return kind === "covered" ? said : null;
  }

  /** The lane's worker, or the one that takes its place when it is gone. */
  async #alive(lane: Lane, signal: AbortSignal): Promise<Worker | null> {
    const before = lane.worker;
    const worker = await before;
    if (worker === null || !worker.isGone) return worker;
    // Of those that share a lane, the first to see it starts the next one.
    if (lane.worker === before && !signal.aborted) {
      this.#restartCount += 1;
      const isEnough = this.#restartCount > WARM_LIMITS.restartCount;
      lane.worker = isEnough
        ? Promise.resolve(null)
        : lane.slot.mend().then(() => openWorker(this.#options, lane.slot, this.#closing.signal));
    }
    signal.throwIfAborted();
    return lane.worker;
  }
}

/** What the worker says of the unchanged files: what it has said already, unless it was given too little time. */
async function proofOf(
  worker: Worker,
  options: WarmOptions,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const { proofMs: deadlineMs, slotCount: slots, proved, agrees } = options;
  if (proved !== null) {
    const known = await within(proved.answer, deadlineMs, signal);
    if (known === undefined) return undefined;
    if (known !== null && (agrees(known) || known.kind !== "timeout")) return known;
  }
  return worker.ask({ kind: "prove", files: new Map(), deadlineMs, slots }, signal);
}

/** What is waited for, or undefined where it does not come in time. */
async function within<T>(
  work: Promise<T>,
  limitMs: number,
  signal: AbortSignal,
): Promise<T | undefined> {
  let stop: () => void = () => {};
  const late = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined);
  });
  const timer = setTimeout(stop, limitMs);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

/** What a proof says of the tests as they are: how long they take, and how many ran. */
type Proven = { readonly baseMs: number; readonly ranCount: number };

function hadOf({ isBrief, isNear }: Answer): Had {
  if (isNear) return "near";
  return isBrief ? "part" : "whole";
}

export type LaneOptions = Pick<WarmOptions, "shell" | "tree" | "place" | "env" | "warmth">;

/** Makes a place, and waits until a worker is ready in it. */
export async function openLane(
  options: LaneOptions,
  index: number,
  signal: AbortSignal,
): Promise<Lane> {
  const place = `${options.place}/${index}`;
  const slot = await Slot.make(options.tree, place, options.env, signal);
  const worker = openWorker(options, slot, signal);
  await worker;
  return { slot, worker };
}

/** Null where it does not come to be ready. */
async function openWorker(
  options: LaneOptions,
  slot: Slot,
  signal: AbortSignal,
): Promise<Worker | null> {
  const worker = new Worker(options.shell, options.warmth.start(slot), options.warmth.isQueued);
  const why = await worker.ready(signal);
  if (why === null) return worker;
  await worker.close();
  return null;
}
