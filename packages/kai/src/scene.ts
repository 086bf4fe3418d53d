import { readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { type Copy, type Tree, textOf } from "./copy.ts";
import { type Covered, cover } from "./locate/coverage.ts";
import { locate, type Ranked, type Suspect, suspectsOf } from "./locate/locate.ts";
import { shortlist } from "./locate/shortlist.ts";
import type { Command, Report } from "./report/report.ts";
import { type Workspace, workspaceOf } from "./report/workspace.ts";
import { echoes } from "./search/echo.ts";
import { fill, nearest, openTrigrams, type Trigrams } from "./search/trigram.ts";
import type { Shell } from "./shell.ts";
import { languageOf } from "./syntax/grammar.ts";
import type { Source } from "./syntax/source.ts";
import type { Syntax } from "./syntax/syntax.ts";
import type { Cover } from "./trial/trial.ts";

/** All that is known of a failure before anything is changed. */
export type Scene = {
  readonly report: Report;
  readonly covered: Covered;
  readonly sources: readonly Source[];
  readonly ranking: readonly Ranked[];
  readonly suspects: readonly Suspect[];
  /** Files that were not looked into, because there are too many. */
  readonly leftCount: number;
};

export const SCENE_LIMITS = {
  suspectCount: 400,
  /** The run with a probe costs about twice what the command does. */
  coverFactor: 4,
  coverExtraMs: 2_000,
  coverMs: 10_000,
  /** A command that does not end is interrupted, and what it ran until then is what it hangs in. */
  hangMs: 4_000,
  /** Files that are read before it is known what fails. */
  aheadCount: 24,
} as const;

/** Code of others, which is not what is at fault. */
const FOREIGN = /(^|\/)(node_modules|\.git|\.venv|venv|site-packages|vendor|dist-packages)\//;

/** The files of a tree that may be at fault, as the readers of reports know them. */
export function workspaceIn(tree: Tree, directory: string): Workspace {
  const files = [...tree.entries].flatMap(([path, { kind }]) =>
    kind === "file" && !FOREIGN.test(path) ? [path] : [],
  );
  return workspaceOf(directory, files);
}

export type SceneOptions = {
  readonly tree: Tree;
  readonly workspace: Workspace;
  readonly command: Command;
  readonly report: Report;
  readonly baseMs: number;
  readonly isHanging: boolean;
  readonly syntax: Syntax;
  readonly shell: Shell;
  /** A copy that the run with a probe may write to, and where it may write besides. */
  readonly copy: Copy;
  readonly scratch: string;
  readonly env: Readonly<Record<string, string>>;
  /** When a file was last changed in git, in Unix milliseconds; a file may be missing. */
  readonly changedMs: ReadonlyMap<string, number>;
  /** What runs the tests with a probe where they are loaded already; null where nothing does. */
  readonly inWorker: Promise<Cover | null> | null;
};

/** What is known at once, and what the run with a probe will tell. */
export type Study = {
  readonly blind: Scene;
  /** The same with coverage; rejects only when aborted. */
  readonly covered: Promise<Scene>;
};

/** Spells the failure's words in the files and ranks, while the command runs once more with a probe in it. */
export async function study(options: SceneOptions, signal: AbortSignal): Promise<Study> {
  const { tree, workspace, command, report, syntax, changedMs } = options;
  const covering = covered(options, signal);
  // Whoever waits for the ranking with coverage hears of it.
  covering.catch(() => undefined);
  const files = compiled(command, [...workspace.files]);
  const known = files.filter((file) => languageOf(file) !== "other").sort();
  const near = nearest(known.length > 0 ? known : files.toSorted(), placesOf(report));
  const index = await indexed(tree, near, signal);
  const echoed = echoes(index, report);
  const ranked = async (told: Covered): Promise<Scene> => {
    const coverage = told.kind === "covered" ? told.coverage : null;
    const short = shortlist(near, { report, coverage, echoes: echoed });
    const read = await Promise.all(short.files.map((file) => readSource(tree, file, syntax)));
    const sources = read.flatMap((source) => (source === null ? [] : [source]));
    const ranking = locate({ report, coverage, echoes: echoed, sources, changedMs });
    const suspects = suspectsOf(ranking, SCENE_LIMITS.suspectCount);
    return { report, covered: told, sources, ranking, suspects, leftCount: short.leftCount };
  };
  const blind = await ranked({ kind: "none", why: "it is not known yet" });
  const later = covering.then(ranked);
  later.catch(() => undefined);
  return { blind, covered: later };
}

/** Reads what any failure would have read, as far as that is little: the grammar, and the files of a small tree. */
export async function readAhead(
  { tree, command }: Pick<SceneOptions, "tree" | "command">,
  syntax: Syntax,
  signal: AbortSignal,
): Promise<void> {
  const { files } = workspaceIn(tree, tree.dir);
  const known = compiled(command, [...files].toSorted()).filter((f) => languageOf(f) !== "other");
  // Of many files, which are needed is not known yet; one of them brings the grammar.
  const few = known.length > SCENE_LIMITS.aheadCount ? known.slice(0, 1) : known;
  for (const file of few) {
    if (signal.aborted) return;
    await readSource(tree, file, syntax);
  }
}

const COMPILED = /\.(java|c|cc|cpp|cxx|rs|go|kt|scala)$/;

/** Where a command names what it compiles, no other file of that kind is in what it runs. */
function compiled(command: Command, files: readonly string[]): readonly string[] {
  const words = command.argv.flatMap((word) => word.split(/[\s'"]+/));
  const named = new Set(
    words.filter((word) => COMPILED.test(word)).map((word) => posix.join(command.cwd, word)),
  );
  const found = files.filter((file) => named.has(file));
  if (found.length === 0) return files;
  const kinds = new Set(found.map((file) => posix.extname(file)));
  return files.filter((file) => named.has(file) || !kinds.has(posix.extname(file)));
}

async function covered(options: SceneOptions, signal: AbortSignal): Promise<Covered> {
  const { shell, command, report, copy, scratch, env, baseMs, isHanging } = options;
  const { coverFactor, coverExtraMs, coverMs, hangMs } = SCENE_LIMITS;
  const deadlineMs = isHanging ? hangMs : Math.min(coverMs, coverExtraMs + coverFactor * baseMs);
  const root = copy.dir;
  const able = await options.inWorker?.catch(() => null);
  const inWorker = able
    ? (probe: string, ms: number): Promise<string | null> => able(probe, ms, signal)
    : null;
  return cover({ shell, command, report, root, scratch, env, deadlineMs, inWorker }, signal);
}

async function indexed(
  tree: Tree,
  files: readonly string[],
  signal: AbortSignal,
): Promise<Trigrams> {
  const index = openTrigrams();
  await fill(index, files, (file) => textOf(tree, file), signal);
  return index;
}

async function readSource(tree: Tree, file: string, syntax: Syntax): Promise<Source | null> {
  const text = await textOf(tree, file);
  return text === null ? null : syntax.read(file, text);
}

function placesOf(report: Report): readonly string[] {
  return report.failures.flatMap(({ file, frames }) => [
    ...(file === null ? [] : [file]),
    ...frames.map((frame) => frame.file),
  ]);
}

/** A file's text as the person has it now; null where it is gone or no text. */
export async function textNow(directory: string, file: string): Promise<string | null> {
  const bytes = await readFile(join(directory, file)).catch(() => null);
  if (bytes === null) return null;
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : null;
}
