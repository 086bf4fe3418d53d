import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { type Fault, fail, fault, ok, parseDigest, type Result } from "@dev/protocol";
import type { TreeNode } from "./node.ts";
import { errno, ioFault, orFault } from "./walk.ts";

/** Writes a text to a file, whole or not at all; durable when the promise resolves. Fault: `io`. */
export function writeStored(path: string, text: string): Promise<Result<void>> {
  return orFault(path, async () => {
    const aside = `${path}.new`;
    writeDurably(aside, text);
    renameSync(aside, path);
    syncDirectory(dirname(path));
    return ok(undefined);
  });
}

/** Reads a file that `writeStored` wrote; null where there is none. Fault: `io`. */
export function readStored(path: string): Result<string | null> {
  try {
    return ok(readFileSync(path, "utf8"));
  } catch (error) {
    if (errno(error) === "") throw error;
    return errno(error) === "ENOENT" ? ok(null) : fail(ioFault(path, error as Error));
  }
}

/** Parses a stored file by `read`, which throws at what it does not know. Faults: `corrupt`, its own. */
export function parseStored<T>(
  text: string,
  path: string,
  what: string,
  read: (value: Record<string, unknown>) => Result<T>,
): Result<T> {
  try {
    return read(record(JSON.parse(text)));
  } catch (error) {
    return fail(fault("corrupt", `not ${what}: ${(error as Error).message}`, path));
  }
}

/** The fault of a file that a later Dev wrote; null where this one reads its format. */
export function checkFormat(
  format: unknown,
  known: number,
  what: string,
  path: string,
): Fault | null {
  if (typeof format === "number" && format > known) {
    const message = `${what} is of format ${format}; this Dev reads up to ${known}`;
    return fault("newer_version", message, path, "install the newest Dev");
  }
  if (format !== known) throw new Error("unknown format");
  return null;
}

export function nodeOf(value: Record<string, unknown>): TreeNode {
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

export function record(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null) throw new Error("not an object");
  return value as Record<string, unknown>;
}

export function natural(value: unknown): number {
  if (!Number.isSafeInteger(value) || Number(value) < 0) throw new Error("not a number");
  return Number(value);
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

/** Makes a rename or a new name in a directory durable. */
function syncDirectory(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
