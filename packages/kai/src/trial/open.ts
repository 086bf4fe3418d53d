import { access, cp, mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { remove, type Tree, takeTree } from "../copy.ts";
import type { Command, Output, Runner } from "../report/report.ts";
import type { Shell } from "../shell.ts";
import { agreement } from "./agreement.ts";
import { ColdTrials, type Reading } from "./cold.ts";
import type { Early } from "./early.ts";
import { javaWarmths } from "./java.ts";
import { nodeWarmths } from "./node.ts";
import { pytestWarmths } from "./pytest.ts";
import type { Trials } from "./trial.ts";
import { WarmTrials, type Warmth } from "./warm.ts";

export type TrialsOptions = {
  readonly shell: Shell;
  /** An absolute directory, which is only read. */
  readonly workspace: string;
  /** The same, where it has been taken already. */
  readonly tree?: Tree;
  /** Where the programs are that run beside the tests, where they have been put already. */
  readonly programs?: string;
  /** A worker that was started ahead for this command. */
  readonly early?: Early | null;
  /** An absolute directory in which a directory is made, and removed when the trials are closed. */
  readonly scratch: string;
  /** What decides: the whole command, or what it was narrowed to. */
  readonly command: Command;
  /** What is run where no worker stays: the same, made to end at its first failure. */
  readonly cold?: Command;
  /** The whole environment of the command. */
  readonly env: Readonly<Record<string, string>>;
  readonly base: Base;
  /** How many at once: the cores there are. */
  readonly slotCount: number;
  /** What the output of a failed run says; without it, no more is known than that it failed. */
  readonly read?: (output: Output) => Reading;
  readonly nowMs: () => number;
};

/** What is known of the run of the command on the tree as it is, which failed. */
export type Base = {
  readonly runner: Runner;
  /** As the runner names them; empty where it names none. */
  readonly failingTests: readonly string[];
  /** Tests that passed and failed; null where the runner does not say. */
  readonly testCount: number | null;
  readonly durationMs: number;
  /** It did not end by itself, but was stopped, be it by a `timeout` of its own. */
  readonly isTimeout: boolean;
};

export const OPEN_LIMITS = {
  /** Slots are processes and copies; more than this many bring nothing. */
  slotCount: 64,
  /** A proof takes no longer than the command does cold, but for a machine that is busy. */
  proofFactor: 3,
  proofExtraMs: 5_000,
  proofMs: 30_000,
  /** Where the command does not end: after so long a worker does not either. */
  proofHangMs: 1_500,
} as const;

/**
 * Opens the cheapest trials that say of the unchanged tree what the command says of it. Where no warm
 * worker does, or is not sure of a candidate, the command itself is run in a copy of the tree. Nothing
 * is written but below `scratch`. Faults: `too_large`, `io`.
 */
export async function openTrials(
  options: TrialsOptions,
  signal: AbortSignal,
): Promise<Result<Trials>> {
  const place = join(options.scratch, "trials");
  try {
    await mkdir(place, { recursive: true });
    const tree =
      options.tree === undefined ? await taken(options, place, signal) : ok(options.tree);
    if (!tree.ok) {
      await remove(place);
      return tree;
    }
    return ok(await cheapest(options, tree.value, place, signal));
  } catch (error) {
    await remove(place);
    signal.throwIfAborted();
    if (!(error instanceof Error && "syscall" in error)) throw error;
    return fail(fault("io", `no copies could be made: ${error.message}`, place));
  }
}

async function taken(
  { shell, env, workspace }: TrialsOptions,
  place: string,
  signal: AbortSignal,
): Promise<Result<Tree>> {
  return takeTree(workspace, place, await confines(shell, env, place), signal);
}

async function cheapest(
  options: TrialsOptions,
  tree: Tree,
  place: string,
  signal: AbortSignal,
): Promise<Trials> {
  const programs = options.programs ?? (await programsIn(place));
  const ways = new Ways(options, tree, place, warmthsOf(options.command, programs, tree));
  const first = await ways.from(0, signal);
  return {
    name: first.name,
    slotCount: first.slotCount,
    depth: first.depth,
    isSteady: first.isSteady,
    cover: first.cover,
    baseMs: first.baseMs,
    try: (candidate, deadlineMs, until) => first.try(candidate, deadlineMs, until),
    close: () => ways.close(),
  };
}

/** The ways to try a candidate, the cheapest first, each opened when it is first needed. */
class Ways {
  readonly #options: TrialsOptions;
  readonly #tree: Tree;
  readonly #place: string;
  readonly #warmths: readonly Warmth[];
  readonly #opened: Promise<Trials>[] = [];
  readonly #closing = new AbortController();

  constructor(options: TrialsOptions, tree: Tree, place: string, warmths: readonly Warmth[]) {
    this.#options = options;
    this.#tree = tree;
    this.#place = place;
    this.#warmths = warmths;
  }

  /** The first of the ways from `index` on that agrees with the command; the last one is the command. */
  from(index: number, signal: AbortSignal): Promise<Trials> {
    const either = AbortSignal.any([signal, this.#closing.signal]);
    const opened = this.#opened[index] ?? this.#open(index, either);
    this.#opened[index] = opened;
    return opened;
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the trials are closed"));
    for (const opened of this.#opened) {
      const [end] = await Promise.allSettled([opened]);
      if (end.status === "fulfilled") await end.value.close();
    }
    await remove(this.#place);
  }

  async #open(index: number, signal: AbortSignal): Promise<Trials> {
    const { base, command, env, nowMs, read, shell } = this.#options;
    const slotCount = Math.max(1, Math.min(this.#options.slotCount, OPEN_LIMITS.slotCount));
    const shared = { shell, tree: this.#tree, env, slotCount, nowMs };
    const warmth = this.#warmths[index];
    const place = join(this.#place, String(index));
    if (warmth === undefined) {
      const nothing = () => ({ failedTests: [], isBroken: false });
      const baseMs = base.durationMs;
      const own = { place, command: this.#options.cold ?? command, baseMs };
      return new ColdTrials({ ...shared, ...own, read: read ?? nothing });
    }
    const taken = index === 0 ? ((await this.#options.early?.take()) ?? null) : null;
    const warm = await WarmTrials.open(
      {
        ...shared,
        place,
        warmth,
        proofMs: proofMsOf(base),
        lane: taken?.lane ?? null,
        proved: taken?.proved ?? null,
        agrees: agreement(base, warmth.namesTests),
        next: () => this.from(index + 1, this.#closing.signal),
      },
      signal,
    );
    return warm ?? this.from(index + 1, signal);
  }
}

function proofMsOf(base: Base): number {
  const { proofExtraMs, proofFactor, proofHangMs, proofMs } = OPEN_LIMITS;
  if (base.isTimeout) return proofHangMs;
  return Math.min(base.durationMs * proofFactor + proofExtraMs, proofMs);
}

/** The ways to run a command warm, the cheapest first. */
export function warmthsOf(command: Command, programs: string, tree: Tree): readonly Warmth[] {
  return [
    ...pytestWarmths(command, programs, tree.origin),
    ...nodeWarmths(command, programs, tree),
    ...javaWarmths(command, programs, tree),
  ];
}

/** Puts a copy of the programs that run beside the tests into a directory; returns where they are. */
export async function programsIn(place: string): Promise<string> {
  const programs = join(place, "programs");
  const shipped = dirname(createRequire(import.meta.url).resolve("@dev/kai/worker/kai_worker.py"));
  await cp(shipped, programs, { recursive: true });
  return programs;
}

/** Whether a process can write to no place that it was not given, found out by trying in `place`. */
export async function confines(
  shell: Shell,
  env: Readonly<Record<string, string>>,
  place: string,
): Promise<boolean> {
  const own = join(place, "own");
  const target = join(place, "not-own");
  await mkdir(own);
  const probe = shell.start({
    argv: ["sh", "-c", ': > "$1"', "sh", target],
    cwd: own,
    env,
    stdin: "none",
    writable: [own],
  });
  probe.stdout.resume();
  probe.stderr.resume();
  const { kind } = await probe.ended;
  const isWritten = await access(target).then(
    () => true,
    () => false,
  );
  return kind === "exit" && !isWritten;
}
