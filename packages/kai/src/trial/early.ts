import { join } from "node:path";
import { remove } from "../copy.ts";
import { PYTHON_PROBE } from "../locate/probe-python.ts";
import { type TrialsOptions, warmthsOf } from "./open.ts";
import { type Lane, openLane, type Proved, type Warmth } from "./warm.ts";
import type { Answer, Ask, Worker } from "./worker.ts";

/**
 * A worker that is started before it is known what the command says, so that it is ready when that is, and
 * has run the tests. Whoever takes it holds what it says against the command.
 */
export type Early = {
  readonly warmth: Warmth;
  /** What the tests did in it, each stopped after a while; null where it was not asked. */
  readonly answer: Promise<Answer | null>;
  /** The worker, for the first who asks; null for all others, and where it could not be had. */
  take(): Promise<Taken | null>;
  /** Ends it, where nobody has taken it. */
  close(): Promise<void>;
};

export type Taken = { readonly lane: Lane; readonly proved: Proved };

export type EarlyOptions = Required<
  Pick<TrialsOptions, "shell" | "tree" | "programs" | "scratch" | "command" | "env" | "slotCount">
>;

export const EARLY_LIMITS = {
  /** A test that takes more of the processor's time may never end. */
  eachMs: 1_000,
  /** How long the run with a probe takes beside what the tests do, and where one of them does not end. */
  coverFactor: 4,
  coverExtraMs: 2_000,
  coverHangMs: 1_600,
  coverMs: 10_000,
} as const;

/** Starts the cheapest warm worker that a command could have; null where it has none. */
export function openEarly(options: EarlyOptions, signal: AbortSignal): Early | null {
  const { shell, tree, scratch, command, env, programs, slotCount } = options;
  const [warmth] = warmthsOf(command, programs, tree);
  if (warmth === undefined) return null;
  const place = join(scratch, "early");
  const stop = new AbortController();
  const until = AbortSignal.any([signal, stop.signal]);
  const opening = openLane({ shell, tree, place, env, warmth }, 0, until).catch(() => null);
  const working = opening.then(async (lane) => (warmth.isQueued && (await lane?.worker)) || null);
  const answer = working.then((worker) => worker && ran(worker, slotCount, until));
  const covered = working.then(async (worker) => worker && covering(worker, await answer, until));
  const said = covered.then((heard) => (heard?.kind === "covered" ? heard.said : null));
  let isTaken = false;
  return {
    warmth,
    answer,
    take: async () => {
      if (isTaken) return null;
      isTaken = true;
      const lane = await opening;
      return lane && { lane, proved: { answer, covered: { probe: PYTHON_PROBE, said } } };
    },
    close: async () => {
      if (isTaken) return;
      isTaken = true;
      stop.abort(new Error("nobody needs it"));
      const lane = await opening;
      await (await lane?.worker)?.close();
      await Promise.allSettled([answer, covered]);
      await remove(place);
    },
  };
}

/** Runs the tests as they are. */
function ran(worker: Worker, slots: number, until: AbortSignal): Promise<Answer> {
  const { eachMs } = EARLY_LIMITS;
  const ask: Ask = { kind: "prove", files: new Map(), deadlineMs: eachMs, isEach: true, slots };
  return worker.ask(ask, until);
}

/** Runs them once more with a probe, where they fail as tests do and write nothing. */
async function covering(
  worker: Worker,
  answer: Answer | null,
  until: AbortSignal,
): Promise<Answer | null> {
  if (answer === null || answer.wrote || answer.spawned) return null;
  if (answer.kind !== "failed" && answer.kind !== "timeout") return null;
  const { coverFactor, coverExtraMs, coverHangMs, coverMs } = EARLY_LIMITS;
  const wholeMs = Math.min(coverMs, coverExtraMs + coverFactor * (answer.tookMs ?? 0));
  const deadlineMs = answer.kind === "timeout" ? coverHangMs : wholeMs;
  const ask: Ask = { kind: "cover", files: new Map(), deadlineMs, probe: PYTHON_PROBE };
  return worker.ask(ask, until);
}
