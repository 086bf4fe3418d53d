import { runBase } from "./base.ts";
import { TIMER_MAX_MS } from "./execution.ts";
import { openPlace, takeGround } from "./ground.ts";
import type { Ending, Outcome } from "./outcome.ts";
import { changedMs } from "./recency.ts";
import { runnerOf } from "./report/invocation.ts";
import { readReport } from "./report/reading.ts";
import { readAhead } from "./scene.ts";
import { type Ahead, search } from "./search.ts";
import { openSyntax, type Syntax } from "./syntax/syntax.ts";
import { type FixOptions, Task } from "./task.ts";
import { openEarly } from "./trial/early.ts";
import type { Proof } from "./verify.ts";

export const FIX_LIMITS = {
  /** Of the whole time, what the first run of the command may take. */
  baseShare: 0.5,
  /** A command that has not ended by now may never end; the search begins as if it did not. */
  hangMs: 3_000,
  /** The same where a worker has seen each test end. */
  seenMs: 12_000,
  /** It does not end, where it takes so many times as long as with a fix in place. */
  hangFactor: 4,
} as const;

/**
 * Brings a failing test command to pass, or says why it does not. Nothing is written in the tree but a
 * fix that the whole command, run cold in a clean copy of the tree with the fix in it, has confirmed.
 * Rejects only when aborted, and then the tree is as it was.
 */
export async function fix(options: FixOptions, signal: AbortSignal): Promise<Outcome> {
  const beganMs = options.nowMs();
  const { argv, cwd, directory, ledger } = options;
  ledger.note("begun", {
    argv,
    cwd,
    directory,
    slots: options.slotCount,
    timeout_ms: options.timeoutMs,
  });
  options.onProgress({ kind: "stage", text: "running the command" });
  const opening = openSyntax();
  // It is waited for below, unless nothing is to be read.
  opening.catch(() => undefined);
  const ground = await takeGround(options, signal);
  if (!ground.ok) {
    (await opening).close();
    const { message: why } = ground.fault;
    ledger.note("ended", { outcome: "not_run", why });
    const account = { task: ledger.task, triedCount: 0, firstMs: null, ledger: ledger.path };
    const cost = { inputTokens: 0, outputTokens: 0, usd: 0 };
    return { kind: "not_run", why, ...account, durationMs: options.nowMs() - beganMs, cost };
  }
  const task = new Task(options, ground.value, beganMs);
  const syntax = await opening;
  try {
    return task.outcome(await ended(task, syntax, signal));
  } finally {
    syntax.close();
    ledger.flush();
  }
}

async function ended(task: Task, syntax: Syntax, signal: AbortSignal): Promise<Ending> {
  const place = await openPlace(task.ground, "base", signal);
  const deadlineMs = task.options.timeoutMs * FIX_LIMITS.baseShare;
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const running = runBase(task, place, deadlineMs, either);
  const ahead = begunAhead(task, syntax, either);
  try {
    const isSoon = await isEnding(running, ahead, signal);
    const guessed = isSoon ? null : await guess(task, syntax, running, ahead, signal);
    if (guessed !== null) return guessed;
    const base = await running;
    switch (base.kind) {
      case "not_run":
        return base;
      case "passes":
        return { kind: "passes", before: base.proof };
      case "fails":
        await place.copy.mend();
        return await search({ task, syntax, place, before: base.proof, ahead }, signal);
    }
  } finally {
    stop.abort();
    await Promise.allSettled([running, endedAhead(ahead)]);
  }
}

/** Begins beside the run of the command what does not depend on what it says. */
function begunAhead({ ground, options }: Task, syntax: Syntax, signal: AbortSignal): Begun {
  const { slotCount } = options;
  const changed = changedMs(ground, signal);
  const early = openEarly({ ...ground, slotCount }, signal);
  const read = readAhead(ground, syntax, signal);
  // Whoever needs them hears of it; a file that cannot be read is come to again.
  changed.catch(() => undefined);
  read.catch(() => undefined);
  return { early, changed, read };
}

type Begun = Ahead & { readonly read: Promise<void> };

async function endedAhead({ early, changed, read }: Begun): Promise<void> {
  await Promise.allSettled([early?.close(), changed, read]);
}

/**
 * Whether the command is waited for: not once a worker has seen a test that does not end, nor where it has
 * not ended after a while and no worker has seen all tests end.
 */
async function isEnding(
  running: Promise<unknown>,
  { early }: Ahead,
  signal: AbortSignal,
): Promise<boolean> {
  let isSeen = false;
  const hung = (async (): Promise<boolean> => {
    const answer = await early?.answer;
    isSeen = answer?.kind === "failed";
    return answer?.kind === "timeout" ? false : settledWithin(running, FIX_LIMITS.hangMs, signal);
  })();
  const soon = settledWithin(running, FIX_LIMITS.hangMs, signal);
  if (await Promise.race([soon, hung])) return true;
  // The machine is busy then, and to search as if it never ended would cost the worker.
  return isSeen && settledWithin(running, FIX_LIMITS.seenMs, signal);
}

/** Searches as if the command would never end, for as long as it does not; null once it has. */
async function guess(
  task: Task,
  syntax: Syntax,
  running: ReturnType<typeof runBase>,
  ahead: Ahead,
  signal: AbortSignal,
): Promise<Ending | null> {
  const hasEnded = new AbortController();
  let isHanging = false;
  const ending = running.then(({ kind, ...rest }) => {
    isHanging = kind === "fails" && "proof" in rest && rest.proof.end.kind === "timeout";
    if (!isHanging) hasEnded.abort();
  });
  ending.catch(() => hasEnded.abort());
  const { ground, ledger } = task;
  const { command } = ground;
  ledger.note("transition", {
    to: "search",
    why: "the command has not ended; perhaps it never does",
  });
  try {
    const either = AbortSignal.any([signal, hasEnded.signal]);
    const place = await openPlace(ground, "guess", either);
    const output = { stdout: "", stderr: "", end: { kind: "timeout" } } as const;
    const report = readReport(runnerOf(command, place.copy.dir), command, output, place.workspace);
    const durationMs = FIX_LIMITS.hangMs;
    const before: Proof = { argv: command.argv, end: output.end, durationMs, report };
    const sure = async (ms: number): Promise<void> => {
      // A fix that ends says little while the command without it may only be slow.
      const leftMs = ms * FIX_LIMITS.hangFactor - task.elapsedMs;
      await settledWithin(running, Math.max(0, leftMs), either);
      either.throwIfAborted();
    };
    return await search({ task, syntax, place, before, ahead, sure, needsWorker: true }, either);
  } catch (error) {
    signal.throwIfAborted();
    if (!hasEnded.signal.aborted) throw error;
    ledger.note("transition", { to: "base", why: "the command ended after all" });
    return null;
  }
}

async function settledWithin(
  work: Promise<unknown>,
  limitMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  let stop: () => void = () => {};
  const late = new Promise<boolean>((resolve) => {
    stop = () => resolve(false);
    timer = setTimeout(stop, Math.min(limitMs, TIMER_MAX_MS));
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}
