import type { Readable } from "node:stream";
import type { Candidate } from "../candidate.ts";
import type { Tree } from "../copy.ts";
import type { Command, Output } from "../report/report.ts";
import type { Running, Shell } from "../shell.ts";
import { changedFiles, type Texts, textsOf } from "./changed.ts";
import { Pool } from "./pool.ts";
import { Slot } from "./slot.ts";
import type { Trial, Trials } from "./trial.ts";

/** What is known of a run from its output: which tests failed, and whether it loaded at all. */
export type Reading = { readonly failedTests: readonly string[]; readonly isBroken: boolean };

export type ColdOptions = {
  readonly shell: Shell;
  readonly tree: Tree;
  /** A directory of its own, which is made. */
  readonly place: string;
  readonly command: Command;
  readonly env: Readonly<Record<string, string>>;
  readonly slotCount: number;
  /** How long the command takes on the unchanged tree. */
  readonly baseMs: number;
  readonly read: (output: Output) => Reading;
  readonly nowMs: () => number;
};

export const COLD_LIMITS = {
  /** Of what a run prints, what is kept to be read; the rest is dropped. */
  outputBytes: 1_000_000,
  /** A run that prints more is stopped, and has failed. */
  printedBytes: 256_000_000,
} as const;

/** Runs the command itself in copies of the tree, one candidate in each at a time. */
export class ColdTrials implements Trials {
  readonly name: string = "cold";
  readonly slotCount: number;
  readonly depth: number;
  readonly isSteady: boolean = false;
  readonly cover: null = null;
  readonly baseMs: number;
  readonly #options: ColdOptions;
  readonly #pool: Pool<Slot>;
  readonly #slots: Slot[] = [];
  readonly #texts: Texts;
  readonly #closing = new AbortController();

  constructor(options: ColdOptions) {
    this.#options = options;
    this.#texts = textsOf(options.tree);
    this.slotCount = options.slotCount;
    this.depth = options.slotCount;
    this.baseMs = options.baseMs;
    this.#pool = new Pool(options.slotCount, async (index) => {
      const place = `${options.place}/${index}`;
      const slot = await Slot.make(options.tree, place, options.env, this.#closing.signal);
      this.#slots.push(slot);
      return slot;
    });
  }

  async try(candidate: Candidate, deadlineMs: number, signal: AbortSignal): Promise<Trial> {
    const files = await changedFiles(this.#texts, candidate);
    if (files === null) return { kind: "broken", durationMs: 0 };
    const either = AbortSignal.any([signal, this.#closing.signal]);
    return this.#pool.use((slot) => this.#run(slot, files, deadlineMs, either), either);
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the trials are closed"));
    await this.#pool.idle();
    await Promise.all(this.#slots.map((slot) => slot.close()));
  }

  async #run(
    slot: Slot,
    files: ReadonlyMap<string, string>,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<Trial> {
    const { shell, command, nowMs, read } = this.#options;
    await slot.copy.put(files);
    try {
      const startMs = nowMs();
      const running = shell.start(slot.start(command, "none"));
      const output = await outputOf(running, deadlineMs, signal);
      const durationMs = nowMs() - startMs;
      signal.throwIfAborted();
      return { ...verdict(output, read), durationMs };
    } finally {
      await slot.mend();
    }
  }
}

type Verdict =
  | { readonly kind: "passed" | "broken" }
  | { readonly kind: "timeout"; readonly had: "whole" }
  | { readonly kind: "failed"; readonly failedTests: readonly string[] };

function verdict(output: Output, read: ColdOptions["read"]): Verdict {
  if (output.end.kind === "timeout") return { kind: "timeout", had: "whole" };
  if (output.end.kind === "exit" && output.end.code === 0) return { kind: "passed" };
  const { failedTests, isBroken } = read(output);
  return isBroken ? { kind: "broken" } : { kind: "failed", failedTests };
}

async function outputOf(
  running: Running,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<Output> {
  let isLate = false;
  const kill = () => running.kill();
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, deadlineMs);
  signal.addEventListener("abort", kill, { once: true });
  if (signal.aborted) kill();
  const [stdout, stderr] = [clipped(running.stdout, kill), clipped(running.stderr, kill)];
  const ended = await running.ended;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  // What it left running goes with it.
  kill();
  const end: Output["end"] = isLate
    ? { kind: "timeout" }
    : ended.kind === "spawn"
      ? { kind: "exit", code: 127 }
      : ended;
  return { stdout: stdout(), stderr: stderr(), end };
}

/** Keeps the end of what comes, where runners sum up, and reads all, so that nobody waits on a pipe. */
function clipped(stream: Readable, stop: () => void): () => string {
  const chunks: Buffer[] = [];
  let keptBytes = 0;
  let printedBytes = 0;
  stream.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    keptBytes += chunk.length;
    printedBytes += chunk.length;
    if (printedBytes > COLD_LIMITS.printedBytes) stop();
    while (keptBytes - (chunks[0]?.length ?? 0) >= COLD_LIMITS.outputBytes) {
      keptBytes -= chunks.shift()?.length ?? 0;
    }
  });
  return () => Buffer.concat(chunks).toString("utf8");
}
