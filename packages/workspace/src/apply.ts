import { createHash } from "node:crypto";
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { dirname } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { clearAsides, type Holder, makeAside } from "./aside.ts";
import { after, type Brought, during, readBrought, withReturns, writeBrought } from "./brought.ts";
import type { Change, TreeChange } from "./change.ts";
import { eachChunk } from "./content.ts";
import type { Manifest } from "./manifest.ts";
import { conflictFault, isAsPlanned, planOf, type Step } from "./plan.ts";
import { writePiece } from "./take.ts";
import {
  closeDir,
  type Dir,
  errno,
  halt,
  openDir,
  openFile,
  openTree,
  orFault,
  type Pace,
  pacer,
  reach,
} from "./walk.ts";

/** What became of each change; paths in the order of the changes. */
export type Applied = {
  readonly written: readonly string[];
  /** They were there already. */
  readonly already: readonly string[];
  /** Not written, because they could make the person's git run a program or look elsewhere. */
  readonly held: readonly string[];
  /** Indexes of git's, not written, because the person's git has written them since. */
  readonly indexes: readonly string[];
  /** Directories that were to go and hold something that was not. */
  readonly kept: readonly string[];
  /** What the comparison could say nothing of. */
  readonly skipped: readonly string[];
};

/** Where changes come from and go to; `holder` names whoever brings them. */
export type ApplyPlace = Holder & {
  readonly base: Manifest;
  readonly tree: string;
  /** The directory that the base was taken from. */
  readonly target: string;
  /** The file that remembers what was brought, so that what is brought next can take its place. */
  readonly record: string;
};

/**
 * Brings the changes of a tree to the directory that its base was taken from. All places are looked at
 * first: if one is neither as the base had it, nor as the last apply left it, nor as it is wanted, nothing is
 * written (`changed`, naming them). New content is written aside and made durable before the first place
 * is touched; then each is put in place by a rename, and deletions come last. A second time changes
 * nothing. Nothing is read or written through a symlink. What an apply of a process that is no more left
 * aside is removed. Faults: `changed`, `io`, and of the record `corrupt`, `newer_version`; the first two
 * may come midway, say so, and are mended by applying again.
 */
export async function applyChanges(
  found: readonly TreeChange[],
  place: ApplyPlace,
  signal?: AbortSignal,
): Promise<Result<Applied>> {
  return orFault(place.target, async () => {
    const from = openTree(place.tree);
    try {
      const to = openTree(place.target);
      try {
        clearAsides(to, place.isAlive);
        const brought = readBrought(place.record);
        if (!brought.ok) return brought;
        return await apply(found, brought.value, { ...place, from, to }, pacer(signal));
      } finally {
        closeDir(to);
      }
    } finally {
      closeDir(from);
    }
  });
}

type Opened = ApplyPlace & { readonly from: Dir; readonly to: Dir };

async function apply(
  found: readonly TreeChange[],
  brought: Brought,
  place: Opened,
  pace: Pace,
): Promise<Result<Applied>> {
  const { base, target, record, to } = place;
  const plan = await planOf(withReturns(found, base, brought), brought, to, pace);
  if (plan.conflicts.length > 0) return fail(conflictFault(plan.conflicts, target));
  const { steps, held, indexes, kept, skipped } = plan;
  const changes = steps.map(({ change }) => change);
  if (steps.length > 0) {
    // Before the first place is touched: a crash in between leaves some as they were, and some not.
    const remember = () => writeBrought(record, during(brought, changes));
    const done = await bring(steps, place, pace, remember);
    if (!done.ok) return done;
  }
  const stands = [...changes, ...plan.already];
  if (stands.length > 0) {
    const remembered = await writeBrought(record, after(brought, stands));
    if (!remembered.ok) return remembered;
  }
  const written = changes.map(({ path }) => path);
  const already = plan.already.map(({ path }) => path);
  return ok({ written, already, held, indexes, kept, skipped });
}

async function bring(
  steps: readonly Step[],
  { from, to, holder }: Opened,
  pace: Pace,
  remember: () => Promise<Result<void>>,
): Promise<Result<void>> {
  // In the target itself, because only there a rename is sure to be one.
  const asideName = makeAside(to, holder);
  const aside = openDir(to, asideName);
  try {
    for (const [index, step] of steps.entries()) {
      await stage(step.change, from, aside, `${index}`, pace);
    }
    const remembered = await remember();
    if (!remembered.ok) return remembered;
    await commit(steps, to, aside);
    return ok(undefined);
  } finally {
    closeDir(aside);
    rmSync(to.at(asideName), { recursive: true });
  }
}

/** Writes aside what a change needs, as it is to be; durable when it returns. */
async function stage(
  change: Change,
  from: Dir,
  aside: Dir,
  name: string,
  pace: Pace,
): Promise<void> {
  if (change.kind === "deleted" || change.kind === "mode") return;
  const { after, path } = change;
  if (after.kind === "symlink") symlinkSync(after.target, aside.at(name));
  if (after.kind !== "file") return;
  const out = openSync(aside.at(name), "wx", 0o600);
  try {
    const copied = await reach(from, path, (parent, file) => copyFile(parent, file, out, pace));
    if (copied !== after.digest) {
      halt(
        fault("changed", "the workspace's file was written to meanwhile", path, "compare again"),
      );
    }
    fchmodSync(out, after.mode);
    fsyncSync(out);
  } finally {
    closeSync(out);
  }
}

/** The digest of what was copied; null when there is no such file any more. */
async function copyFile(
  parent: Dir,
  name: string,
  out: number,
  pace: Pace,
): Promise<string | null> {
  let fd: number;
  try {
    fd = openFile(parent, name);
  } catch (error) {
    if (["ENOENT", "ELOOP"].includes(errno(error))) return null;
    throw error;
  }
  try {
    const hash = createHash("sha256");
    let length = 0;
    await eachChunk(fd, pace, (chunk) => {
      hash.update(chunk);
      writePiece(out, chunk, length);
      length += chunk.length;
    });
    ftruncateSync(out, length);
    return hash.digest("hex");
  } finally {
    closeSync(fd);
  }
}

/** Puts all in place. */
async function commit(steps: readonly Step[], to: Dir, aside: Dir): Promise<void> {
  let doneCount = 0;
  const at = async (step: Step, act: (parent: Dir, name: string) => void): Promise<void> => {
    const { path } = step.change;
    const reached = await reach(to, path, (parent, name) => {
      if (!isAsPlanned(step, parent, name)) return false;
      act(parent, name);
      return true;
    });
    if (reached !== true) halt(midway(path, doneCount, steps.length));
    doneCount += 1;
  };
  const goes = (step: Step) => step.change.kind === "deleted";
  const cleared = steps.filter(isReplacedDirectory).map(({ change }) => `${change.path}/`);
  const inTheWay = (step: Step) => cleared.some((above) => step.change.path.startsWith(above));
  const deepestFirst = steps.toReversed();
  for (const step of deepestFirst.filter((one) => goes(one) && inTheWay(one))) {
    await at(step, (parent, name) => remove(step, parent, name));
  }
  for (const [index, step] of steps.entries()) {
    if (goes(step) || step.change.kind === "mode") continue;
    await at(step, (parent, name) => put(step, parent, name, aside.at(`${index}`)));
  }
  for (const step of deepestFirst.filter((one) => goes(one) && !inTheWay(one))) {
    await at(step, (parent, name) => remove(step, parent, name));
  }
  for (const { change } of deepestFirst) await setMode(change, to, doneCount);
  await makeDurable(steps, to);
}

function put(step: Step, parent: Dir, name: string, staged: string): void {
  const { change } = step;
  if (change.kind === "deleted") throw new Error(`${change.path} has nothing to put`);
  const place = parent.at(name);
  if (isReplacedDirectory(step)) rmdirSync(place);
  if (change.after.kind !== "directory") renameSync(staged, place);
  else {
    if (step.stamp !== null) unlinkSync(place);
    // Its own mode may forbid to write in it, so it gets that last.
    mkdirSync(place, { mode: 0o700 });
  }
}

function remove({ change }: Step, parent: Dir, name: string): void {
  const isDirectory = change.kind === "deleted" && change.before.kind === "directory";
  if (isDirectory) rmdirSync(parent.at(name));
  else unlinkSync(parent.at(name));
}

/** Sets the modes that were not set aside: of directories, and of files that changed in nothing else. */
async function setMode(change: Change, to: Dir, doneCount: number): Promise<void> {
  if (change.kind === "deleted" || change.after.kind === "symlink") return;
  const { after } = change;
  if (after.kind === "file" && change.kind !== "mode") return;
  const reached = await reach(to, change.path, (parent, name) => {
    if (after.kind === "directory") {
      const dir = openDir(parent, name);
      fchmodSync(dir.fd, after.mode);
      return closeDir(dir);
    }
    const fd = openFile(parent, name);
    fchmodSync(fd, after.mode);
    closeSync(fd);
  });
  if (typeof reached === "string") halt(midway(change.path, doneCount, doneCount));
}

function isReplacedDirectory({ change }: Step): boolean {
  return (
    change.kind === "modified" &&
    change.before.kind === "directory" &&
    change.after.kind !== "directory"
  );
}

function midway(path: string, doneCount: number, allCount: number): Fault {
  const message = `changed while the work was brought back; ${doneCount} of ${allCount} are in place`;
  return fault("changed", message, path, "compare again; what is in place already stays so");
}

async function makeDurable(steps: readonly Step[], to: Dir): Promise<void> {
  const touched = new Set(steps.map(({ change }) => dirname(change.path)));
  for (const path of touched) {
    if (path === ".") {
      fsyncSync(to.fd);
      continue;
    }
    await reach(to, path, (parent, name) => {
      try {
        const dir = openDir(parent, name);
        fsyncSync(dir.fd);
        closeDir(dir);
      } catch (error) {
        // It was one of those that went.
        if (errno(error) !== "ENOENT" && errno(error) !== "ENOTDIR") throw error;
      }
    });
  }
}
