import { createHash } from "node:crypto";
import { type BigIntStats, closeSync, fstatSync } from "node:fs";
import { type Digest, ok, type Result } from "@dev/protocol";
import { digestOf, eachChunk, readSmall } from "./content.ts";
import type { Manifest, Recorded, Stamp } from "./manifest.ts";
import { type SkippedWhy, sameNode, type TreeNode } from "./node.ts";
import { modeOf, READ_TRY_LIMIT, sameStamp, stampOf } from "./take.ts";
import {
  closeDir,
  type Dir,
  openFile,
  openTree,
  orFault,
  type Pace,
  pacer,
  type Visitor,
  walkTree,
} from "./walk.ts";

/** How a path of a tree differs from its base. `modified`: other content, or another kind of thing. */
export type TreeChange =
  | { readonly kind: "added"; readonly path: string; readonly after: TreeNode }
  | {
      readonly kind: "modified" | "mode" | "symlink";
      readonly path: string;
      readonly before: TreeNode;
      readonly after: TreeNode;
    }
  | { readonly kind: "deleted"; readonly path: string; readonly before: TreeNode }
  /** It is there, and nothing more can be said of it. */
  | { readonly kind: "skipped"; readonly path: string; readonly why: SkippedWhy };

/** A change that can be brought to another tree. */
export type Change = Exclude<TreeChange, { readonly kind: "skipped" }>;

/**
 * A file written within this time of the copy's end is read again: file systems' clocks tick coarsely,
 * so that a later write could bear the same time.
 */
const RACY_NS = 100_000_000n;

/**
 * What a tree holds that its base did not, in the order of paths. Symlinks are never followed, whoever
 * writes to the tree meanwhile. A file is not read while its size, mtime, ctime and inode are as they
 * were: no one can set a ctime. Fault: `io`.
 */
export async function changes(
  base: Manifest,
  tree: string,
  signal?: AbortSignal,
): Promise<Result<readonly TreeChange[]>> {
  return orFault(tree, async () => {
    const root = openTree(tree);
    try {
      return ok(await compare(base, root, pacer(signal)));
    } finally {
      closeDir(root);
    }
  });
}

/** A file, read until it stays as it is while it is read; null when it never does. */
export async function readFileNode(
  dir: Dir,
  name: string,
  pace: Pace,
): Promise<{ readonly node: TreeNode; readonly stamp: Stamp } | null> {
  for (let attempt = 1; attempt <= READ_TRY_LIMIT; attempt++) {
    const fd = openFile(dir, name);
    try {
      const before = fstatSync(fd, { bigint: true });
      const digest = await digestFile(fd, Number(before.size), pace);
      const after = fstatSync(fd, { bigint: true });
      const stamp = stampOf(after);
      if (!sameStamp(stampOf(before), stamp)) continue;
      const sizeBytes = Number(after.size);
      return { node: { kind: "file", mode: modeOf(after), sizeBytes, digest }, stamp };
    } finally {
      closeSync(fd);
    }
  }
  return null;
}

async function compare(base: Manifest, root: Dir, pace: Pace): Promise<readonly TreeChange[]> {
  const found: TreeChange[] = [];
  const seen = new Set<string>();
  const tell = (path: string, after: TreeNode): void => {
    seen.add(path);
    const change = differing(path, base.entries.get(path)?.node ?? null, after);
    if (change !== null) found.push(change);
  };
  const skipped = new Set<string>();
  const skip = (path: string, why: SkippedWhy): void => {
    skipped.add(path);
    found.push({ kind: "skipped", path, why });
  };
  const visitor: Visitor = {
    directory: ({ path, stat }) => {
      tell(path, { kind: "directory", mode: modeOf(stat) });
      return true;
    },
    leave: () => undefined,
    symlink: ({ path }, target) => tell(path, { kind: "symlink", target }),
    skip: ({ path, why }) => skip(path, why),
    file: async ({ path, name, parent, stat }) => {
      const before = base.entries.get(path);
      const kept = before === undefined ? null : untouched(before, stat, base.takenNs);
      const node = kept ?? (await readFileNode(parent, name, pace))?.node ?? null;
      if (node === null) skip(path, "changing");
      else tell(path, node);
    },
  };
  await walkTree(root, visitor, pace);
  for (const [path, { node }] of base.entries) {
    // What could not be looked at is not known to be gone.
    if (!seen.has(path) && !isBelow(path, skipped)) {
      found.push({ kind: "deleted", path, before: node });
    }
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** The change from what stood at a path to what is to stand there, null for nothing; null for none. */
export function differing(
  path: string,
  before: TreeNode | null,
  after: TreeNode | null,
): Change | null {
  if (after === null) return before === null ? null : { kind: "deleted", path, before };
  if (before === null) return { kind: "added", path, after };
  if (sameNode(before, after)) return null;
  if (before.kind !== after.kind) return { kind: "modified", path, before, after };
  if (after.kind === "symlink") return { kind: "symlink", path, before, after };
  const content = before.kind === "file" && after.kind === "file" && before.digest !== after.digest;
  return { kind: content ? "modified" : "mode", path, before, after };
}

/** The node of a file whose content cannot have changed, with the mode that it has now. */
function untouched(before: Recorded, stat: BigIntStats, takenNs: bigint): TreeNode | null {
  if (before.node.kind !== "file" || BigInt(before.node.sizeBytes) !== stat.size) return null;
  if (!sameStamp(before.stamp, stampOf(stat))) return null;
  if (stat.ctimeNs >= takenNs - RACY_NS) return null;
  return { ...before.node, mode: modeOf(stat) };
}

async function digestFile(fd: number, sizeBytes: number, pace: Pace): Promise<Digest> {
  const content = readSmall(fd, sizeBytes);
  if (content !== null) return digestOf(content);
  const hash = createHash("sha256");
  await eachChunk(fd, pace, (chunk) => hash.update(chunk));
  return hash.digest("hex") as Digest;
}

/** Whether a path is one of these, or lies below one. */
export function isBelow(path: string, skipped: ReadonlySet<string>): boolean {
  if (skipped.size === 0) return false;
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    if (skipped.has(path.slice(0, end))) return true;
  }
  return false;
}
