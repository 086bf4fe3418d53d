import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import { type Fault, fault } from "@dev/protocol";
import { type Brought, fromBrought } from "./brought.ts";
import { type Change, readFileNode, type TreeChange } from "./change.ts";
import { isHeldBack, isIndex } from "./guard.ts";
import type { Stamp } from "./manifest.ts";
import { sameNode, type TreeNode } from "./node.ts";
import { modeOf, sameStamp, stampOf } from "./take.ts";
import { closeDir, type Dir, errno, openDir, type Pace, reach } from "./walk.ts";

/** What is to be done to bring changes to a tree, and what was found on the way. */
export type Plan = {
  readonly steps: readonly Step[];
  /** What is already as it is wanted. */
  readonly already: readonly Change[];
  /** See `isHeldBack`. */
  readonly held: readonly string[];
  /** Indexes of git's that are neither as they were nor as they are wanted: see `isIndex`. */
  readonly indexes: readonly string[];
  /** Directories that were to go and hold what is not. */
  readonly kept: readonly string[];
  readonly skipped: readonly string[];
  /** Paths that are neither as the base had them, nor as an apply left them, nor as they are wanted. */
  readonly conflicts: readonly string[];
};

/** One change to make; `stamp` is of what stands there now, null where nothing does. */
export type Step = {
  readonly change: Change;
  readonly stamp: Stamp | null;
};

type Seen =
  /** `inDirectory`: the directory that would hold it is there. */
  | { readonly kind: "absent"; readonly inDirectory: boolean }
  /** Something that no tree of ours holds, or that could not be read. */
  | { readonly kind: "other" }
  | { readonly kind: "node"; readonly node: TreeNode; readonly stamp: Stamp };

/** How many conflicting paths a fault names; the rest it counts. */
const NAMED_LIMIT_COUNT = 20;

/** Looks at every place that the changes would touch, and writes nothing. */
export async function planOf(
  found: readonly TreeChange[],
  brought: Brought,
  target: Dir,
  pace: Pace,
): Promise<Plan> {
  const steps: Step[] = [];
  const already: Change[] = [];
  const indexes: string[] = [];
  const conflicts: string[] = [];
  const held = heldBack(found);
  const skipped = found.filter((change) => change.kind === "skipped").map(({ path }) => path);
  const coming = new Set<string>();
  const going = new Set<string>();
  for (const change of found) {
    if (change.kind === "skipped" || held.has(change.path)) continue;
    await pace();
    if (change.kind === "deleted") going.add(change.path);
    else if (change.after.kind === "directory") coming.add(change.path);
    const seen = await look(target, change.path, pace);
    const step = stepOf(change, seen, brought, coming);
    if (step !== null) steps.push(step);
    else if (isAsWanted(change, seen)) already.push(change);
    else if (isIndex(change.path)) {
      going.delete(change.path);
      indexes.push(change.path);
    } else conflicts.push(change.path);
  }
  const kept = await keepFull(steps, going, target);
  conflicts.push(...(await othersInTheWay(steps, going, target)));
  return {
    steps: steps.filter(({ change }) => !kept.has(change.path)),
    already,
    held: [...held].sort(),
    indexes,
    kept: [...kept].sort(),
    skipped,
    conflicts: conflicts.sort(),
  };
}

/**
 * What is to be done to make a change; null where it is made, or where what stands there is not for us
 * to replace.
 */
function stepOf(
  change: Change,
  seen: Seen,
  brought: Brought,
  coming: ReadonlySet<string>,
): Step | null {
  const stamp = seen.kind === "node" ? seen.stamp : null;
  const left = fromBrought(change, brought).find((one) => isAsBefore(one, seen, coming));
  if (left !== undefined) return { change: left, stamp };
  const isOpen = !isAsWanted(change, seen) && isAsBefore(change, seen, coming);
  return isOpen ? { change, stamp } : null;
}

/** The directories that cannot go, because not all that is in them does; they leave `going`. */
async function keepFull(
  steps: readonly Step[],
  going: Set<string>,
  target: Dir,
): Promise<ReadonlySet<string>> {
  const kept = new Set<string>();
  // The deepest first: a directory that stays makes the one above it stay.
  for (const { change } of steps.toReversed()) {
    if (change.kind !== "deleted" || change.before.kind !== "directory") continue;
    if ((await othersIn(change.path, going, target)).length === 0) continue;
    going.delete(change.path);
    kept.add(change.path);
  }
  return kept;
}

/** What would have to go for a file to take a directory's place, and is not ours to remove. */
async function othersInTheWay(
  steps: readonly Step[],
  going: ReadonlySet<string>,
  target: Dir,
): Promise<readonly string[]> {
  const others: string[] = [];
  for (const { change } of steps) {
    if (change.kind !== "modified" || change.before.kind !== "directory") continue;
    others.push(...(await othersIn(change.path, going, target)));
  }
  return others;
}

async function othersIn(
  path: string,
  going: ReadonlySet<string>,
  target: Dir,
): Promise<readonly string[]> {
  const names = await namesIn(target, path);
  return names.map((name) => `${path}/${name}`).filter((inside) => !going.has(inside));
}

export function conflictFault(conflicts: readonly string[], target: string): Fault {
  const named = conflicts.slice(0, NAMED_LIMIT_COUNT).map((path) => JSON.stringify(path));
  const rest = conflicts.length - named.length;
  const all = rest === 0 ? named.join(", ") : `${named.join(", ")} and ${rest} more`;
  const message = `changed since the work began, so nothing was written: ${all}`;
  return fault("changed", message, target, "apply the diff by hand, or undo those changes first");
}

/** The names in a directory of the tree; none where there is no directory. */
async function namesIn(root: Dir, path: string): Promise<readonly string[]> {
  const names = await reach(root, path, (parent, name) => {
    const dir = openDir(parent, name);
    try {
      return readdirSync(dir.at("."));
    } finally {
      closeDir(dir);
    }
  });
  return typeof names === "string" ? [] : names;
}

/** Whether what stands there is still what the step was planned on. */
export function isAsPlanned(step: Step, parent: Dir, name: string): boolean {
  try {
    const stat = lstatSync(parent.at(name), { bigint: true });
    if (step.stamp === null) return false;
    // A directory's times change with what is written in it, by us as well.
    if (stat.isDirectory()) return stat.ino === step.stamp.inode;
    return sameStamp(stampOf(stat), step.stamp);
  } catch (error) {
    if (errno(error) === "ENOENT") return step.stamp === null;
    throw error;
  }
}

function heldBack(found: readonly TreeChange[]): ReadonlySet<string> {
  const held = new Set(found.filter(isHeldBack).map(({ path }) => path));
  const byPath = new Map(found.map((change) => [change.path, change]));
  for (const path of [...held]) {
    // A directory cannot go while something in it stays, nor be there in another kind's place.
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const above = path.slice(0, end);
      const kind = byPath.get(above)?.kind;
      if (kind === "deleted" || kind === "modified") held.add(above);
    }
  }
  return held;
}

async function look(root: Dir, path: string, pace: Pace): Promise<Seen> {
  const seen = await reach(root, path, async (parent, name): Promise<Seen> => {
    try {
      return await lookIn(parent, name, pace);
    } catch (error) {
      if (errno(error) === "ENOENT") return { kind: "absent", inDirectory: true };
      if (["EACCES", "EPERM", "ELOOP", "EINVAL"].includes(errno(error))) return { kind: "other" };
      throw error;
    }
  });
  return typeof seen === "string" ? { kind: "absent", inDirectory: false } : seen;
}

async function lookIn(parent: Dir, name: string, pace: Pace): Promise<Seen> {
  const stat = lstatSync(parent.at(name), { bigint: true });
  const stamp = stampOf(stat);
  if (stat.isDirectory()) {
    return { kind: "node", node: { kind: "directory", mode: modeOf(stat) }, stamp };
  }
  if (stat.isSymbolicLink()) {
    const target = readlinkSync(parent.at(name));
    return { kind: "node", node: { kind: "symlink", target }, stamp };
  }
  const file = stat.isFile() ? await readFileNode(parent, name, pace) : null;
  return file === null ? { kind: "other" } : { kind: "node", ...file };
}

function isAsWanted(change: Change, seen: Seen): boolean {
  if (change.kind === "deleted") return seen.kind === "absent";
  if (seen.kind !== "node") return false;
  // Whoever made the same directory may have given it a mode of their own.
  const anyMode = change.kind === "added" && change.after.kind === "directory";
  return anyMode ? seen.node.kind === "directory" : sameNode(change.after, seen.node);
}

function isAsBefore(change: Change, seen: Seen, coming: ReadonlySet<string>): boolean {
  if (change.kind !== "added") {
    if (seen.kind !== "node") return false;
    const going = change.kind === "deleted" && change.before.kind === "directory";
    return going ? seen.node.kind === "directory" : sameNode(change.before, seen.node);
  }
  const above = change.path.slice(0, Math.max(0, change.path.lastIndexOf("/")));
  return seen.kind === "absent" && (seen.inDirectory || coming.has(above));
}
