import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Candidate, Trials } from "../src/index.ts";
import { type Base, openTrials } from "../src/trial/open.ts";
import { plainShell } from "./shell.ts";

/** A small project whose command fails, by its files. */
export type Project = {
  readonly files: Readonly<Record<string, string>>;
  readonly argv: readonly string[];
  readonly base?: Partial<Base>;
  readonly slotCount?: number;
};

export const NEVER: AbortSignal = new AbortController().signal;

/** A project on a disk, with trials on it; goes with `await using`. */
export type Bench = AsyncDisposable & {
  readonly trials: Trials;
  readonly workspace: string;
  readonly scratch: string;
  /** A candidate that puts `to` in the place of the one `from` in a file. */
  candidate(file: string, from: string, to: string): Candidate;
  /** What became of such a candidate, in a word, with the tests that failed. */
  kind(file: string, from: string, to: string, deadlineMs?: number): Promise<string>;
};

export const DEADLINE_MS = 20_000;

export async function bench(project: Project): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "kai-trial-"));
  const [workspace, scratch] = [join(root, "work"), join(root, "scratch")];
  await mkdir(scratch);
  for (const [path, text] of Object.entries(project.files)) {
    await mkdir(dirname(join(workspace, path)), { recursive: true });
    await writeFile(join(workspace, path), text);
  }
  const opened = await openTrials(options(project, workspace, scratch), NEVER);
  if (!opened.ok) throw new Error(opened.fault.message);
  const trials = opened.value;
  const candidate = (file: string, from: string, to: string): Candidate => {
    const text = project.files[file] ?? "";
    const at = text.indexOf(from);
    if (at < 0 || text.indexOf(from, at + 1) >= 0) throw new Error(`not once in ${file}: ${from}`);
    const edit = { file, from: at, to: at + from.length, text: to };
    const site = { file, line: 1, function: null };
    return { edits: [edit], operator: "test", site, weight: 1 };
  };
  return {
    trials,
    workspace,
    scratch,
    candidate,
    kind: async (file, from, to, deadlineMs = DEADLINE_MS) => {
      const trial = await trials.try(candidate(file, from, to), deadlineMs, NEVER);
      return trial.kind === "failed" ? ["failed", ...trial.failedTests].join(" ") : trial.kind;
    },
    async [Symbol.asyncDispose]() {
      await trials.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

export function options(
  { argv, base, slotCount = 2 }: Project,
  workspace: string,
  scratch: string,
): Parameters<typeof openTrials>[0] {
  return {
    shell: plainShell(),
    workspace,
    scratch,
    command: { argv, cwd: "." },
    env: environment(),
    base: { ...BASE, ...base },
    slotCount,
    read: ({ stderr }) => ({ failedTests: [], isBroken: stderr.includes("SyntaxError") }),
    nowMs: () => performance.now(),
  };
}

const BASE: Base = {
  runner: "unknown",
  failingTests: [],
  testCount: null,
  durationMs: 5_000,
  isTimeout: false,
};

function environment(): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, LANG: "C.UTF-8" };
}

/** All of a tree: names, kinds, bytes and times. */
export function fingerprint(directory: string): string {
  const hash = createHash("sha256");
  const visit = (path: string): void => {
    const stat = lstatSync(path);
    hash.update(`${path} ${stat.mode} ${stat.mtimeMs} ${stat.size}\n`);
    if (stat.isSymbolicLink()) hash.update(readlinkSync(path));
    else if (stat.isFile()) hash.update(readFileSync(path));
    else for (const name of readdirSync(path).sort()) visit(join(path, name));
  };
  visit(directory);
  return hash.digest("hex");
}

/** Processes that work in a directory, or name it; none where the system does not tell. */
export function processesIn(directory: string): readonly string[] {
  if (!existsSync("/proc/self/cmdline")) return [];
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      const cwd = readlinkSync(`/proc/${pid}/cwd`);
      const state = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) (.).*$/s, "$1");
      const isThere = cwd.startsWith(directory) || words.includes(directory);
      return isThere && state !== "Z" ? [`${pid} ${words}`] : [];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });
}
