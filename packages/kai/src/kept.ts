import { join } from "node:path";
import { type Candidate, type Edit, edited } from "./candidate.ts";
import { textOf } from "./copy.ts";
import { hasPassed } from "./execution.ts";
import { type Ground, openPlace } from "./ground.ts";
import type { State } from "./help.ts";
import { isProgress } from "./recover.ts";
import type { Report } from "./report/report.ts";
import { revisionOf } from "./revision.ts";
import { study } from "./scene.ts";
import type { Syntax } from "./syntax/syntax.ts";
import { filesOf, type Task } from "./task.ts";
import type { Proof } from "./verify.ts";

/** By file, texts with edits in them that stay while the run goes on. */
export type Kept = ReadonlyMap<string, string>;

export const NONE_KEPT: Kept = new Map();

/** Whether an edit that does not do stays all the same: the whole command says that it helped. */
export function isKept(before: Report, proof: Proof, { command }: Ground): boolean {
  // What runs around it is another command, and one that passes was refused for something else.
  if (proof.argv !== command.argv) return false;
  return !hasPassed({ end: proof.end }) && isProgress(before, proof.report);
}

/** A candidate for what is kept, as one for the tree as it is. */
export async function composed(
  candidate: Candidate,
  kept: Kept,
  { tree }: Ground,
): Promise<Candidate> {
  if (kept.size === 0) return candidate;
  const original = async (file: string): Promise<string> => {
    const text = await textOf(tree, file);
    if (text === null) throw new Error(`a candidate is about no text: ${file}`);
    return text;
  };
  const made = new Map(kept);
  for (const file of new Set(candidate.edits.map((edit) => edit.file))) {
    made.set(file, edited(kept.get(file) ?? (await original(file)), file, candidate.edits));
  }
  const edits: Edit[] = [];
  for (const [file, text] of made) {
    edits.push({ file, from: 0, to: (await original(file)).length, text });
  }
  return { ...candidate, edits };
}

export type Keeping = {
  readonly task: Task;
  readonly syntax: Syntax;
  /** For the tree as it is. */
  readonly candidate: Candidate;
  /** What the command said with it, and how long it took. */
  readonly proof: Proof;
  /** Tells this one's copies from those of others. */
  readonly number: number;
};

/** Makes a copy with a candidate in it, and finds out anew what is at fault there. */
export async function keep(
  { task, syntax, candidate, proof, number }: Keeping,
  signal: AbortSignal,
): Promise<{ readonly kept: Kept; readonly state: State }> {
  const { ground } = task;
  const files = await filesOf(candidate, ground);
  const kept = new Map(files.map(({ file, after }) => [file, after]));
  // What the run with a probe writes is not to be read as the workspace.
  const [place, probed] = await Promise.all(
    ["kept", "kept-probe"].map((name) => openPlace(ground, `${name}-${number}`, signal)),
  );
  if (place === undefined || probed === undefined) throw new Error("two places were opened");
  await place.copy.put(kept);
  await probed.copy.put(kept);
  const { workspace } = place;
  const { report, durationMs: baseMs, end } = proof;
  const scratch = join(probed.path, "probe");
  const { covered } = await study(
    {
      ...ground,
      tree: { ...ground.tree, dir: place.copy.dir },
      workspace,
      report,
      baseMs,
      isHanging: end.kind === "timeout",
      syntax,
      copy: probed.copy,
      scratch,
      env: { ...ground.env, TMPDIR: scratch },
      changedMs: new Map(),
      inWorker: null,
    },
    signal,
  );
  const scene = await covered;
  const revision = revisionOf(new Map(scene.sources.map(({ file, text }) => [file, text])));
  const { command } = ground;
  return { kept, state: { revision, command, report, scene, workspace, history: [] } };
}
