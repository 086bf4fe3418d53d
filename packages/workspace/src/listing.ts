import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { ByteReader, ByteWriter } from "./bytes.ts";
import type { SkippedWhy } from "./node.ts";
import { type ByteName, isTreePath } from "./walk.ts";

/** What a snapshot has of one name of a directory. */
export type Entry =
  | FileEntry
  | {
      readonly kind: "directory";
      readonly name: ByteName;
      readonly mode: number;
      readonly mtimeUs: number;
      /** Of its own listing. */
      readonly digest: Digest;
    }
  | {
      readonly kind: "symlink";
      readonly name: ByteName;
      readonly mtimeUs: number;
      readonly target: ByteName;
    }
  /** It was there, and is not kept. */
  | { readonly kind: "skipped"; readonly name: ByteName; readonly why: SkippedWhy };

export type FileEntry = {
  readonly kind: "file";
  readonly name: ByteName;
  /** The permission bits alone. */
  readonly mode: number;
  /** Microseconds since 1970, rounded down. */
  readonly mtimeUs: number;
  readonly sizeBytes: number;
  /** Of its content; of the list of its chunks, where it is longer than one. */
  readonly digest: Digest;
};

/** Content up to this size is one object; longer content is one for each so many bytes. */
export const OBJECT_BYTES: number = 1024 * 1024;
/** Entries of one directory. */
export const ENTRY_LIMIT = 500_000;
/** The largest file that a snapshot keeps. */
export const FILE_LIMIT_BYTES: number = 1024 ** 4;

const FORMAT = 1;
const NAME_LIMIT_BYTES = 1024;
const TARGET_LIMIT_BYTES = 16 * 1024;
const WHYS: readonly SkippedWhy[] = [
  "socket",
  "fifo",
  "device",
  "unreadable",
  "name",
  "depth",
  "changing",
  "own",
  "size",
];

/** A directory's object: its entries, by name. One directory has one encoding, and so one digest. */
export function encodeListing(entries: readonly Entry[]): Buffer {
  const out = new ByteWriter(64 + entries.length * 72);
  out.byte(FORMAT);
  out.count(entries.length);
  for (const entry of entries) encodeEntry(entry, out);
  return out.content;
}

/**
 * Reads a directory's object, which may come from whoever means ill: names that lead elsewhere, that come
 * twice or out of order, and bytes behind the end are refused. Faults: `corrupt`, `newer_version`.
 */
export function decodeListing(content: Uint8Array, subject: string): Result<readonly Entry[]> {
  if ((content[0] ?? 0) > FORMAT) return fail(newerFault(subject));
  try {
    const from = new ByteReader(content);
    if (from.byte() !== FORMAT) throw new Error("unknown format");
    const count = from.count();
    if (count > ENTRY_LIMIT) throw new Error(`more than ${ENTRY_LIMIT} entries`);
    const entries: Entry[] = [];
    let last: ByteName | null = null;
    for (let at = 0; at < count; at++) {
      const entry = decodeEntry(from);
      if (last !== null && entry.name <= last) throw new Error("names are out of order");
      last = entry.name;
      entries.push(entry);
    }
    if (!from.isAtEnd) throw new Error("there is more behind its end");
    return ok(entries);
  } catch (error) {
    const message = `not a directory of a snapshot: ${(error as Error).message}`;
    return fail(fault("corrupt", message, subject));
  }
}

/** The chunks of a long file, in order; null is one of zeros, which is kept as a hole. */
export type Chunks = readonly (Digest | null)[];

export function encodeChunks(chunks: Chunks): Buffer {
  const out = new ByteWriter(16 + chunks.length * 33);
  out.byte(FORMAT);
  for (const chunk of chunks) {
    out.byte(chunk === null ? 0 : 1);
    if (chunk !== null) out.digest(chunk);
  }
  return out.content;
}

/** Faults: `corrupt`, also where there are not as many as such a file has; `newer_version`. */
export function decodeChunks(
  content: Uint8Array,
  sizeBytes: number,
  subject: string,
): Result<Chunks> {
  if ((content[0] ?? 0) > FORMAT) return fail(newerFault(subject));
  try {
    const from = new ByteReader(content);
    if (from.byte() !== FORMAT) throw new Error("unknown format");
    const chunks: (Digest | null)[] = [];
    while (!from.isAtEnd) {
      const flag = from.byte();
      if (flag > 1) throw new Error("unknown chunk");
      chunks.push(flag === 0 ? null : from.digest());
    }
    if (chunks.length !== Math.ceil(sizeBytes / OBJECT_BYTES)) throw new Error("of another size");
    return ok(chunks);
  } catch (error) {
    return fail(fault("corrupt", `not a list of chunks: ${(error as Error).message}`, subject));
  }
}

export function isChunked({ sizeBytes }: Pick<FileEntry, "sizeBytes">): boolean {
  return sizeBytes > OBJECT_BYTES;
}

/** One entry of a listing; the stat cache has them too. */
export function encodeEntry(entry: Entry, out: ByteWriter): void {
  switch (entry.kind) {
    case "file":
      out.byte(1);
      out.name(entry.name);
      out.count(entry.mode);
      out.double(entry.mtimeUs);
      out.count(entry.sizeBytes);
      out.digest(entry.digest);
      return;
    case "directory":
      out.byte(2);
      out.name(entry.name);
      out.count(entry.mode);
      out.double(entry.mtimeUs);
      out.digest(entry.digest);
      return;
    case "symlink":
      out.byte(3);
      out.name(entry.name);
      out.double(entry.mtimeUs);
      out.name(entry.target);
      return;
    case "skipped":
      out.byte(4);
      out.name(entry.name);
      out.byte(WHYS.indexOf(entry.why));
      return;
  }
}

/** Throws at what is no entry. */
export function decodeEntry(from: ByteReader): Entry {
  const kind = from.byte();
  const name = from.name();
  if (name.includes("/") || !isTreePath(name) || name.length > NAME_LIMIT_BYTES) {
    throw new Error("a name is none");
  }
  switch (kind) {
    case 1: {
      const mode = modeIn(from);
      const mtimeUs = timeIn(from);
      const sizeBytes = from.count();
      if (sizeBytes > FILE_LIMIT_BYTES) throw new Error("a file is too large");
      return { kind: "file", name, mode, mtimeUs, sizeBytes, digest: from.digest() };
    }
    case 2: {
      const mode = modeIn(from);
      return { kind: "directory", name, mode, mtimeUs: timeIn(from), digest: from.digest() };
    }
    case 3: {
      const mtimeUs = timeIn(from);
      const target = from.name();
      const isTarget = target !== "" && !target.includes("\0");
      if (!isTarget || target.length > TARGET_LIMIT_BYTES) throw new Error("a target is none");
      return { kind: "symlink", name, mtimeUs, target };
    }
    case 4: {
      const why = WHYS[from.byte()];
      if (why === undefined) throw new Error("unknown reason");
      return { kind: "skipped", name, why };
    }
    default:
      throw new Error("unknown kind");
  }
}

function modeIn(from: ByteReader): number {
  const mode = from.count();
  if (mode > 0o777) throw new Error("a mode is none");
  return mode;
}

function timeIn(from: ByteReader): number {
  const time = from.double();
  if (!Number.isSafeInteger(time)) throw new Error("a time is none");
  return time;
}

function newerFault(subject: string) {
  const message = "the snapshot is of a later format";
  return fault("newer_version", message, subject, "install the newest Dev");
}
