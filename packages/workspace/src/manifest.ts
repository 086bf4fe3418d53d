import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { fail, fault, ok, parseDigest, type Result } from "@dev/protocol";
import type { TreeNode } from "./node.ts";
import { errno, ioFault, isTreePath, orFault } from "./walk.ts";

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
  return orFault(path, async () => {
    const aside = `${path}.new`;
    writeDurably(aside, textOf(manifest));
    renameSync(aside, path);
    syncDirectory(dirname(path));
    return ok(undefined);
  });
}

/** Faults: `not_found`, `io`, `corrupt`, `newer_version`. */
export async function readManifest(path: string): Promise<Result<Manifest>> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (errno(error) === "") throw error;
    if (errno(error) === "ENOENT") return fail(fault("not_found", "there is no manifest", path));
    return fail(ioFault(path, error as Error));
  }
  try {
    return manifestOf(JSON.parse(text), path);
  } catch (error) {
    return fail(fault("corrupt", `not a manifest: ${(error as Error).message}`, path));
  }
}

/** Makes a rename or a new name in a directory durable. */
export function syncDirectory(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function writeDurably(path: string, text: string): void {
  const fd = openSync(path, "w", 0o600);
  try {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
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

function manifestOf(value: unknown, path: string): Result<Manifest> {
  const { format, takenNs, entries } = record(value);
  if (typeof format === "number" && format > FORMAT) {
    const message = `the manifest is of format ${format}; this Dev reads up to ${FORMAT}`;
    return fail(fault("newer_version", message, path, "install the newest Dev"));
  }
  if (format !== FORMAT || !Array.isArray(entries)) throw new Error("unknown format");
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

function nodeOf(value: Record<string, unknown>): TreeNode {
  switch (value.kind) {
    case "file": {
      const digest = parseDigest(String(value.digest));
      if (!digest.ok) throw new Error("not a digest");
      const sizeBytes = natural(value.sizeBytes);
      return { kind: "file", mode: natural(value.mode), sizeBytes, digest: digest.value };
    }
    case "directory":
      return { kind: "directory", mode: natural(value.mode) };
    case "symlink":
      if (typeof value.target !== "string") throw new Error("not a target");
      return { kind: "symlink", target: value.target };
    default:
      throw new Error("not a node");
  }
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null) throw new Error("not an object");
  return value as Record<string, unknown>;
}

function natural(value: unknown): number {
  if (!Number.isSafeInteger(value) || Number(value) < 0) throw new Error("not a number");
  return Number(value);
}

function integer(value: unknown): bigint {
  if (typeof value !== "string" || !/^\d{1,20}$/.test(value)) throw new Error("not a number");
  return BigInt(value);
}
