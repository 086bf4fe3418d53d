import { fail, fault, ok, type Result } from "@dev/protocol";
import type { TreeNode } from "./node.ts";
import {
  checkFormat,
  natural,
  nodeOf,
  parseStored,
  readStored,
  record,
  writeStored,
} from "./stored.ts";
import { isTreePath } from "./walk.ts";

/** What a tree held when it was taken: the base that later differences are from. */
export type Manifest = {
  /** The file system's clock once all was taken, in nanoseconds. */
  readonly takenNs: bigint;
  /** By path below the root, each directory before what is in it. */
  readonly entries: ReadonlyMap<string, Recorded>;
};

export type Recorded = {
  readonly node: TreeNode;
  /** Of the copy, as it was taken: as long as it holds, the content does. */
  readonly stamp: Stamp;
  /** Where in the base's text its content begins; null for what is not text or too large. */
  readonly textAt: number | null;
};

export type Stamp = {
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  readonly inode: bigint;
};

const FORMAT = 1;

/** Writes a manifest, whole or not at all; durable when the promise resolves. Fault: `io`. */
export function writeManifest(path: string, manifest: Manifest): Promise<Result<void>> {
  return writeStored(path, textOf(manifest));
}

/** Faults: `not_found`, `io`, `corrupt`, `newer_version`. */
export async function readManifest(path: string): Promise<Result<Manifest>> {
  const text = readStored(path);
  if (!text.ok) return text;
  if (text.value === null) return fail(fault("not_found", "there is no manifest", path));
  return parseStored(text.value, path, "a manifest", (value) => manifestOf(value, path));
}

// An array and not an object: a file may be named `__proto__`.
type Row = [path: string, node: TreeNode, stamp: [string, string, string], textAt: number | null];

function textOf(manifest: Manifest): string {
  const rows: Row[] = [];
  for (const [path, { node, stamp, textAt }] of manifest.entries) {
    const { mtimeNs, ctimeNs, inode } = stamp;
    rows.push([path, node, [`${mtimeNs}`, `${ctimeNs}`, `${inode}`], textAt]);
  }
  const entries = rows.map((row) => JSON.stringify(row)).join(",\n");
  return `{"format":${FORMAT},"takenNs":"${manifest.takenNs}","entries":[\n${entries}\n]}\n`;
}

function manifestOf(value: Record<string, unknown>, path: string): Result<Manifest> {
  const { format, takenNs, entries } = value;
  const newer = checkFormat(format, FORMAT, "the manifest", path);
  if (newer !== null) return fail(newer);
  if (!Array.isArray(entries)) throw new Error("no entries");
  const read = new Map<string, Recorded>();
  for (const row of entries) {
    const [name, node, stamp, textAt] = row as unknown[];
    if (typeof name !== "string" || !isTreePath(name)) throw new Error("not a path");
    if (!Array.isArray(stamp)) throw new Error("no stamp");
    const [mtimeNs, ctimeNs, inode] = stamp.map(integer);
    if (mtimeNs === undefined || ctimeNs === undefined || inode === undefined) {
      throw new Error("no stamp");
    }
    read.set(name, {
      node: nodeOf(record(node)),
      stamp: { mtimeNs, ctimeNs, inode },
      textAt: textAt === null ? null : natural(textAt),
    });
  }
  return ok({ takenNs: integer(takenNs), entries: read });
}

function integer(value: unknown): bigint {
  if (typeof value !== "string" || !/^\d{1,20}$/.test(value)) throw new Error("not a number");
  return BigInt(value);
}
