import { createHash } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from "node:fs";
import type { Digest } from "@dev/protocol";
import { ByteReader, ByteWriter } from "./bytes.ts";
import { digestOf } from "./content.ts";
import { type Chunks, decodeEntry, type Entry, encodeEntry } from "./listing.ts";
import { errno } from "./walk.ts";

/** A directory as it was last looked at. */
export type SeenDir = {
  readonly stamp: SeenStamp;
  /** By name. */
  readonly entries: readonly Seen[];
  readonly digest: Digest;
};

export type Seen = {
  readonly entry: Entry;
  readonly stamp: SeenStamp;
  /** Of a file that is longer than one object. */
  readonly chunks: Chunks | null;
  readonly child: SeenDir | null;
};

/** What tells that a file is still the one that was read: no one can set a ctime. */
export type SeenStamp = {
  readonly sizeBytes: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  readonly inode: bigint;
  /** It changed so shortly before it was looked at that a later change could bear the same time. */
  readonly isRacy: boolean;
};

/** File systems' clocks tick coarsely: what changed within this time of a look is looked at again. */
const RACY_NS = 100_000_000n;
const FORMAT = 1;

export function seenStamp(stat: BigIntStats, lookedNs: bigint): SeenStamp {
  return {
    sizeBytes: stat.size,
    mtimeNs: stat.mtimeNs,
    ctimeNs: stat.ctimeNs,
    inode: stat.ino,
    isRacy: stat.ctimeNs >= lookedNs - RACY_NS || stat.mtimeNs >= lookedNs - RACY_NS,
  };
}

/** Whether what has this stat is surely what was seen. */
export function isAsSeen(seen: SeenStamp, stat: BigIntStats): boolean {
  return (
    !seen.isRacy &&
    seen.ctimeNs === stat.ctimeNs &&
    seen.mtimeNs === stat.mtimeNs &&
    seen.sizeBytes === stat.size &&
    seen.inode === stat.ino
  );
}

/** A look at a directory that is under way. */
export type Look = {
  /** The file system's clock when it began. */
  readonly lookedNs: bigint;
  /** What was seen at the look before; null where nothing is known of it. */
  readonly before: SeenDir | null;
  /** Remembers what was seen; not forced to the disk. */
  readonly remember: (root: SeenDir) => void;
  readonly close: () => void;
};

/**
 * A file that remembers what a directory held, so that the next look reads only what changed; and this
 * process remembers it too. It is never needed: where the file is missing, damaged or of another
 * version, all is read.
 */
export class StatCache {
  readonly #path: string;
  #last: SeenDir | null | "unread" = "unread";
  /** How each directory is written down: most are as they were. */
  readonly #encoded = new WeakMap<SeenDir, Buffer>();

  constructor(path: string) {
    this.#path = path;
  }

  /** Begins a look; throws the system's error where the file cannot be written. */
  look(): Look {
    const aside = `${this.#path}.new`;
    const fd = openSync(aside, "w", 0o600);
    try {
      writeSync(fd, "?");
      const lookedNs = fstatSync(fd, { bigint: true }).mtimeNs;
      if (this.#last === "unread") this.#last = this.#read();
      const remember = (root: SeenDir): void => {
        if (root === this.#last) return;
        this.#last = root;
        const parts = [Buffer.of(FORMAT), this.#encode(root)];
        const hash = createHash("sha256");
        for (const part of parts) hash.update(part);
        // The first byte stood there only to ask the clock.
        const content = Buffer.concat([...parts, hash.digest()]);
        for (let at = 0; at < content.length; ) {
          at += writeSync(fd, content, at, content.length - at, at);
        }
        renameSync(aside, this.#path);
      };
      return { lookedNs, before: this.#last, remember, close: () => closeSync(fd) };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  #read(): SeenDir | null {
    try {
      return decodeCache(readFileSync(this.#path));
    } catch (error) {
      if (errno(error) === "ENOENT") return null;
      throw error;
    }
  }

  #encode(dir: SeenDir): Buffer {
    const known = this.#encoded.get(dir);
    if (known !== undefined) return known;
    const parts: Buffer[] = [];
    const own = new ByteWriter(256 + dir.entries.length * 128);
    encodeStamp(dir.stamp, own);
    own.digest(dir.digest);
    own.count(dir.entries.length);
    for (const seen of dir.entries) encodeSeen(seen, own);
    parts.push(own.content);
    for (const { child } of dir.entries) if (child !== null) parts.push(this.#encode(child));
    const all = Buffer.concat(parts);
    this.#encoded.set(dir, all);
    return all;
  }
}

function decodeCache(content: Buffer): SeenDir | null {
  const end = content.length - 32;
  if (end < 1 || content[0] !== FORMAT) return null;
  const body = content.subarray(0, end);
  // A crash may have left half of it.
  if (digestOf(body) !== content.subarray(end).toString("hex")) return null;
  const from = new ByteReader(body);
  from.byte();
  return decodeDir(from);
}

function encodeSeen({ entry, stamp, chunks }: Seen, out: ByteWriter): void {
  encodeEntry(entry, out);
  encodeStamp(stamp, out);
  if (entry.kind !== "file") return;
  out.count(chunks?.length ?? 0);
  for (const chunk of chunks ?? []) {
    out.byte(chunk === null ? 0 : 1);
    if (chunk !== null) out.digest(chunk);
  }
}

function decodeDir(from: ByteReader): SeenDir {
  const stamp = decodeStamp(from);
  const digest = from.digest();
  const count = from.count();
  const entries: Seen[] = [];
  for (let at = 0; at < count; at++) {
    const entry = decodeEntry(from);
    const stamp = decodeStamp(from);
    const chunks = entry.kind === "file" ? chunksIn(from) : null;
    entries.push({ entry, stamp, chunks, child: null });
  }
  // The directories that are in it come behind it, in its order.
  const all = entries.map((seen) =>
    seen.entry.kind === "directory" ? { ...seen, child: decodeDir(from) } : seen,
  );
  return { stamp, digest, entries: all };
}

function chunksIn(from: ByteReader): Chunks | null {
  const count = from.count();
  const chunks: (Digest | null)[] = [];
  for (let at = 0; at < count; at++) chunks.push(from.byte() === 0 ? null : from.digest());
  return count === 0 ? null : chunks;
}

function encodeStamp(stamp: SeenStamp, out: ByteWriter): void {
  out.byte(stamp.isRacy ? 1 : 0);
  for (const part of [stamp.sizeBytes, stamp.mtimeNs, stamp.ctimeNs, stamp.inode]) out.wide(part);
}

function decodeStamp(from: ByteReader): SeenStamp {
  const isRacy = from.byte() === 1;
  const [sizeBytes, mtimeNs] = [from.wide(), from.wide()];
  const [ctimeNs, inode] = [from.wide(), BigInt.asUintN(64, from.wide())];
  return { sizeBytes, mtimeNs, ctimeNs, inode, isRacy };
}
