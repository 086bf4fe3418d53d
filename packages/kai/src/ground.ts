import { realpath } from "node:fs/promises";
import { join, posix, relative, sep } from "node:path";
import { ok, type Result } from "@dev/protocol";
import { Copy, type Tree, takeTree } from "./copy.ts";
import { type Execution, execute } from "./execution.ts";
import { runnerOf } from "./report/invocation.ts";
import { readReport } from "./report/reading.ts";
import type { Command } from "./report/report.ts";
import type { Workspace } from "./report/workspace.ts";
import { workspaceIn } from "./scene.ts";
import type { Shell } from "./shell.ts";
import { confines, programsIn } from "./trial/open.ts";
import { type Proof, startIn } from "./verify.ts";

/** The person's tree as it was taken, and all that is needed to run commands in copies of it. */
export type Ground = {
  readonly shell: Shell;
  readonly env: Readonly<Record<string, string>>;
  readonly scratch: string;
  /** The person's own directory. */
  readonly directory: string;
  /** Whether no process can write to it. */
  readonly isReadOnly: boolean;
  readonly tree: Tree;
  readonly command: Command;
  /** Where the programs are that run beside the tests. */
  readonly programs: string;
  readonly nowMs: () => number;
};

export type GroundOptions = {
  readonly shell: Shell;
  readonly env: Readonly<Record<string, string>>;
  readonly scratch: string;
  readonly directory: string;
  /** Relative to the directory, with `/`. */
  readonly cwd: string;
  readonly argv: readonly string[];
  readonly nowMs: () => number;
};

/** Takes the tree. Faults: `too_large`, `io`. */
export async function takeGround(
  options: GroundOptions,
  signal: AbortSignal,
): Promise<Result<Ground>> {
  const { shell, env, scratch, argv, cwd, nowMs } = options;
  const directory = await realpath(options.directory);
  const [isReadOnly, programs] = await Promise.all([
    confines(shell, env, scratch),
    programsIn(scratch),
  ]);
  const tree = await takeTree(directory, join(scratch, "ground"), isReadOnly, signal);
  if (!tree.ok) return tree;
  const command = { argv: argv.map((word) => relocated(word, directory, cwd)), cwd };
  const rest = { shell, env, scratch, directory, isReadOnly, command, programs, nowMs };
  return ok({ ...rest, tree: tree.value });
}

/** A path into the tree leads to the original from any copy; from the directory of the run it is the copy's. */
function relocated(word: string, directory: string, cwd: string): string {
  if (word !== directory && !word.startsWith(directory + sep)) return word;
  const inside = relative(directory, word).split(sep).join("/");
  return posix.relative(cwd, inside) || ".";
}

/** A copy with a name of its own below the scratch directory, and what runs in it. */
export type Place = {
  readonly copy: Copy;
  readonly path: string;
  readonly workspace: Workspace;
  run(command: Command, deadlineMs: number, signal: AbortSignal): Promise<Execution>;
  proof(command: Command, ran: Extract<Execution, { kind: "ran" }>): Proof;
};

export async function openPlace(ground: Ground, name: string, signal: AbortSignal): Promise<Place> {
  const { shell, env, tree, nowMs } = ground;
  const path = join(ground.scratch, name);
  const copy = await Copy.make(tree, join(path, "tree"), signal);
  const workspace = workspaceIn(tree, copy.dir);
  return {
    copy,
    path,
    workspace,
    run: (command, deadlineMs, until) =>
      execute(shell, startIn(copy.dir, path, command, env), deadlineMs, nowMs, until),
    proof: (command, { output, durationMs }) => {
      const report = readReport(runnerOf(command, copy.dir), command, output, workspace);
      return { argv: command.argv, end: output.end, durationMs, report };
    },
  };
}
