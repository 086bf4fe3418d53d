import type { Execution } from "./execution.ts";
import { endText, hasPassed } from "./execution.ts";
import type { Ground, Place } from "./ground.ts";
import { runnerOf } from "./report/invocation.ts";
import { nothingRun } from "./report/nothing.ts";
import { revisionOf } from "./revision.ts";
import type { Task } from "./task.ts";
import type { Proof } from "./verify.ts";

/** What the command says of the tree as it is. */
export type BaseRun =
  | { readonly kind: "fails"; readonly proof: Proof }
  | { readonly kind: "passes"; readonly proof: Proof }
  | { readonly kind: "not_run"; readonly why: string };

/** A shell's own words for what it could not find, and for what it may not run. */
const NOT_FOUND = 127;
const NOT_RUNNABLE = 126;

/** Runs the command once, as it is, in a copy. */
export async function runBase(
  task: Task,
  place: Place,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<BaseRun> {
  const { command } = task.ground;
  const action = task.begin(
    { kind: "test", argv: command.argv },
    "as it was given",
    revisionOf(new Map()),
  );
  action.become("attempted");
  const ran = await place.run(command, deadlineMs, signal);
  const base = baseOf(ran, place, task.ground);
  if (base.kind === "not_run") {
    action.become("failed", { why: base.why });
    return base;
  }
  const { end, durationMs, report } = base.proof;
  const failed = report.failures.map(({ test, kind }) => ({ test, kind }));
  const result = { end, ms: Math.round(durationMs), runner: report.runner, failed };
  if (end.kind === "timeout") action.become("timed_out", result);
  else {
    action.become("completed", result);
    action.become("validated", result);
  }
  task.options.onProgress({ kind: "ran", what: "base", proof: base.proof });
  return base;
}

function baseOf(ran: Execution, place: Place, { command, tree, directory }: Ground): BaseRun {
  if (ran.kind === "not_run") return ran;
  const proof = place.proof(command, ran);
  if (hasPassed(ran.output)) return { kind: "passes", proof };
  const { end, stderr } = ran.output;
  const isShell = end.kind === "exit" && (end.code === NOT_FOUND || end.code === NOT_RUNNABLE);
  const { failures, failedCount } = proof.report;
  // A program of the tests' own may end so too, but then it has said which of them failed.
  if (isShell && failedCount === null && failures.every(({ frames }) => frames.length === 0)) {
    const said = stderr.trim().split("\n").at(-1) ?? "";
    return { kind: "not_run", why: said === "" ? endText(end) : said };
  }
  const why =
    missingRunner(proof, stderr, runnerOf(command, tree.dir)) ??
    nothingRun(ran.output, proof.report);
  if (why === null) return { kind: "fails", proof };
  // It is told of the person's tree, and not of the copy in which it ran.
  return { kind: "not_run", why: why.replaceAll(place.copy.dir, directory) };
}

/** An interpreter that is there, and says that the runner is not. */
function missingRunner(proof: Proof, stderr: string, runner: string): string | null {
  if (proof.report.failedCount !== null || proof.end.kind !== "exit") return null;
  const said = /^.*: No module named (\S+)\s*$/m.exec(stderr);
  const isRunner = said !== null && said[1] === runner && !/^Traceback/m.test(stderr);
  return isRunner ? said[0].trim() : null;
}
