import { type Digest, fail, fault, ok, parseDigest, type Result } from "@dev/protocol";
import { decodeListing, type Entry } from "./listing.ts";
import { type ObjectSource, type Objects, PackWriter } from "./objects.ts";
import { type Keeper, type Scan, type ScanOptions, scanTree } from "./scan.ts";

declare const brand: unique symbol;
/** A tree's content, by the digest of its root: one tree has one id, whoever takes it. */
export type SnapshotId = string & { readonly [brand]: "SnapshotId" };

/** A snapshot that was taken; `writtenBytes`: what was not kept before. */
export type TakenSnapshot = Omit<Scan, "digest" | "root"> & {
  readonly id: SnapshotId;
  readonly writtenBytes: number;
};

export type SnapshotOptions = ScanOptions & { readonly nowMs: number };

/** Reads an id as it was written down. Fault: `usage`. */
export function parseSnapshotId(text: string): Result<SnapshotId> {
  const digest = parseDigest(text);
  if (digest.ok) return ok(snapshotId(digest.value));
  return fail(fault("usage", "not a snapshot's id: that has 64 hexadecimal digits", text));
}

export function snapshotId(root: Digest): SnapshotId {
  return root as string as SnapshotId;
}

export function rootOf(id: SnapshotId): Digest {
  return id as string as Digest;
}

/**
 * Takes a snapshot of a directory: content, permission bits, mtimes to the microsecond, symlinks, empty
 * directories, names of any bytes; hard links as equal files; long runs of zeros as holes. Sockets, fifos,
 * devices, what cannot be read or changes all the time is listed as skipped. What the store has
 * already is not written again. All is durable when it resolves; killed at any point, it has
 * changed nothing. Faults: `limit`, `io`, and those of the blobs.
 */
export async function takeSnapshot(
  objects: Objects,
  directory: string,
  options: SnapshotOptions,
  signal?: AbortSignal,
): Promise<Result<TakenSnapshot>> {
  const fresh = await objects.refresh(signal);
  if (!fresh.ok) return fresh;
  const writer = new PackWriter(objects, options.nowMs, signal);
  const keeper: Keeper = {
    has: (digest) => writer.has(digest),
    keep: (digest, content, role) => writer.keep(digest, content, role),
    room: () => writer.room(),
  };
  const scanned = await scanTree(directory, keeper, options, signal);
  if (!scanned.ok) return scanned;
  const finished = await writer.finish();
  if (!finished.ok) return finished;
  const { digest, root: _, ...rest } = scanned.value;
  return ok({ id: snapshotId(digest), ...rest, writtenBytes: writer.writtenBytes });
}

/** A directory's entries. Faults: the source's, `corrupt`, `newer_version`. */
export async function readListing(
  source: ObjectSource,
  digest: Digest,
  signal?: AbortSignal,
): Promise<Result<readonly Entry[]>> {
  const content = await source.read(digest, signal);
  return content.ok ? decodeListing(content.value, digest) : content;
}
