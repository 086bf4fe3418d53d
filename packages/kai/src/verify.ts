import { writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { remove, type Tree, takeTree } from "./copy.ts";
import { endText, execute, hasPassed } from "./execution.ts";
import { invocationOf, runnerOf } from "./report/invocation.ts";
import { readReport } from "./report/reading.ts";
import type { Command, Output, Report } from "./report/report.ts";
import { around } from "./report/selection.ts";
import { textNow, workspaceIn } from "./scene.ts";
import type { Shell } from "./shell.ts";
import type { Slot } from "./trial/slot.ts";

/** What was run to settle whether a fix is one, and what came of it. */
export type Proof = {
  readonly argv: readonly string[];
  readonly end: Output["end"];
  readonly durationMs: number;
  readonly report: Report;
};

export type Verification =
  | { readonly kind: "verified"; readonly proof: Proof; readonly around: readonly Proof[] }
  | { readonly kind: "refused"; readonly proof: Proof; readonly why: string };

/** A file with its text before and after; the same shape as what is applied. */
export type FileText = { readonly file: string; readonly before: string; readonly after: string };

export type VerifyOptions = {
  readonly shell: Shell;
  /** The person's own tree, which is only read. */
  readonly directory: string;
  /** Whether no process can write to it. */
  readonly isReadOnly: boolean;
  /** A directory of this verification's own, made and removed. */
  readonly place: string;
  readonly command: Command;
  readonly report: Report;
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly FileText[];
  readonly deadlineMs: number;
  readonly nowMs: () => number;
};

/**
 * Takes the person's tree anew, makes the edits there, and runs the whole command cold: what it says is
 * said of the tree as it will be left. Then the tests around it run, and where one fails, the same
 * without the edits, to see whether it is new. Faults: `changed`, `too_large`, `io`.
 */
export async function verify(
  options: VerifyOptions,
  signal: AbortSignal,
): Promise<Result<Verification>> {
  const { directory, place, isReadOnly, files, command, report } = options;
  try {
    const taken = await takeTree(directory, place, isReadOnly, signal);
    if (!taken.ok) return taken;
    const tree = taken.value;
    for (const { file, before } of files) {
      if ((await textNow(tree.dir, file)) !== before) {
        const what = "the file was changed while a fix for it was looked for";
        return fail(fault("changed", what, join(directory, file), "run it again"));
      }
    }
    const run = runner(options, tree, signal);
    await put(tree, files, "after");
    const proof = await run(command);
    if (!hasPassed(proof)) {
      const why = `the whole command says otherwise: ${endText(proof.end)}`;
      return ok({ kind: "refused", proof, why });
    }
    const fewer = fewerTests(report, proof.report);
    if (fewer !== null) return ok({ kind: "refused", proof, why: fewer });
    const workspace = workspaceIn(tree, tree.dir);
    const touched = files.map(({ file }) => file);
    const others = around(command, report, touched, workspace).filter(
      (other) => !covers(command, other, tree),
    );
    const proofs: Proof[] = [];
    for (const other of others) {
      const after = await run(other);
      proofs.push(after);
      if (after.end.kind === "exit" && after.end.code === 0) continue;
      await put(tree, files, "before");
      const before = await run(other);
      await put(tree, files, "after");
      const why = newlyFailing(before, after);
      if (why !== null) return ok({ kind: "refused", proof: after, why });
    }
    return ok({ kind: "verified", proof, around: proofs });
  } finally {
    await remove(place);
  }
}

type Run = (command: Command) => Promise<Proof>;

function runner(options: VerifyOptions, tree: Tree, signal: AbortSignal): Run {
  const { shell, env, place, deadlineMs, nowMs } = options;
  return async (command) => {
    const start = startIn(tree.dir, place, command, env);
    const ran = await execute(shell, start, deadlineMs, nowMs, signal);
    const { argv } = command;
    if (ran.kind === "not_run") {
      const output: Output = { stdout: "", stderr: ran.why, end: { kind: "exit", code: 127 } };
      return proofOf(argv, output, 0, command, tree);
    }
    return proofOf(argv, ran.output, ran.durationMs, command, tree);
  };
}

function proofOf(
  argv: readonly string[],
  output: Output,
  durationMs: number,
  command: Command,
  tree: Tree,
): Proof {
  const workspace = workspaceIn(tree, tree.dir);
  const report = readReport(runnerOf(command, tree.dir), command, output, workspace);
  return { argv, end: output.end, durationMs, report };
}

async function put(
  tree: Tree,
  files: readonly FileText[],
  side: "before" | "after",
): Promise<void> {
  for (const each of files) await writeFile(join(tree.dir, each.file), each[side]);
}

/** Why a command that passes is no proof: tests that ran before do not run now. */
function fewerTests(before: Report, after: Report): string | null {
  if (after.passedCount === null) return null;
  const count = Math.max(1, (before.passedCount ?? 0) + (before.failedCount ?? 0));
  if (after.passedCount >= count) return null;
  return `only ${after.passedCount} tests pass, and ${count} ran before`;
}

/** Why tests around are a reason to refuse: they fail, and did not without the edits. */
function newlyFailing(before: Proof, after: Proof): string | null {
  if (before.end.kind === "exit" && before.end.code === 0) {
    return `tests around it fail now: ${named(after.report)}`;
  }
  const known = new Set(before.report.failures.map(({ test }) => test));
  const fresh = after.report.failures.filter(({ test }) => !known.has(test));
  if (fresh.length === 0) return null;
  return `tests around it fail now: ${fresh.map(({ test }) => test).join(", ")}`;
}

function named(report: Report): string {
  return report.failures
    .slice(0, 5)
    .map(({ test }) => test)
    .join(", ");
}

const CHOOSING =
  /^(-k|-m|-t|--grep|-g|--test-name-pattern|--testNamePattern|-run|--deselect|--ignore|--lf|-Dtest)(=|$)/;

/** Whether the command runs all that another one of the same runner would. */
function covers(command: Command, other: Command, tree: Tree): boolean {
  const [own, its] = [command, other].map((each) => invocationOf(each, tree.dir));
  if (!own || !its || own.cwd !== its.cwd) return false;
  if (own.args.some((word) => CHOOSING.test(word) || word.includes("::"))) return false;
  const paths = (args: readonly string[]): readonly string[] =>
    args
      .map((word) => posix.join(own.cwd, word).replace(/\/$/, ""))
      .filter((path) => path === "." || tree.entries.has(path));
  const above = paths(own.args);
  return paths(its.args).every(
    (path) =>
      above.length === 0 ||
      above.some((each) => each === "." || path === each || path.startsWith(`${each}/`)),
  );
}

/** How a command is started in a tree that it may write to, with a temporary directory of its own. */
export function startIn(
  directory: string,
  place: string,
  command: Command,
  env: Readonly<Record<string, string>>,
): ReturnType<Slot["start"]> {
  const cwd = join(directory, command.cwd);
  const own = {
    PWD: cwd,
    TMPDIR: place,
    PYTHONDONTWRITEBYTECODE: "1",
    HYPOTHESIS_STORAGE_DIRECTORY: join(place, "hypothesis"),
  };
  return { argv: command.argv, cwd, env: { ...env, ...own }, stdin: "none", writable: [place] };
}
