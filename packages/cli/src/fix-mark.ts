import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { ActionId, SessionId } from "@dev/protocol";
import { type Home, makeDirectory } from "./home.ts";

/** That an operation was about to write, and what it would find there: durable before the first file. */
export type Mark = {
  readonly version: 1;
  /** Absolute; the files are relative to it. */
  readonly directory: string;
  readonly files: readonly { readonly file: string; readonly beforeDigest: string }[];
};

type Change = { readonly file: string; readonly before: string };

/** Where the mark of an action of a session is. */
export function markOf(home: Home, session: SessionId, action: ActionId): string {
  return join(home.state, "kai", "operations", `${session}-${action}.json`);
}

/** Writes a mark; throws where it cannot be made durable. */
export function writeMark(path: string, directory: string, changes: readonly Change[]): void {
  const files = changes.map(({ file, before }) => ({ file, beforeDigest: digestOf(before) }));
  const mark: Mark = { version: 1, directory, files };
  makeDirectory(dirname(path));
  writeFileSync(`${path}.new`, JSON.stringify(mark), { mode: 0o600 });
  sync(`${path}.new`);
  renameSync(`${path}.new`, path);
  sync(dirname(path));
}

/**
 * What a mark proves now: that nothing was written, since there is none or each file is as it was; or
 * the files that are not.
 */
export function writtenSince(path: string): readonly string[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
  const { directory, files } = JSON.parse(text) as Mark;
  return files.flatMap(({ file, beforeDigest }) =>
    digestAt(join(directory, file)) === beforeDigest ? [] : [join(directory, file)],
  );
}

export function removeMark(path: string): void {
  rmSync(path, { force: true });
}

function digestAt(path: string): string {
  try {
    return digestOf(readFileSync(path));
  } catch {
    // Gone, or closed to us: it is not what it was.
    return "";
  }
}

function digestOf(bytes: string | Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function sync(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
