import { fail, ok, type Result } from "@dev/protocol";
import { type Change, differing, isBelow, type TreeChange } from "./change.ts";
import type { Manifest } from "./manifest.ts";
import type { TreeNode } from "./node.ts";
import { checkFormat, nodeOf, parseStored, readStored, record, writeStored } from "./stored.ts";
import { isTreePath } from "./walk.ts";

/**
 * What earlier applies left at each path; null stands for nothing, where something was removed. More
 * than one: an apply was cut off, and either may stand there.
 */
export type Brought = ReadonlyMap<string, readonly Left[]>;

type Left = TreeNode | null;

const FORMAT = 1;

/** Reads what earlier applies left; without a file, nothing. Faults: `io`, `corrupt`, `newer_version`. */
export function readBrought(path: string): Result<Brought> {
  const text = readStored(path);
  if (!text.ok) return text;
  if (text.value === null) return ok(new Map());
  const what = "a record of what was applied";
  return parseStored(text.value, path, what, (value) => broughtOf(value, path));
}

/** Writes it, whole or not at all; durable when the promise resolves. Fault: `io`. */
export function writeBrought(path: string, brought: Brought): Promise<Result<void>> {
  const rows = [...brought].map((row) => JSON.stringify(row)).join(",\n");
  return writeStored(path, `{"format":${FORMAT},"entries":[\n${rows}\n]}\n`);
}

/** The record while these changes are on their way: each place is as it was, or as it is wanted. */
export function during(brought: Brought, changes: readonly Change[]): Brought {
  const next = new Map(brought);
  for (const change of changes) {
    const left = brought.get(change.path) ?? [];
    const others = left.filter((one) => differing(change.path, one, wanted(change)) !== null);
    next.set(change.path, [...others, wanted(change)]);
  }
  return next;
}

/** The record once each of these places is as it is wanted. */
export function after(brought: Brought, changes: readonly Change[]): Brought {
  const next = new Map(brought);
  for (const change of changes) next.set(change.path, [wanted(change)]);
  return next;
}

/**
 * The changes, and those that take back what an earlier apply brought: where the workspace is as its
 * base again there is no change to find, and the target has one.
 */
export function withReturns(
  found: readonly TreeChange[],
  base: Manifest,
  brought: Brought,
): readonly TreeChange[] {
  const known = new Set(found.map(({ path }) => path));
  const skipped = new Set(found.filter(({ kind }) => kind === "skipped").map(({ path }) => path));
  const returns: Change[] = [];
  for (const [path, left] of brought) {
    // What could not be looked at is not known to be as it was.
    if (known.has(path) || isBelow(path, skipped)) continue;
    const before = base.entries.get(path)?.node ?? null;
    const [change] = left.flatMap((one) => differing(path, one, before) ?? []);
    if (change !== undefined) returns.push(change);
  }
  return [...found, ...returns].sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** The same change, as seen from each of the things that earlier applies may have left there. */
export function fromBrought(change: Change, brought: Brought): readonly Change[] {
  return (brought.get(change.path) ?? []).flatMap((left) => {
    return differing(change.path, left, wanted(change)) ?? [];
  });
}

function wanted(change: Change): Left {
  return change.kind === "deleted" ? null : change.after;
}

function broughtOf(value: Record<string, unknown>, path: string): Result<Brought> {
  const newer = checkFormat(value.format, FORMAT, "the record of what was applied", path);
  if (newer !== null) return fail(newer);
  if (!Array.isArray(value.entries)) throw new Error("no entries");
  const brought = new Map<string, readonly Left[]>();
  for (const row of value.entries) {
    const [name, left] = row as unknown[];
    if (typeof name !== "string" || !isTreePath(name)) throw new Error("not a path");
    if (!Array.isArray(left)) throw new Error("no nodes");
    brought.set(
      name,
      left.map((node: unknown) => (node === null ? null : nodeOf(record(node)))),
    );
  }
  return ok(brought);
}
