import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Command, Report, Runner } from "../report/report.ts";
import type { Shell } from "../shell.ts";
import { NODE_PROBE } from "./probe-node.ts";
import { PYTHON_PROBE, PYTHON_START } from "./probe-python.ts";

/** Which lines of the tree the failing and the passing tests ran; lines outside of functions are not told. */
export type Coverage = {
  /** `test`: each test apart; `process`: each process that ran some, as passed or failed as a whole. */
  readonly grain: "test" | "process";
  readonly failingCount: number;
  readonly passingCount: number;
  /** By file relative to the workspace, then by line counted from 1. */
  readonly files: ReadonlyMap<string, ReadonlyMap<number, Hits>>;
};

/** How many tests ran a line. */
export type Hits = { readonly failing: number; readonly passing: number };

export type Covered =
  | { readonly kind: "covered"; readonly coverage: Coverage }
  /** There is none, and the ranking does without; `why` is for the ledger. */
  | { readonly kind: "none"; readonly why: string };

export type CoverageRun = {
  readonly shell: Shell;
  readonly command: Command;
  /** What the same command said when it ran as it is. */
  readonly report: Report;
  /** An absolute directory, with no link in its path: a copy of the workspace that the run may write to. */
  readonly root: string;
  /** An absolute directory that is not there yet; it is removed after the run. */
  readonly scratch: string;
  readonly env: Readonly<Record<string, string>>;
  /** Where the tests are loaded already: runs them with the probe, and says what it wrote; null where it cannot. */
  readonly inWorker: ((probe: string, deadlineMs: number) => Promise<string | null>) | null;
  /** For all of the run; a test that takes a quarter of it is interrupted, where that can be done. */
  readonly deadlineMs: number;
};

/**
 * Runs a command once more with a probe in each Python and node process that it starts. Costs what the
 * runtimes take for it: about twice the command, and never more than the deadline. Rejects only when
 * aborted, and for files that cannot be written.
 */
export async function cover(run: CoverageRun, signal: AbortSignal): Promise<Covered> {
  const { report, scratch } = run;
  if (BLIND.has(report.runner)) return none(`no coverage is taken of ${report.runner}`);
  if (isElsewhere(report)) return none("what failed is in a language that no coverage is taken of");
  const told = await run.inWorker?.(PYTHON_PROBE, run.deadlineMs);
  const dump = told === undefined || told === null ? null : dumpOf(told);
  if (dump !== null) return { kind: "covered", coverage: merged([dump], report) };
  const said = join(scratch, "said");
  await mkdir(said, { recursive: true });
  try {
    await writeFile(join(scratch, "kai-probe.cjs"), NODE_PROBE);
    await writeFile(join(scratch, "kai_probe.py"), PYTHON_PROBE);
    await writeFile(join(scratch, "sitecustomize.py"), PYTHON_START);
    const isLate = await ran(run, said, signal);
    const dumps = await readDumps(said);
    if (dumps.length > 0) return { kind: "covered", coverage: merged(dumps, report) };
    return none(isLate ? "the run with a probe took too long" : "no process said what it ran");
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Ochiai's coefficient of a line or a function that `failing` and `passing` tests ran. */
export function ochiai({ failing, passing }: Hits, coverage: Coverage): number {
  if (failing === 0) return 0;
  return failing / Math.sqrt(coverage.failingCount * (failing + passing));
}

/** A report that names files, and none that a probe could see. */
function isElsewhere({ failures }: Report): boolean {
  const files = failures.flatMap(({ file, frames }) => [
    ...(file === null ? [] : [file]),
    ...frames.map((frame) => frame.file),
  ]);
  return files.length > 0 && !files.some((file) => /\.(py|[cm]?[jt]sx?)$/.test(file));
}

const BLIND: ReadonlySet<Runner> = new Set(["go", "cargo", "junit"]);
const DUMPS_MAX = 256;
const DUMP_BYTES_MAX = 32 * 1024 * 1024;
/** Of the deadline, when a probe gives up and writes what it has. */
const SOFT_SHARE = 0.8;
const TEST_SHARE = 0.25;

/** Says whether the deadline came first. */
async function ran(run: CoverageRun, said: string, signal: AbortSignal): Promise<boolean> {
  signal.throwIfAborted();
  const { shell, command, root, scratch, deadlineMs } = run;
  const running = shell.start({
    argv: command.argv,
    cwd: join(root, command.cwd),
    env: probeEnv(run, said),
    stdin: "none",
    writable: [root, scratch],
  });
  running.stdout.resume();
  running.stderr.resume();
  let isLate = false;
  const kill = (): void => running.kill();
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, deadlineMs);
  signal.addEventListener("abort", kill, { once: true });
  await running.ended;
  clearTimeout(timer);
  signal.removeEventListener("abort", kill);
  signal.throwIfAborted();
  return isLate;
}

function probeEnv(run: CoverageRun, said: string): Readonly<Record<string, string>> {
  const { env, report, root, scratch, deadlineMs } = run;
  const perTest = report.runner === "pytest" || report.runner === "unittest";
  const joined = (...parts: readonly (string | undefined)[]): string =>
    parts.filter((part) => part !== undefined && part !== "").join(delimiter);
  const probe = `--require ${JSON.stringify(join(scratch, "kai-probe.cjs"))}`;
  return {
    ...env,
    KAI_PROBE_FOLDER: said,
    KAI_PROBE_ROOT: root,
    KAI_PROBE_RUNNER: report.runner,
    KAI_PROBE_GRAIN: perTest ? "test" : "process",
    KAI_PROBE_TEST_S: String((deadlineMs * TEST_SHARE) / 1000),
    KAI_PROBE_ALL_S: String((deadlineMs * SOFT_SHARE) / 1000),
    NODE_OPTIONS: env.NODE_OPTIONS ? `${env.NODE_OPTIONS} ${probe}` : probe,
    PYTHONPATH: joined(scratch, env.PYTHONPATH),
    PYTHONDONTWRITEBYTECODE: "1",
    ...(report.runner === "pytest" && {
      PYTEST_PLUGINS: env.PYTEST_PLUGINS ? `${env.PYTEST_PLUGINS},kai_probe` : "kai_probe",
    }),
  };
}

type Dump = {
  readonly grain: "test" | "process";
  readonly totals: readonly [number, number];
  readonly loaded: readonly string[];
  readonly files: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;
};

async function readDumps(folder: string): Promise<readonly Dump[]> {
  const dumps: Dump[] = [];
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  for (const name of names.slice(0, DUMPS_MAX)) {
    const path = join(folder, name);
    if ((await stat(path)).size > DUMP_BYTES_MAX) continue;
    const dump = dumpOf(await readFile(path, "utf8"));
    if (dump !== null) dumps.push(dump);
  }
  return dumps;
}

/** The tree's own code runs beside the probe, and could have written anything. */
function dumpOf(text: string): Dump | null {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof said !== "object" || said === null) return null;
  const { grain, totals, loaded, files } = said as Partial<Record<keyof Dump, unknown>>;
  if (grain !== "test" && grain !== "process") return null;
  if (!isPair(totals) || !Array.isArray(loaded) || typeof files !== "object") return null;
  for (const lines of Object.values(files ?? {})) {
    if (typeof lines !== "object" || lines === null) return null;
    if (!Object.values(lines).every(isPair)) return null;
  }
  return said as Dump;
}

function isPair(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every(Number.isSafeInteger);
}

function merged(dumps: readonly Dump[], report: Report): Coverage {
  const isPerTest = dumps.some((dump) => dump.grain === "test");
  const failed = new Set(report.failures.flatMap(({ file }) => (file === null ? [] : [file])));
  const files = new Map<string, Map<number, { failing: number; passing: number }>>();
  const counts = { failing: 0, passing: 0 };
  const isTold = dumps.some((dump) => dump.loaded.some((file) => failed.has(file)));
  for (const dump of dumps) {
    // A process that a test has started counts as part of no test.
    if (isPerTest && dump.grain === "process") continue;
    const passed = !isPerTest && isTold && !dump.loaded.some((file) => failed.has(file));
    const told = ([failing, passing]: readonly [number, number]): Hits =>
      passed ? { failing: 0, passing: failing + passing } : { failing, passing };
    add(counts, told(dump.totals));
    for (const [file, lines] of Object.entries(dump.files)) {
      const into = files.get(file) ?? new Map<number, { failing: number; passing: number }>();
      files.set(file, into);
      for (const [line, pair] of Object.entries(lines)) {
        const hits = into.get(Number(line)) ?? { failing: 0, passing: 0 };
        into.set(Number(line), hits);
        add(hits, told(pair));
      }
    }
  }
  const { failing: failingCount, passing: passingCount } = counts;
  return { grain: isPerTest ? "test" : "process", failingCount, passingCount, files };
}

function add(into: { failing: number; passing: number }, hits: Hits): void {
  into.failing += hits.failing;
  into.passing += hits.passing;
}

function none(why: string): Covered {
  return { kind: "none", why };
}
