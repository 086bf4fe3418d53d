import { createHash } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import {
  type Digest,
  type Expect,
  type Fault,
  fail,
  fault,
  type Outcome,
  ok,
  type PatchOp,
  type ReadOp,
  type Result,
  type WriteOp,
  type WriteResult,
} from "@dev/protocol";
import { decodeText, wholeEnd } from "./capture.ts";
import { syncDirectory } from "./disk.ts";
import { applyEdits } from "./edit.ts";
import { errnoOf, systemFault } from "./errno.ts";
import { applyHunks, parseDiff } from "./hunk.ts";
import { countChanges, isCrlf, latin1, toCrlf } from "./lines.ts";
import type { FileEvidence } from "./log.ts";
import type { Place, Tree } from "./tree.ts";

/** A file that is read. */
export const FILE_LIMIT_BYTES: number = 64 * 1024 * 1024;
/** A file that is written or patched, before and after. */
export const CHANGE_LIMIT_BYTES: number = 16 * 1024 * 1024;
/** What one `Read` gives of it. */
export const READ_LIMIT_BYTES: number = 256 * 1024;
/** A NUL within so many bytes says that a file is no text. */
const TEXT_PROBE_BYTES = 8 * 1024;

/** What stands at a path; `path` has its links resolved, relative to the workspace. */
export type Found =
  | { readonly kind: "absent"; readonly path: string }
  | {
      readonly kind: "file";
      readonly path: string;
      readonly bytes: Buffer;
      readonly digest: Digest;
      readonly stats: BigIntStats;
    };

/** A write that needs only to be done: all that can be refused before has been. */
export type Prepared = {
  readonly before: Found;
  readonly bytes: Buffer;
  readonly result: WriteResult;
};

/** Performs a `Read`. Faults: `not_found`, `not_a_file`, `not_text`, `too_large`, `bad_call`. */
export async function readLines(tree: Tree, op: ReadOp): Promise<Outcome> {
  if (op.from > op.to && op.to !== 0) {
    return failed(fault("bad_call", `lines ${op.from} to ${op.to} are none`, op.path));
  }
  const found = await find(tree, op.path, FILE_LIMIT_BYTES);
  if (!found.ok) return failed(found.fault);
  if (found.value.kind === "absent") {
    return failed(fault("not_found", "there is no such file", op.path, "search for its name"));
  }
  const { bytes, digest } = found.value;
  if (bytes.subarray(0, TEXT_PROBE_BYTES).includes(0)) {
    const message = `it is no text: ${bytes.length} bytes of something else`;
    return failed(fault("not_text", message, op.path, "look at it with a command, such as `file`"));
  }
  const { lineCount, start, end } = lineRange(bytes, Math.max(op.from, 1), op.to);
  const asked = bytes.subarray(start, end);
  const given = asked.subarray(0, cutAt(asked));
  const { text, lossy } = decodeText(given);
  return {
    kind: "ok",
    result: {
      kind: "read",
      text,
      lossy,
      sizeBytes: bytes.length,
      lineCount,
      digest,
      cut: given.length < asked.length,
    },
  };
}

/** Looks at what a `Write` or a `Patch` would do, and changes nothing. Faults: theirs. */
export async function prepare(tree: Tree, op: WriteOp | PatchOp): Promise<Result<Prepared>> {
  const found = await find(tree, op.path, CHANGE_LIMIT_BYTES);
  if (!found.ok) return found;
  const before = found.value;
  const unmet = unmetExpect(before, op.expect, op.path);
  if (unmet !== null) return fail(unmet);
  const old = before.kind === "absent" ? "" : before.bytes.toString("latin1");
  const changed = op.kind === "write" ? ok(wholeText(old, op.text)) : patchedText(before, old, op);
  if (!changed.ok) return changed;
  const bytes = Buffer.from(changed.value, "latin1");
  if (bytes.length > CHANGE_LIMIT_BYTES) {
    return fail(tooLarge(op.path, bytes.length, CHANGE_LIMIT_BYTES));
  }
  const { added, removed } = countChanges(old, changed.value);
  const result: WriteResult = {
    kind: "write",
    before: before.kind === "absent" ? "absent" : before.digest,
    after: digestOf(bytes),
    sizeBytes: bytes.length,
    addedLines: added,
    removedLines: removed,
  };
  return ok({ before, bytes, result });
}

/**
 * Writes what was prepared: aside, synced, and renamed to its place with the mode of the file that was
 * there. `tag` names the file aside. Faults: `changed` (since it was prepared), `path_escape`, `io`.
 */
export async function commit(tree: Tree, prepared: Prepared, tag: string): Promise<Result<void>> {
  const { before } = prepared;
  const located = tree.locate(before.path, "make");
  if (!located.ok) return located;
  const place = located.value;
  const aside = `${place.directory}/${asideName(tag)}`;
  try {
    const mode = before.kind === "absent" ? 0o644 : Number(before.stats.mode & 0o777n);
    await writeAside(aside, prepared.bytes, mode);
    if (!(await isUnchanged(place, before))) {
      await rm(aside, { force: true });
      return fail(
        fault("changed", "it was changed by something else just now", before.path, AGAIN),
      );
    }
    await rename(aside, place.at);
    await syncDirectory(place.directory);
    return ok(undefined);
  } catch (error) {
    await removeAside(aside);
    return fail(systemFault(error, before.path));
  } finally {
    place.close();
  }
}

/** What the file says of a write that had begun: it was done, it never was, or nobody can tell. */
export async function judge(tree: Tree, evidence: FileEvidence, tag: string): Promise<Judged> {
  const { path, result } = evidence;
  const located = tree.locate(path, "refuse");
  if (located.ok) {
    await removeAside(`${located.value.directory}/${asideName(tag)}`);
    located.value.close();
  }
  const found = await find(tree, path, FILE_LIMIT_BYTES);
  const now = nowAt(found);
  if (now === result.after) return { kind: "done" };
  if (now === result.before) return { kind: "never" };
  const known = `the agent ended while \`${path}\` was written: it was ${result.before}, was to be ${result.after}, and is ${now}`;
  return { kind: "unknown", known };
}

export type Judged =
  | { readonly kind: "done" | "never" }
  | { readonly kind: "unknown"; readonly known: string };

const AGAIN = "read it again";
const BOM = "\xef\xbb\xbf";

/** Reads the file at a path, whole. Faults: `path_escape`, `not_a_file`, `too_large`, `io`. */
async function find(tree: Tree, path: string, limitBytes: number): Promise<Result<Found>> {
  const located = tree.locate(path, "refuse");
  // Directories that are not there yet are made by a write: the file is absent either way.
  if (!located.ok) return located.fault.code === "not_found" ? absentBelow(path) : located;
  const place = located.value;
  try {
    if (place.stats === null) return ok({ kind: "absent", path: place.path });
    // Not opened to find out: opening a device can do something.
    if (!place.stats.isFile()) return fail(notAFile(path, place));
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const handle = await open(place.at, flags);
    try {
      return await readHandle(handle, place.path, path, limitBytes);
    } finally {
      await handle.close();
    }
  } catch (error) {
    return fail(systemFault(error, path));
  } finally {
    place.close();
  }
}

async function readHandle(
  handle: FileHandle,
  resolved: string,
  path: string,
  limitBytes: number,
): Promise<Result<Found>> {
  const stats = await handle.stat({ bigint: true });
  if (!stats.isFile()) return fail(fault("not_a_file", "it is no regular file", path));
  if (stats.size > limitBytes) return fail(tooLarge(path, Number(stats.size), limitBytes));
  const bytes = await handle.readFile();
  if (bytes.length > limitBytes) return fail(tooLarge(path, bytes.length, limitBytes));
  return ok({ kind: "file", path: resolved, bytes, digest: digestOf(bytes), stats });
}

function absentBelow(path: string): Result<Found> {
  return ok({ kind: "absent", path });
}

function notAFile(path: string, place: Place): Fault {
  const what = place.stats?.isDirectory() ? "a directory" : "no regular file";
  return fault("not_a_file", `it is ${what}`, path, "name a file");
}

function tooLarge(path: string, bytes: number, limitBytes: number): Fault {
  const message = `${bytes} bytes are above the limit of ${limitBytes}`;
  return fault("too_large", message, path, "use a command, such as `sed`");
}

function unmetExpect(found: Found, expect: Expect, path: string): Fault | null {
  if (expect === "any") return null;
  if (expect === "absent") {
    if (found.kind === "absent") return null;
    const message = `there is a file of ${found.bytes.length} bytes, ${found.digest}`;
    return fault("exists", message, path, "read it, and expect its digest");
  }
  if (found.kind === "absent") {
    return fault("changed", `it was to be ${expect}, and is absent`, path, AGAIN);
  }
  if (found.digest === expect) return null;
  return fault("changed", `it was to be ${expect}, and is ${found.digest}`, path, AGAIN);
}

/**
 * The bytes of a whole file. Models write LF and no byte order mark, whatever the file had: a file of
 * CR LF lines keeps them, and so does one with a mark.
 */
function wholeText(old: string, text: string): string {
  const given = latin1(text);
  const wide = isCrlf(old) && !given.includes("\r\n") ? toCrlf(given) : given;
  return old.startsWith(BOM) && !wide.startsWith(BOM) ? BOM + wide : wide;
}

function patchedText(before: Found, old: string, op: PatchOp): Result<string> {
  if (op.change.kind === "edits") {
    if (before.kind === "file") return applyEdits(old, op.change.edits, op.path);
    return fail(fault("not_found", "there is no such file", op.path, "write it"));
  }
  const hunks = parseDiff(op.change.diff, op.path);
  if (!hunks.ok) return hunks;
  if (before.kind === "absent" && hunks.value.some((hunk) => hunk.oldCount > 0)) {
    return fail(fault("not_found", "there is no such file", op.path, "write it"));
  }
  return applyHunks(old, hunks.value, op.path);
}

async function writeAside(path: string, bytes: Buffer, mode: number): Promise<void> {
  // One that a crash left behind; it is this action's own by its name.
  await rm(path, { force: true });
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(path, flags, 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.chmod(mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A directory that nobody may write in any more keeps it. */
async function removeAside(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    if (errnoOf(error) === null) throw error;
  }
}

async function isUnchanged(place: Place, before: Found): Promise<boolean> {
  if (before.kind === "absent" || place.stats === null) {
    return before.kind === "absent" && place.stats === null;
  }
  const handle = await open(place.at, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const now = await handle.stat({ bigint: true });
    const { ino, size, mtimeNs, ctimeNs } = before.stats;
    return (
      now.ino === ino && now.size === size && now.mtimeNs === mtimeNs && now.ctimeNs === ctimeNs
    );
  } finally {
    await handle.close();
  }
}

function asideName(tag: string): string {
  return `.dev-${tag}.tmp`;
}

/** A digest, `absent`, or in words what else stands there. */
function nowAt(found: Result<Found>): string {
  if (!found.ok) return `not readable (${found.fault.message})`;
  return found.value.kind === "absent" ? "absent" : found.value.digest;
}

function digestOf(bytes: Uint8Array): Digest {
  return createHash("sha256").update(bytes).digest("hex") as Digest;
}

type LineRange = { readonly lineCount: number; readonly start: number; readonly end: number };

/** Where lines `from` to `to` (0: the last) lie. A last line that is empty is none. */
function lineRange(bytes: Buffer, from: number, to: number): LineRange {
  let lineCount = 0;
  let start = bytes.length;
  let end = bytes.length;
  for (let at = 0; at < bytes.length; ) {
    lineCount++;
    if (lineCount === from) start = at;
    const newline = bytes.indexOf(0x0a, at);
    at = newline === -1 ? bytes.length : newline + 1;
    if (lineCount === to) end = at;
  }
  return { lineCount, start, end };
}

/** Where to end what is given: behind a whole line, or else a whole character. */
function cutAt(asked: Buffer): number {
  if (asked.length <= READ_LIMIT_BYTES) return asked.length;
  const line = asked.lastIndexOf(0x0a, READ_LIMIT_BYTES - 1) + 1;
  return line > 0 ? line : wholeEnd(asked.subarray(0, READ_LIMIT_BYTES));
}

function failed(fault: Fault): Outcome {
  return { kind: "failed", fault };
}
