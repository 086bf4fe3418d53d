import { type Digest, ok, type Result } from "@dev/protocol";
import { differing, type TreeChange } from "./change.ts";
import { TEXT_LIMIT_BYTES } from "./content.ts";
import { fileDiff, fileSide, linkSide, pairsOf, type Side } from "./diff.ts";
import { type Entry, isChunked } from "./listing.ts";
import type { TreeNode } from "./node.ts";
import type { ObjectSource } from "./objects.ts";
import { readListing, rootOf, type SnapshotId } from "./snapshot.ts";
import { type ByteName, DEPTH_LIMIT, halt, orFault, textOf } from "./walk.ts";

/**
 * How one snapshot differs from another, in the order of paths; times apart. Directories that are the same
 * are not looked into. A digest of a file that is longer than one object is of the list of its chunks.
 * Faults: `not_found`, `corrupt`, `newer_version`, and the source's.
 */
export async function compareSnapshots(
  source: ObjectSource,
  before: SnapshotId,
  after: SnapshotId,
  signal?: AbortSignal,
): Promise<Result<readonly TreeChange[]>> {
  return orFault(after, async () => {
    const comparison = new Comparison(source, signal);
    await comparison.directories(rootOf(before), rootOf(after), "", 0);
    return ok(comparison.found);
  });
}

/** The changes between two snapshots as a text that `git apply` takes: see `unifiedDiff`. */
export async function snapshotDiff(
  source: ObjectSource,
  found: readonly TreeChange[],
  signal?: AbortSignal,
): Promise<Result<string>> {
  let text = "";
  for (const change of found) {
    if (change.kind === "skipped") continue;
    const before = "before" in change ? await sideOf(source, change.before, signal) : ok(null);
    if (!before.ok) return before;
    const after = "after" in change ? await sideOf(source, change.after, signal) : ok(null);
    if (!after.ok) return after;
    for (const pair of pairsOf({ before: before.value, after: after.value })) {
      text += fileDiff(change.path, pair.before, pair.after);
    }
  }
  return ok(text);
}

class Comparison {
  readonly found: TreeChange[] = [];
  readonly #source: ObjectSource;
  readonly #signal: AbortSignal | undefined;

  constructor(source: ObjectSource, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#signal = signal;
  }

  /** Null stands for no directory. */
  async directories(
    before: Digest | null,
    after: Digest | null,
    path: ByteName,
    depth: number,
  ): Promise<void> {
    if (before === after) return;
    if (depth > DEPTH_LIMIT) throw new Error("a snapshot is deeper than one can be");
    const [old, now] = [await this.#entries(before), await this.#entries(after)];
    const names = [...new Set([...old.keys(), ...now.keys()])].sort();
    for (const name of names) {
      await this.#entry(old.get(name) ?? null, now.get(name) ?? null, path + name, depth);
    }
  }

  async #entry(old: Entry | null, now: Entry | null, path: ByteName, depth: number): Promise<void> {
    if (now?.kind === "skipped") {
      this.found.push({ kind: "skipped", path: textOf(path), why: now.why });
      return;
    }
    const change = differing(textOf(path), nodeOf(old), nodeOf(now));
    if (change !== null) this.found.push(change);
    const inner = (entry: Entry | null): Digest | null =>
      entry?.kind === "directory" ? entry.digest : null;
    await this.directories(inner(old), inner(now), `${path}/`, depth + 1);
  }

  async #entries(digest: Digest | null): Promise<ReadonlyMap<ByteName, Entry>> {
    if (digest === null) return new Map();
    const listing = await readListing(this.#source, digest, this.#signal);
    if (!listing.ok) return halt(listing.fault);
    return new Map(listing.value.map((entry) => [entry.name, entry]));
  }
}

/** An entry as a node of a tree; null for none, and for what is not kept. */
function nodeOf(entry: Entry | null): TreeNode | null {
  switch (entry?.kind) {
    case "file": {
      const { mode, sizeBytes, digest } = entry;
      return { kind: "file", mode, sizeBytes, digest };
    }
    case "directory":
      return { kind: "directory", mode: entry.mode };
    case "symlink":
      return { kind: "symlink", target: textOf(entry.target) };
    default:
      return null;
  }
}

async function sideOf(
  source: ObjectSource,
  node: TreeNode,
  signal: AbortSignal | undefined,
): Promise<Result<Side | null>> {
  if (node.kind !== "file") return ok(linkSide(node));
  if (node.sizeBytes === 0) return ok(fileSide(node, new Uint8Array()));
  if (isChunked(node) || node.sizeBytes > TEXT_LIMIT_BYTES) return ok(fileSide(node, null));
  const content = await source.read(node.digest, signal);
  return content.ok ? ok(fileSide(node, content.value)) : content;
}
