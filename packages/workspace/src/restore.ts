import {
  closeSync,
  ftruncateSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  renameSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { clearAsides, type Holder, makeAside } from "./aside.ts";
import { decodeChunks, type Entry, type FileEntry, isChunked, OBJECT_BYTES } from "./listing.ts";
import type { ObjectSource } from "./objects.ts";
import { dress, dressFile, isLike, makeWritable, removeAt, secondsOf } from "./place.ts";
import { type Keeper, type Scan, type ScanOptions, scanTree } from "./scan.ts";
import { readListing, rootOf, type SnapshotId } from "./snapshot.ts";
import type { Seen, SeenDir } from "./stat-cache.ts";
import {
  type ByteName,
  closeDir,
  DEPTH_LIMIT,
  type Dir,
  errno,
  halt,
  openDir,
  openDirAt,
  openTree,
  orFault,
  type Pace,
  pacer,
  textOf,
} from "./walk.ts";

export type RestoreOptions = Holder &
  ScanOptions & {
    /** Told of each file that was put in place, with the digest that its entry has. */
    readonly onPlaced?: (digest: Digest, path: ByteName) => void;
    /** Told where what is removed lies until the restore ends: it may be wanted elsewhere. */
    readonly onRemoved?: (path: ByteName, asidePath: ByteName) => void;
  };

/** What a restore did; files, symlinks and directories count as entries. */
export type Restored = {
  /** Entries whose content was written. */
  readonly writtenCount: number;
  /** A directory counts once, whatever was in it. */
  readonly removedCount: number;
  readonly entryCount: number;
  readonly sizeBytes: number;
};

/**
 * Makes a directory hold what a snapshot does, and nothing else: it is looked at first, and only what
 * differs is written, each file aside and then put in place by a rename. What the snapshot lists as
 * skipped is left as it is. Then it is looked at again. Whoever writes to it meanwhile is told by a fault.
 * Nothing is written through a symlink. Stopped anywhere, each file is as it was or as it is to be, and
 * doing it again finishes it. Not forced to the disk. Faults: `not_found`, `corrupt`, `limit`, `io`,
 * `changed`, and the source's.
 */
export async function restoreSnapshot(
  source: ObjectSource,
  id: SnapshotId,
  directory: string,
  options: RestoreOptions,
  signal?: AbortSignal,
): Promise<Result<Restored>> {
  const found = await scanTree(directory, LOOK, options, signal);
  return found.ok ? restoreOnto(found.value, source, id, directory, options, signal) : found;
}

/** The same for a directory that was just looked at. */
export async function restoreOnto(
  found: Scan,
  source: ObjectSource,
  id: SnapshotId,
  directory: string,
  options: RestoreOptions,
  signal?: AbortSignal,
): Promise<Result<Restored>> {
  const work = new Restorer(source, options, pacer(signal), signal);
  const done = await orFault(directory, async () => {
    const root = openTree(directory);
    try {
      clearAsides(root, options.isAlive);
      const asideName = makeAside(root, options.holder);
      const aside = openDir(root, asideName);
      try {
        const spot = { dir: root, aside: { dir: aside, name: asideName }, path: "", depth: 0 };
        await work.directory(spot, rootOf(id), found.root);
      } finally {
        closeDir(aside);
        removeAt(root, asideName);
      }
      return ok(work.restored());
    } finally {
      closeDir(root);
    }
  });
  if (!done.ok) return done;
  const after = await scanTree(directory, LOOK, options, signal);
  if (!after.ok) return after;
  if (after.value.digest === rootOf(id)) return done;
  const other = await work.difference(rootOf(id), after.value.root, "");
  if (!other.ok) return other;
  if (other.value === null) return done;
  const mend = "end what writes to it, and do this again";
  const message = "the directory was written to while it was restored";
  return fail(fault("changed", message, textOf(other.value), mend));
}

/** Looks, and keeps nothing. */
const LOOK: Keeper = {
  has: () => true,
  keep: () => undefined,
  room: async () => ok(undefined),
};

/** A directory that is being brought to what it is to be. */
type Spot = {
  readonly dir: Dir;
  /** Where files are written before they are put in place, and what goes is put. */
  readonly aside: { readonly dir: Dir; readonly name: ByteName };
  readonly path: ByteName;
  readonly depth: number;
};

class Restorer {
  readonly #source: ObjectSource;
  readonly #options: RestoreOptions;
  readonly #pace: Pace;
  readonly #signal: AbortSignal | undefined;
  #entryCount = 0;
  #sizeBytes = 0;
  #writtenCount = 0;
  #removedCount = 0;

  constructor(
    source: ObjectSource,
    options: RestoreOptions,
    pace: Pace,
    signal: AbortSignal | undefined,
  ) {
    this.#source = source;
    this.#options = options;
    this.#pace = pace;
    this.#signal = signal;
  }

  restored(): Restored {
    const [entryCount, sizeBytes] = [this.#entryCount, this.#sizeBytes];
    const [writtenCount, removedCount] = [this.#writtenCount, this.#removedCount];
    return { entryCount, sizeBytes, writtenCount, removedCount };
  }

  /** Brings a directory to what the listing says; `seen` is what it held, null for a new one. */
  async directory(spot: Spot, listing: Digest, seen: SeenDir | null): Promise<void> {
    const wanted = await this.#listing(listing);
    const there = new Map(seen?.entries.map((each) => [each.entry.name, each]));
    for (const entry of wanted) {
      await this.#pace();
      const before = there.get(entry.name) ?? null;
      there.delete(entry.name);
      this.#count(entry);
      await this.#entry(spot, entry, before);
    }
    for (const name of there.keys()) {
      await this.#pace();
      this.#remove(spot, name);
    }
  }

  /** Where a tree first differs from a listing; null where it does not, but for what was skipped. */
  async difference(
    listing: Digest,
    seen: SeenDir | null,
    path: ByteName,
  ): Promise<Result<ByteName | null>> {
    if (listing === seen?.digest) return ok(null);
    const wanted = await readListing(this.#source, listing, this.#signal);
    if (!wanted.ok) return wanted;
    const there = new Map(seen?.entries.map((each) => [each.entry.name, each]));
    for (const entry of wanted.value) {
      await this.#pace();
      const below = joined(path, entry.name);
      const found = there.get(entry.name);
      there.delete(entry.name);
      if (entry.kind === "skipped") continue;
      if (found === undefined || !isLike(entry, found.entry)) return ok(below);
      if (entry.kind !== "directory") continue;
      const inner = await this.difference(entry.digest, found.child, below);
      if (!inner.ok || inner.value !== null) return inner;
    }
    const [more] = there.keys();
    if (more === undefined) return ok(null);
    return ok(joined(path, more));
  }

  async #entry(spot: Spot, entry: Entry, before: Seen | null): Promise<void> {
    const { dir } = spot;
    const aside = spot.aside.dir;
    switch (entry.kind) {
      case "skipped": {
        // Where a socket was, the snapshot had no file; where a file could not be read, it may be this one.
        const isSpecial = ["socket", "fifo", "device"].includes(entry.why);
        if (isSpecial && before !== null && before.entry.kind !== "skipped") {
          this.#remove(spot, entry.name);
        }
        return;
      }
      case "directory":
        return this.#enter(spot, entry, before);
      case "symlink": {
        const old = before?.entry;
        if (old?.kind !== "symlink" || old.target !== entry.target) {
          symlinkSync(Buffer.from(entry.target, "latin1"), aside.at("new"));
          this.#place(spot, entry.name, old ?? null);
        } else if (old.mtimeUs === entry.mtimeUs) return;
        const seconds = secondsOf(entry.mtimeUs);
        lutimesSync(dir.atBytes(entry.name), seconds, seconds);
        return;
      }
      case "file": {
        const old = before?.entry;
        if (
          old?.kind === "file" &&
          old.digest === entry.digest &&
          old.sizeBytes === entry.sizeBytes
        ) {
          if (old.mode !== entry.mode || old.mtimeUs !== entry.mtimeUs) dressFile(dir, entry);
          return;
        }
        await this.#write(aside, entry);
        this.#place(spot, entry.name, old ?? null);
        this.#options.onPlaced?.(entry.digest, joined(spot.path, entry.name));
      }
    }
  }

  async #enter(
    outer: Spot,
    entry: Extract<Entry, { kind: "directory" }>,
    before: Seen | null,
  ): Promise<void> {
    const { dir, aside, path, depth } = outer;
    const { name, mode, mtimeUs } = entry;
    const old = before?.entry;
    const isThere = old?.kind === "directory";
    if (isThere && old.digest === entry.digest && old.mode === mode && old.mtimeUs === mtimeUs)
      return;
    if (depth >= DEPTH_LIMIT) halt(fault("limit", "the tree is too deep", textOf(name)));
    if (!isThere) {
      if (old !== undefined) this.#remove(outer, name);
      makeWritable(dir);
      mkdirSync(dir.atBytes(name), { mode: 0o700 });
      this.#writtenCount += 1;
    }
    const inner = openDirAt(dir.atBytes(name));
    try {
      if (!isThere || old.digest !== entry.digest) {
        const spot = { dir: inner, aside, path: joined(path, name), depth: depth + 1 };
        await this.directory(spot, entry.digest, before?.child ?? null);
      }
      dress(inner.fd, mode, mtimeUs);
    } finally {
      closeDir(inner);
    }
  }

  /** Puts what was written aside in its place. */
  #place(spot: Spot, name: ByteName, old: Entry | null): void {
    const { dir, aside } = spot;
    if (old?.kind === "directory") this.#remove(spot, name);
    makeWritable(dir);
    renameSync(aside.dir.at("new"), dir.atBytes(name));
    this.#writtenCount += 1;
  }

  /** Takes what stands at a name out of the tree: in one step, whatever is below it. */
  #remove({ dir, aside, path }: Spot, name: ByteName): void {
    makeWritable(dir);
    const from = dir.atBytes(name);
    const to = `old${this.#removedCount}`;
    try {
      if (lstatSync(from).isDirectory()) {
        // It names its own parent, and is written to when that changes.
        const inner = openDirAt(from);
        makeWritable(inner);
        closeDir(inner);
      }
      renameSync(from, aside.dir.at(to));
    } catch (error) {
      if (errno(error) === "ENOENT") return;
      if (errno(error) !== "EXDEV") throw error;
      // Another file system is mounted there.
      removeAt(dir, name);
    }
    this.#removedCount += 1;
    this.#options.onRemoved?.(joined(path, name), `${aside.name}/${to}`);
  }

  async #write(aside: Dir, entry: FileEntry): Promise<void> {
    const { sizeBytes, digest, mode, mtimeUs, name } = entry;
    // What a file that could not be finished left is written over.
    const fd = openSync(aside.at("new"), "w", 0o600);
    try {
      if (isChunked(entry)) {
        const list = await this.#source.read(digest, this.#signal);
        if (!list.ok) halt(list.fault);
        const chunks = decodeChunks(list.value, sizeBytes, textOf(name));
        if (!chunks.ok) halt(chunks.fault);
        for (const [nth, chunk] of chunks.value.entries()) {
          const offset = nth * OBJECT_BYTES;
          const length = Math.min(OBJECT_BYTES, sizeBytes - offset);
          if (chunk !== null) await this.#object(fd, chunk, offset, length, name);
        }
        ftruncateSync(fd, sizeBytes);
      } else if (sizeBytes > 0) await this.#object(fd, digest, 0, sizeBytes, name);
      dress(fd, mode, mtimeUs);
    } finally {
      closeSync(fd);
    }
  }

  async #object(fd: number, digest: Digest, offset: number, length: number, name: ByteName) {
    const content = await this.#source.read(digest, this.#signal);
    if (!content.ok) halt(content.fault);
    if (content.value.length !== length) {
      halt(fault("corrupt", "an object is not as long as the snapshot says", textOf(name)));
    }
    for (let at = 0; at < length; ) {
      at += writeSync(fd, content.value, at, length - at, offset + at);
    }
  }

  async #listing(digest: Digest): Promise<readonly Entry[]> {
    const listing = await readListing(this.#source, digest, this.#signal);
    return listing.ok ? listing.value : halt(listing.fault);
  }

  #count(entry: Entry): void {
    this.#entryCount += 1;
    if (entry.kind === "file") this.#sizeBytes += entry.sizeBytes;
    const { entryCount, sizeBytes } = this.#options.limits;
    if (this.#entryCount > entryCount || this.#sizeBytes > sizeBytes) {
      const message = `the snapshot has more than ${entryCount} entries, or ${sizeBytes} bytes`;
      halt(fault("limit", message, textOf(entry.name)));
    }
  }
}

function joined(path: ByteName, name: ByteName): ByteName {
  return path === "" ? name : `${path}/${name}`;
}
