import {
  type BigIntStats,
  closeSync,
  fstatSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  readSync,
} from "node:fs";
import { resolve } from "node:path";
import { type Digest, fault, ok, type Result } from "@dev/protocol";
import { isAside } from "./aside.ts";
import { digestOf } from "./content.ts";
import {
  type Entry,
  encodeChunks,
  encodeListing,
  FILE_LIMIT_BYTES,
  type FileEntry,
  isChunked,
  OBJECT_BYTES,
} from "./listing.ts";
import type { Skipped, SkippedWhy } from "./node.ts";
import { isAsSeen, type Seen, type SeenDir, type StatCache, seenStamp } from "./stat-cache.ts";
import { READ_TRY_LIMIT, type TreeLimits } from "./take.ts";
import {
  type ByteName,
  bytesOf,
  closeDir,
  DEPTH_LIMIT,
  type Dir,
  errno,
  halt,
  openDirAt,
  openFileAt,
  openTree,
  orFault,
  type Pace,
  pacer,
  pathLike,
  specialKind,
  textOf,
  whyNot,
} from "./walk.ts";

/** Where a scan puts what it finds. */
export type Keeper = {
  /** Whether an object is kept already; where it lies in the tree, if it is content. */
  readonly has: (digest: Digest, where: Where | null) => boolean;
  /** Takes an object; its bytes stay as they are. */
  readonly keep: (digest: Digest, content: Uint8Array, role: "content" | "listing") => void;
  /** Awaited between files: a keeper that is full makes room. */
  readonly room: () => Promise<Result<void>>;
};

/** Where in a tree an object is: a file's path below the root, and where in it. */
export type Where = { readonly path: ByteName; readonly offset: number };

export type ScanOptions = {
  /** What remembers what was seen; null to read everything. */
  readonly cache: StatCache | null;
  readonly limits: TreeLimits;
  /** Told of every entry; it must be quick. */
  readonly onProgress: (progress: ScanProgress) => void;
};

export type ScanProgress = {
  readonly entryCount: number;
  readonly sizeBytes: number;
  /** Files that had to be read. */
  readonly readCount: number;
};

/** What a directory holds: the digest of its root's listing, and what was left out. */
export type Scan = ScanProgress & {
  readonly digest: Digest;
  readonly skipped: readonly Skipped[];
  /** All of it, with what tells whether it still holds. */
  readonly root: SeenDir;
};

/** Longer paths are not asked for whole: the system has a limit. */
const PATH_LIMIT_BYTES = 3_500;
/** Entries between two looks at whether it is another's turn. */
const TURN_ENTRIES = 64;
const ZEROS = Buffer.alloc(OBJECT_BYTES);

/**
 * Looks at a directory and hands what it holds to a keeper, each object after those that it names. A
 * file is read only if its size, mtime, ctime or inode is another than at the last look. No symlink is
 * followed. A file that changes while it is read is read again, READ_TRY_LIMIT times, and then
 * listed as skipped. Faults: `limit`, `io`, and the keeper's.
 */
export async function scanTree(
  directory: string,
  keeper: Keeper,
  options: ScanOptions,
  signal?: AbortSignal,
): Promise<Result<Scan>> {
  return orFault(directory, async () => {
    const look = options.cache?.look() ?? null;
    try {
      const root = openTree(directory);
      try {
        const work = new Scanner(keeper, options, look?.lookedNs ?? 0n, pacer(signal));
        const place = new Place(() => root, bytesOf(resolve(directory)), "", 0);
        const seen = await work.directory(
          place,
          fstatSync(root.fd, { bigint: true }),
          look?.before ?? null,
        );
        look?.remember(seen);
        const { skipped } = work;
        return ok({ digest: seen.digest, skipped, root: seen, ...work.progress() });
      } finally {
        closeDir(root);
      }
    } finally {
      look?.close();
    }
  });
}

/** A directory that is being looked at; it is opened only if something in it has changed. */
class Place {
  readonly #open: () => Dir;
  /** Where it was found; null where that is too long a path. Only stamps are compared through it. */
  readonly #plain: ByteName | null;
  readonly path: ByteName;
  readonly depth: number;
  #dir: Dir | null = null;

  constructor(open: () => Dir, plain: ByteName | null, path: ByteName, depth: number) {
    this.#open = open;
    this.#plain = plain !== null && plain.length < PATH_LIMIT_BYTES ? plain : null;
    this.path = path;
    this.depth = depth;
  }

  dir(): Dir {
    this.#dir ??= this.#open();
    return this.#dir;
  }

  close(): void {
    if (this.#dir !== null) closeDir(this.#dir);
  }

  below(name: ByteName): ByteName {
    return this.path === "" ? name : `${this.path}/${name}`;
  }

  enter(name: ByteName): Place {
    const open = (): Dir => openDirAt(this.dir().atBytes(name));
    const plain = this.#plain === null ? null : `${this.#plain}/${name}`;
    return new Place(open, plain, this.below(name), this.depth + 1);
  }

  /**
   * What a name's stat says by way of its whole path, in a fraction of the time. Whoever renames directories
   * above it can have it answer for another file, but not for one with the same inode and ctime: it is
   * good for saying that nothing has changed, and for nothing else.
   */
  glance(name: ByteName): BigIntStats | null {
    if (this.#plain === null) return null;
    try {
      return lstatSync(pathLike(`${this.#plain}/${name}`), { bigint: true });
    } catch (error) {
      if (errno(error) === "") throw error;
      return null;
    }
  }
}

class Scanner {
  readonly skipped: Skipped[] = [];
  readonly #keeper: Keeper;
  readonly #options: ScanOptions;
  readonly #lookedNs: bigint;
  readonly #pace: Pace;
  #entryCount = 0;
  #sizeBytes = 0;
  #readCount = 0;

  constructor(keeper: Keeper, options: ScanOptions, lookedNs: bigint, pace: Pace) {
    this.#keeper = keeper;
    this.#options = options;
    this.#lookedNs = lookedNs;
    this.#pace = pace;
  }

  progress(): ScanProgress {
    const [entryCount, sizeBytes] = [this.#entryCount, this.#sizeBytes];
    return { entryCount, sizeBytes, readCount: this.#readCount };
  }

  async directory(place: Place, stat: BigIntStats, before: SeenDir | null): Promise<SeenDir> {
    const isSame = before !== null && isAsSeen(before.stamp, stat);
    const names = isSame ? before.entries.map(({ entry }) => entry.name) : namesIn(place);
    const entries: Seen[] = [];
    let isUntouched = isSame;
    let nth = 0;
    for (const name of names) {
      if (this.#entryCount % TURN_ENTRIES === 0) await this.#turn();
      while ((before?.entries[nth]?.entry.name ?? name) < name) nth++;
      const known = before?.entries[nth];
      const last = known?.entry.name === name ? known : null;
      const seen = await this.#look(place, name, last);
      if (seen !== last) isUntouched = false;
      if (seen === null) continue;
      entries.push(seen);
      this.#count(place.below(name), seen.entry);
    }
    if (isUntouched && before !== null && this.#keeper.has(before.digest, null)) return before;
    const listing = encodeListing(entries.map(({ entry }) => entry));
    const digest = digestOf(listing);
    if (!this.#keeper.has(digest, null)) this.#keeper.keep(digest, listing, "listing");
    return { stamp: seenStamp(stat, this.#lookedNs), entries, digest };
  }

  /** What stands at a name now: `last` itself where nothing has changed, null where nothing stands. */
  async #look(place: Place, name: ByteName, last: Seen | null): Promise<Seen | null> {
    try {
      const glanced = last === null ? null : place.glance(name);
      if (last !== null && glanced !== null && this.#isKept(last, glanced, place)) return last;
      if (last?.child != null && glanced?.isDirectory() && isAsSeen(last.child.stamp, glanced)) {
        return await this.#enter(place, name, glanced, last);
      }
      const stat = lstatSync(place.dir().atBytes(name), { bigint: true });
      if (stat.isDirectory()) return await this.#enter(place, name, null, last);
      if (stat.isFile()) return await this.#file(place, name);
      if (stat.isSymbolicLink()) return this.#symlink(place, name, stat);
      return this.#skip(place, name, specialKind(stat));
    } catch (error) {
      const why = whyNot(errno(error));
      if (why === null) throw error;
      return why === "gone" ? null : this.#skip(place, name, why);
    }
  }

  /** Whether a file or a symlink is as it was, and all of it is kept. */
  #isKept({ entry, stamp, chunks }: Seen, stat: BigIntStats, place: Place): boolean {
    if (!isAsSeen(stamp, stat)) return false;
    if (entry.kind === "symlink") return stat.isSymbolicLink();
    if (entry.kind !== "file" || !stat.isFile()) return false;
    const path = place.below(entry.name);
    if (chunks === null) {
      return entry.sizeBytes === 0 || this.#keeper.has(entry.digest, { path, offset: 0 });
    }
    const { has } = this.#keeper;
    const isThere = (chunk: Digest | null, nth: number): boolean =>
      chunk === null || has(chunk, { path, offset: nth * OBJECT_BYTES });
    return has(entry.digest, null) && chunks.every(isThere);
  }

  /** Goes into a directory; `stat` is null where it is to be opened first. */
  async #enter(
    place: Place,
    name: ByteName,
    stat: BigIntStats | null,
    last: Seen | null,
  ): Promise<Seen | null> {
    if (place.depth >= DEPTH_LIMIT) return this.#skip(place, name, "depth");
    const inner = place.enter(name);
    try {
      const own = stat ?? fstatSync(inner.dir().fd, { bigint: true });
      const child = await this.directory(inner, own, last?.child ?? null);
      if (last !== null && child === last.child && isAsSeen(last.stamp, own)) return last;
      const [mode, mtimeUs] = [modeIn(own), timeIn(own)];
      const entry: Entry = { kind: "directory", name, mode, mtimeUs, digest: child.digest };
      return { entry, stamp: child.stamp, chunks: null, child };
    } finally {
      inner.close();
    }
  }

  #symlink(place: Place, name: ByteName, stat: BigIntStats): Seen {
    const target = readlinkSync(place.dir().atBytes(name), "latin1");
    const entry: Entry = { kind: "symlink", name, mtimeUs: timeIn(stat), target };
    return { entry, stamp: seenStamp(stat, this.#lookedNs), chunks: null, child: null };
  }

  async #file(place: Place, name: ByteName): Promise<Seen> {
    for (let attempt = 1; attempt <= READ_TRY_LIMIT; attempt++) {
      const fd = openFileAt(place.dir().atBytes(name));
      try {
        const stat = fstatSync(fd, { bigint: true });
        if (stat.size > BigInt(FILE_LIMIT_BYTES)) return this.#skip(place, name, "size");
        const read = await this.#read(fd, Number(stat.size), place.below(name));
        const after = fstatSync(fd, { bigint: true });
        const isSame = stat.mtimeNs === after.mtimeNs && stat.ctimeNs === after.ctimeNs;
        if (read === null || !isSame) continue;
        const [mode, mtimeUs, sizeBytes] = [modeIn(stat), timeIn(stat), Number(stat.size)];
        const entry: FileEntry = {
          kind: "file",
          name,
          mode,
          mtimeUs,
          sizeBytes,
          digest: read.digest,
        };
        const stamp = seenStamp(stat, this.#lookedNs);
        return { entry, stamp, chunks: read.chunks, child: null };
      } finally {
        closeSync(fd);
      }
    }
    return this.#skip(place, name, "changing");
  }

  /** Reads a file, and keeps what it holds; null when it was not as long as it said. */
  async #read(fd: number, sizeBytes: number, path: ByteName) {
    this.#readCount += 1;
    if (this.#sizeBytes + sizeBytes > this.#options.limits.sizeBytes) this.#full(path);
    const isOne = !isChunked({ sizeBytes });
    // One byte more than a small file has: one that grows while it is read shows itself.
    const last = isOne ? readExactly(fd, 0, sizeBytes, 1) : null;
    if (isOne) {
      if (last === null) return null;
      return { digest: this.#keep(last, { path, offset: 0 }), chunks: null };
    }
    const chunks: (Digest | null)[] = [];
    for (let offset = 0; offset < sizeBytes; offset += OBJECT_BYTES) {
      const content = readExactly(fd, offset, Math.min(OBJECT_BYTES, sizeBytes - offset), 0);
      if (content === null) return null;
      const isHole = content.equals(ZEROS.subarray(0, content.length));
      chunks.push(isHole ? null : this.#keep(content, { path, offset }));
      await this.#turn();
    }
    const list = encodeChunks(chunks);
    const digest = digestOf(list);
    if (!this.#keeper.has(digest, null)) this.#keeper.keep(digest, list, "listing");
    return { digest, chunks };
  }

  #keep(content: Uint8Array, where: Where): Digest {
    const digest = digestOf(content);
    if (content.length > 0 && !this.#keeper.has(digest, where)) {
      this.#keeper.keep(digest, content, "content");
    }
    return digest;
  }

  #skip(place: Place, name: ByteName, why: SkippedWhy): Seen {
    this.skipped.push({ path: textOf(place.below(name)), why });
    const stamp = { sizeBytes: 0n, mtimeNs: 0n, ctimeNs: 0n, inode: 0n, isRacy: true };
    return { entry: { kind: "skipped", name, why }, stamp, chunks: null, child: null };
  }

  async #turn(): Promise<void> {
    await this.#pace();
    const made = await this.#keeper.room();
    if (!made.ok) halt(made.fault);
  }

  #count(path: ByteName, entry: Entry): void {
    this.#entryCount += 1;
    if (entry.kind === "file") this.#sizeBytes += entry.sizeBytes;
    const { entryCount, sizeBytes } = this.#options.limits;
    if (this.#entryCount > entryCount || this.#sizeBytes > sizeBytes) this.#full(path);
    this.#options.onProgress(this.progress());
  }

  #full(path: ByteName): never {
    const { entryCount, sizeBytes } = this.#options.limits;
    const message = `the tree has more than ${entryCount} entries, or ${sizeBytes} bytes`;
    const mend = "remove what is large and not needed, and try again";
    return halt(fault("limit", message, textOf(path), mend));
  }
}

function namesIn(place: Place): readonly ByteName[] {
  const names = readdirSync(place.dir().at("."), "latin1").sort();
  // What is being put in place, or was when someone died, belongs to no one's tree.
  return place.depth === 0 ? names.filter((name) => !isAside(name)) : names;
}

/** So many bytes from there; null when there are fewer, or, `beyond` looked at, more. */
function readExactly(fd: number, offset: number, length: number, beyond: 0 | 1): Buffer | null {
  const buffer = Buffer.allocUnsafe(length + beyond);
  let done = 0;
  while (done < buffer.length) {
    const count = readSync(fd, buffer, done, buffer.length - done, offset + done);
    if (count === 0) break;
    done += count;
  }
  return done === length ? buffer.subarray(0, length) : null;
}

function modeIn(stat: BigIntStats): number {
  return Number(stat.mode & 0o777n);
}

/** Microseconds, rounded down; times that no file system keeps exactly are brought into range. */
function timeIn(stat: BigIntStats): number {
  const whole = stat.mtimeNs / 1000n;
  const floor = whole * 1000n > stat.mtimeNs ? whole - 1n : whole;
  const most = BigInt(Number.MAX_SAFE_INTEGER);
  return Number(floor > most ? most : floor < -most ? -most : floor);
}
