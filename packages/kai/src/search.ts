import { join } from "node:path";
import type { Result } from "@dev/protocol";
import { runBase } from "./base.ts";
import { chanceOf, FLAKY } from "./control.ts";
import { hasPassed } from "./execution.ts";
import type { Place } from "./ground.ts";
import type { Help, State } from "./help.ts";
import { helpedBy } from "./helped.ts";
import { openHunt } from "./hunt.ts";
import type { Ending } from "./outcome.ts";
import { early, narrowed } from "./report/selection.ts";
import { revisionOf } from "./revision.ts";
import { type Scene, study } from "./scene.ts";
import { confirm, type Settling, settle, type Verdicts } from "./settle.ts";
import type { Syntax } from "./syntax/syntax.ts";
import type { Task } from "./task.ts";
import type { Early } from "./trial/early.ts";
import { type Base, openTrials } from "./trial/open.ts";
import type { Trials } from "./trial/trial.ts";
import type { Proof, Verification } from "./verify.ts";

export const SEARCH_LIMITS = {
  /** How long the search goes on with nothing found where a helper could know more. */
  capMs: 2_500,
  /** The same while the helper has not answered. */
  helpedCapMs: 8_000,
  /** Of the whole time, what a search may have that a helper could not help. */
  unhelpedMs: 60_000,
  /** Kept back for the verifier, of the whole time at most this share. */
  reserveShare: 0.3,
  /** A command that takes less than this share of the time is run twice where no worker proved itself. */
  twiceShare: 0.15,
  /** How long coverage is waited for that a worker takes, beside what the tests take, and at most. */
  coveredMs: 150,
  coveredMostMs: 600,
} as const;

/** What needs to know nothing of what the command says. */
export type Ahead = {
  /** A worker; null where the command has none. */
  readonly early: Early | null;
  /** When files were last changed, in Unix milliseconds. */
  readonly changed: Promise<ReadonlyMap<string, number>>;
};

export type Search = {
  readonly task: Task;
  readonly syntax: Syntax;
  /** A copy that nothing runs in. */
  readonly place: Place;
  readonly before: Proof;
  /** What was begun beside the run of the command. */
  readonly ahead: Ahead;
  /** Waited for before anything is applied: how long a command takes that ends. */
  readonly sure?: (tookMs: number) => Promise<void>;
  /** Without a worker that proved itself there is no search, and the run waits for the command. */
  readonly needsWorker?: boolean;
};

/** Finds what is at fault, tries candidates, and settles what passes; rejects only when aborted. */
export async function search(given: Search, signal: AbortSignal): Promise<Ending> {
  const { task, syntax, place, before } = given;
  const { ground } = task;
  task.stage("looking for what is at fault");
  const { early: worker, changed } = given.ahead;
  const opening = open(task, before, worker, signal);
  // It is waited for below, unless something else fails before.
  opening.catch(() => undefined);
  const studied = study(
    {
      ...ground,
      workspace: place.workspace,
      report: before.report,
      baseMs: before.durationMs,
      isHanging: before.end.kind === "timeout",
      syntax,
      copy: place.copy,
      scratch: join(place.path, "probe"),
      env: { ...ground.env, TMPDIR: join(place.path, "probe") },
      changedMs: await changed,
      inWorker: worker?.warmth.isCovering === true ? opening.then(({ cover }) => cover) : null,
    },
    signal,
  );
  const [{ blind, covered }, trials] = await settledBoth(studied, opening);
  try {
    if (given.needsWorker === true && trials.name === "cold") {
      // To try candidates cold against a command that may not end costs more than to wait for it.
      await given.sure?.(Number.POSITIVE_INFINITY);
    }
    toldScene(task, blind, trials);
    const better = covered.then((scene) => {
      toldScene(task, scene, trials);
      return scene;
    });
    better.catch(() => undefined);
    // Where it costs no new process it is here in a moment, and no candidate is tried in a worse order.
    const { coveredMs, coveredMostMs } = SEARCH_LIMITS;
    const coverMs = Math.min(trials.baseMs * 3 + coveredMs, coveredMostMs);
    if (trials.cover !== null) await soon(better, coverMs);
    signal.throwIfAborted();
    const flaky = await isFlaky(task, place, trials, before, signal);
    if (flaky !== null) return { kind: "not_fixed", why: flaky, before };
    return await hunted({ ...given, scene: blind, better, trials }, signal);
  } finally {
    await Promise.allSettled([covered, trials.close()]);
  }
}

/** Waits for something, and for a while at most. */
async function soon(work: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  await Promise.race([work.catch(() => undefined), late]);
  clearTimeout(timer);
}

async function open(
  task: Task,
  before: Proof,
  worker: Early | null,
  signal: AbortSignal,
): Promise<Trials> {
  const { ground, options } = task;
  const { report, durationMs, end } = before;
  const { failedCount, passedCount } = report;
  const base: Base = {
    runner: report.runner,
    failingTests: report.failures.flatMap(({ test }) => (test === "" ? [] : [test])),
    testCount: failedCount === null || passedCount === null ? null : failedCount + passedCount,
    durationMs,
    isTimeout: end.kind === "timeout",
  };
  const isSlow = durationMs * 1.5 > SEARCH_LIMITS.capMs;
  const less = isSlow ? narrowed(ground.command, report, ground.tree.dir) : null;
  const opened = await openTrials(
    {
      ...ground,
      workspace: ground.directory,
      command: ground.command,
      cold: early(less ?? ground.command, report.runner, ground.tree.dir),
      base,
      early: worker,
      slotCount: options.slotCount,
    },
    signal,
  );
  if (!opened.ok) throw new Error(`no trials: ${opened.fault.message}`);
  return opened.value;
}

function toldScene(task: Task, scene: Scene, trials: Trials): void {
  const { covered, ranking, leftCount, sources } = scene;
  const { ledger } = task;
  ledger.note(
    "coverage",
    covered.kind === "none" ? { why: covered.why } : { grain: covered.coverage.grain },
  );
  ledger.note("ranking", {
    files: sources.length,
    left_out: leftCount,
    best: ranking.slice(0, 5).map(({ file, function: name, firstLine, share }) => ({
      file,
      function: name,
      line: firstLine,
      share: Number(share.toFixed(3)),
    })),
  });
  ledger.note("trials", {
    how: trials.name,
    slots: trials.slotCount,
    base_ms: Math.round(trials.baseMs),
  });
}

/**
 * Why the failure is no fault of the tree's: the same command, on the same files, passes. A worker that
 * proved itself has seen it fail a second time; where there is none, and it is cheap, the command is run again.
 */
async function isFlaky(
  task: Task,
  place: Place,
  trials: Trials,
  before: Proof,
  signal: AbortSignal,
): Promise<string | null> {
  const { timeoutMs } = task.options;
  if (trials.name !== "cold" || before.durationMs > timeoutMs * SEARCH_LIMITS.twiceShare)
    return null;
  if (before.end.kind === "timeout") return null;
  await place.copy.mend();
  const again = await runBase(task, place, before.durationMs * 3 + 2_000, signal);
  return again.kind === "passes" ? FLAKY : null;
}

type Hunted = Search & {
  readonly scene: Scene;
  readonly better: Promise<Scene>;
  readonly trials: Trials;
};

async function hunted(given: Hunted, signal: AbortSignal): Promise<Ending> {
  const { task, scene, better, trials, before } = given;
  const { options, ledger } = task;
  const verdicts: Verdicts = new Map();
  const texts = new Map(scene.sources.map(({ file, text }) => [file, text]));
  const revision = revisionOf(texts);
  const beganMs = options.nowMs();
  const ahead = begunAhead(given, revision, signal);
  const startCount = task.triedCount;
  /** Why the helper does not know more; null before that is known. */
  let unhelped: string | null = null;
  const hunting = openHunt({
    scene,
    better,
    trials,
    revision,
    ledger,
    nowMs: options.nowMs,
    baseMs: trials.baseMs,
    isHanging: before.end.kind === "timeout",
    leftMs: () => options.timeoutMs - task.elapsedMs,
    isHalfway: () => task.elapsedMs > options.timeoutMs / 2,
    isLate: () => isLate(task, before, options.nowMs() - beganMs, ahead, unhelped),
    onFirst: async (passing) => {
      const verdict = await confirm(passing, settling, signal);
      return verdict.ok && verdict.value.kind === "verified";
    },
    onTry: ({ site }, triedCount) => {
      task.triedCount = startCount + triedCount;
      options.onProgress({ kind: "trying", site, triedCount: task.triedCount, how: trials.name });
    },
  });
  const refuse = (passing: Parameters<typeof hunting.refuse>[0]): void => hunting.refuse(passing);
  const settling: Settling = { task, scene, before, verdicts, refuse, state: ahead?.state ?? null };
  try {
    for (;;) {
      const { passing, end } = await hunting.run(signal);
      if (passing.length === 0) {
        const { helper } = options;
        const why = whyNot(end, task);
        if (ahead === null || helper === null) return { kind: "not_fixed", why, before };
        if (unhelped === null) {
          const { help, state } = ahead;
          const asking = { helper, ahead: help, state, settling, syntax: given.syntax };
          const helped = await helpedBy(asking, signal);
          if (helped.kind !== "unhelped") return helped;
          unhelped = helped.why;
          // Whoever has a model that does not answer is no worse off than without one.
          if (end === "late" && !isLate(task, before, 0, null, unhelped)) {
            task.note(`the model has no answer: ${unhelped}; the search goes on`);
            continue;
          }
        }
        return { kind: "not_fixed", why: `${why}; the model: ${unhelped}`, before };
      }
      const candidates = passing.map(({ candidate }) => candidate);
      const said = await Promise.all(verdicts.values());
      const isEndless = before.end.kind === "timeout";
      const doubt = {
        endlessMs: isEndless ? longest(said) : null,
        isSuspect: said.some(isRefused),
      };
      const chance = await chanceOf(candidates, scene.sources, trials, doubt, signal);
      if (chance !== null) return { kind: "not_fixed", why: chance, before };
      await given.sure?.(longest(said));
      const ending = await settle(passing, settling, signal);
      if (ending !== null) return ending;
      task.note("the verifier did not confirm what passed; the search goes on");
    }
  } finally {
    ahead?.cancel();
    hunting.close();
    // What was asked is paid for, also where nobody needs the answer.
    await Promise.allSettled([...verdicts.values(), ahead?.help]);
  }
}

function longest(verdicts: readonly Result<Verification>[]): number {
  const times = verdicts.map((verdict) => (verdict.ok ? verdict.value.proof.durationMs : 0));
  return Math.max(0, ...times);
}

/** The command failed with what had passed: by narrower tests, or by chance. */
function isRefused(verdict: Result<Verification>): boolean {
  return verdict.ok && verdict.value.kind === "refused" && !hasPassed(verdict.value.proof);
}

function whyNot(end: string, task: Task): string {
  if (end === "exhausted") return "none of the changes that Kai knows brings it to pass";
  const seconds = Math.round(task.options.timeoutMs / 1000);
  return `nothing was found in ${seconds} s; --timeout gives it more`;
}

type Asked = {
  readonly help: Promise<Help>;
  readonly state: State;
  readonly isAnswered: () => boolean;
  readonly cancel: () => void;
};

/** Asks beside the search, at the state's revision. */
function begunAhead(
  { task, scene, place, before }: Hunted,
  revision: State["revision"],
  signal: AbortSignal,
): Asked | null {
  const { helper } = task.options;
  if (helper === null) return null;
  const { command } = task.ground;
  const workspace = { ...place.workspace, directory: task.ground.tree.dir };
  const state: State = { revision, command, report: before.report, scene, workspace, history: [] };
  const over = new AbortController();
  let isAnswered = false;
  const limit = AbortSignal.timeout(task.leftMs);
  const own = AbortSignal.any([signal, over.signal, limit]);
  const help = helper.ahead(state, own).then((said) => {
    isAnswered = true;
    task.spend(said.cost);
    return said;
  });
  // Whoever waits for it hears of it; a call that was cancelled is nobody's fault.
  help.catch(() => undefined);
  return {
    help,
    state,
    isAnswered: () => isAnswered,
    cancel: () => over.abort("the search settled"),
  };
}

function isLate(
  task: Task,
  before: Proof,
  huntedMs: number,
  ahead: Asked | null,
  unhelped: string | null,
): boolean {
  const { capMs, helpedCapMs, unhelpedMs } = SEARCH_LIMITS;
  const mostMs = unhelped === null ? Number.POSITIVE_INFINITY : unhelpedMs;
  const timeoutMs = Math.min(task.options.timeoutMs, mostMs);
  const reserveMs = Math.min(timeoutMs * SEARCH_LIMITS.reserveShare, before.durationMs * 1.2);
  if (task.elapsedMs >= timeoutMs - reserveMs) return true;
  if (ahead === null || unhelped !== null) return false;
  return huntedMs >= (ahead.isAnswered() ? capMs : helpedCapMs);
}

/** Both, or the failure of one once the other has ended too, so that nothing is left at work. */
async function settledBoth<A>(one: Promise<A>, trials: Promise<Trials>): Promise<[A, Trials]> {
  const [first, second] = await Promise.allSettled([one, trials]);
  if (first.status === "fulfilled" && second.status === "fulfilled")
    return [first.value, second.value];
  if (second.status === "fulfilled") await second.value.close();
  throw first.status === "rejected"
    ? first.reason
    : second.status === "rejected"
      ? second.reason
      : null;
}
