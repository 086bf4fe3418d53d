import { createHash } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  futimesSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { type Digest, fault, ok, type Result } from "@dev/protocol";
import { CHUNK_BYTES, digestOf, eachChunk, isText, readSmall } from "./content.ts";
import type { Manifest, Recorded, Stamp } from "./manifest.ts";
import type { Skipped, TreeNode } from "./node.ts";
import {
  closeDir,
  type Dir,
  errno,
  type Found,
  halt,
  ioFault,
  openDir,
  openFile,
  openTree,
  orFault,
  type Pace,
  pacer,
  pathOf,
  type Visitor,
  walkTree,
} from "./walk.ts";

/** What was taken: the base of later differences, and what was left out. */
export type Taken = Base & { readonly skipped: readonly Skipped[] } & TakeProgress;

/** A tree as it was: its manifest, and the file that its text lies in. */
export type Base = { readonly manifest: Manifest; readonly textPath: string };

export type TakeProgress = { readonly entryCount: number; readonly sizeBytes: number };

export type TreeLimits = { readonly entryCount: number; readonly sizeBytes: number };

export type TakeOptions = {
  /** The file that the base's text is written to; it must not exist, nor lie in the copy. */
  readonly textPath: string;
  readonly limits: TreeLimits;
  /** Told of every file; it must be quick. */
  readonly onProgress: (progress: TakeProgress) => void;
};

export const TREE_LIMITS: TreeLimits = { entryCount: 500_000, sizeBytes: 16 * 1024 ** 3 };

/** How often a file that changes while it is read is read. */
export const READ_TRY_LIMIT = 3;

/**
 * Copies a tree to `to`, which must not exist: content, permission bits, mtimes to the microsecond,
 * symlinks as symlinks, empty directories. Sockets, fifos, devices and what cannot be read are listed as
 * skipped. On a fault, or when it is aborted (it then rejects), nothing is left of the copy. The copy is
 * not forced to the disk: after a loss of power it has to be taken anew.
 * Faults: `limit`, `exists`, `io`.
 */
export async function takeTree(
  from: string,
  to: string,
  options: TakeOptions,
  signal?: AbortSignal,
): Promise<Result<Taken>> {
  return orFault(from, async () => {
    const source = openTree(from);
    try {
      return await takeInto(source, to, options, pacer(signal));
    } finally {
      closeDir(source);
    }
  });
}

async function takeInto(
  source: Dir,
  to: string,
  options: TakeOptions,
  pace: Pace,
): Promise<Result<Taken>> {
  makeAnew(to, () => mkdirSync(to, { mode: 0o700 }));
  let done = false;
  const root = openTree(to);
  try {
    const textFd = makeAnew(options.textPath, () => openSync(options.textPath, "wx", 0o600));
    try {
      const copy = new Copy(root, textFd, options, pace);
      await walkTree(source, copy.visitor(), pace);
      const taken = copy.finish();
      done = true;
      return ok(taken);
    } finally {
      closeSync(textFd);
      if (!done) unlinkSync(options.textPath);
    }
  } finally {
    closeDir(root);
    if (!done) rmSync(to, { recursive: true, force: true });
  }
}

/** One copy in the making; it owns the directories that it has open. */
class Copy {
  readonly #entries = new Map<string, Recorded>();
  readonly #skipped: Skipped[] = [];
  readonly #texts = new Map<Digest, number>();
  readonly #dirs: Dir[];
  readonly #own: readonly BigIntStats[];
  readonly #textFd: number;
  readonly #options: TakeOptions;
  readonly #pace: Pace;
  #textBytes = 0;
  #sizeBytes = 0;
  #clones = true;

  constructor(root: Dir, textFd: number, options: TakeOptions, pace: Pace) {
    this.#dirs = [root];
    this.#own = [root.fd, textFd].map((fd) => fstatSync(fd, { bigint: true }));
    this.#textFd = textFd;
    this.#options = options;
    this.#pace = pace;
  }

  visitor(): Visitor {
    return {
      directory: (found) => this.#enter(found),
      leave: (found) => this.#leave(found),
      file: (found) => this.#file(found),
      symlink: (found, target) => this.#symlink(found, target),
      skip: (skipped) => void this.#skipped.push(skipped),
    };
  }

  finish(): Taken {
    // Whatever is written to the tree from here on is later, by the file system's own clock.
    writeSync(this.#textFd, "\n");
    const takenNs = fstatSync(this.#textFd, { bigint: true }).mtimeNs;
    const manifest = { takenNs, entries: this.#entries };
    const { textPath } = this.#options;
    return { manifest, textPath, skipped: this.#skipped, ...this.#progress() };
  }

  #enter(found: Found): boolean {
    if (this.#isOwn(found)) return false;
    this.#count(found.path, 0);
    return this.#making(found.path, () => {
      mkdirSync(this.#at(found.name), { mode: 0o700 });
      this.#dirs.push(openDir(this.#dir(), found.name));
      // Its place is before what is in it; its stamp is only known once it is full.
      const node: TreeNode = { kind: "directory", mode: modeOf(found.stat) };
      this.#entries.set(found.path, { node, stamp: stampOf(found.stat), textAt: null });
      return true;
    });
  }

  #leave(found: Found): void {
    const dir = this.#dirs.pop();
    if (dir === undefined) throw new Error(`left ${found.path} without having entered it`);
    this.#making(found.path, () => dress(dir.fd, found.stat));
    closeDir(dir);
  }

  #symlink(found: Found, target: string): void {
    this.#count(found.path, 0);
    this.#making(found.path, () => {
      const path = this.#at(found.name);
      symlinkSync(target, path);
      const seconds = secondsOf(found.stat);
      lutimesSync(path, seconds, seconds);
      const stamp = stampOf(lstatSync(path, { bigint: true }));
      this.#entries.set(found.path, { node: { kind: "symlink", target }, stamp, textAt: null });
    });
  }

  async #file(found: Found): Promise<void> {
    if (this.#isOwn(found)) return;
    for (let attempt = 1; attempt <= READ_TRY_LIMIT; attempt++) {
      await this.#pace();
      const fd = openFile(found.parent, found.name);
      try {
        const before = fstatSync(fd, { bigint: true });
        const recorded = await this.#copy(found, fd, before);
        const after = fstatSync(fd, { bigint: true });
        if (recorded !== null && sameStamp(stampOf(before), stampOf(after))) {
          this.#count(found.path, Number(before.size));
          this.#entries.set(found.path, recorded);
          return;
        }
      } finally {
        closeSync(fd);
      }
      this.#making(found.path, () => unlinkSync(this.#at(found.name)));
    }
    this.#skipped.push({ path: found.path, why: "changing" });
  }

  /** Writes one file's copy; null when it was not as long as it said. */
  async #copy(found: Found, fd: number, stat: BigIntStats): Promise<Recorded | null> {
    const sizeBytes = Number(stat.size);
    if (this.#sizeBytes + sizeBytes > this.#options.limits.sizeBytes) this.#full(found.path);
    const path = this.#at(found.name);
    const cloned = sizeBytes > CHUNK_BYTES && this.#clone(fd, path);
    const out = this.#making(found.path, () => openSync(path, cloned ? "r+" : "wx+", 0o600));
    try {
      const content = cloned ? null : readSmall(fd, sizeBytes);
      let read: { readonly digest: Digest; readonly length: number };
      let textAt: number | null = null;
      if (content === null) read = await this.#stream(found.path, cloned ? out : fd, out, cloned);
      else {
        read = { digest: digestOf(content), length: content.length };
        this.#making(found.path, () => writeAll(out, content));
        if (isText(content)) textAt = this.#keepText(read.digest, content);
      }
      this.#making(found.path, () => dress(out, stat));
      const { digest } = read;
      const node: TreeNode = { kind: "file", mode: modeOf(stat), sizeBytes, digest };
      const stamp = stampOf(fstatSync(out, { bigint: true }));
      return read.length === sizeBytes ? { node, stamp, textAt } : null;
    } finally {
      closeSync(out);
    }
  }

  async #stream(path: string, from: number, to: number, cloned: boolean) {
    const hash = createHash("sha256");
    let length = 0;
    await eachChunk(from, this.#pace, (chunk) => {
      hash.update(chunk);
      const at = length;
      length += chunk.length;
      // A file may grow for as long as it is read.
      if (this.#sizeBytes + length > this.#options.limits.sizeBytes) this.#full(path);
      if (!cloned) this.#making(path, () => writePiece(to, chunk, at));
    });
    if (!cloned) this.#making(path, () => ftruncateSync(to, length));
    return { digest: hash.digest("hex") as Digest, length };
  }

  /** Shares the blocks of a large file where the file system can; says whether it did. */
  #clone(fd: number, to: string): boolean {
    const from = pathOf(fd);
    if (!this.#clones || from === null) return false;
    const { COPYFILE_EXCL, COPYFILE_FICLONE_FORCE } = constants;
    try {
      copyFileSync(from, to, COPYFILE_EXCL | COPYFILE_FICLONE_FORCE);
      return true;
    } catch (error) {
      if (errno(error) === "") throw error;
      this.#clones = false;
      return false;
    }
  }

  #keepText(digest: Digest, content: Uint8Array): number {
    const known = this.#texts.get(digest);
    if (known !== undefined) return known;
    const at = this.#textBytes;
    this.#making(this.#options.textPath, () => writeAll(this.#textFd, content));
    this.#textBytes += content.length;
    this.#texts.set(digest, at);
    return at;
  }

  #isOwn(found: Found): boolean {
    const own = this.#own.some(({ dev, ino }) => dev === found.stat.dev && ino === found.stat.ino);
    if (own) this.#skipped.push({ path: found.path, why: "own" });
    return own;
  }

  #count(path: string, sizeBytes: number): void {
    this.#sizeBytes += sizeBytes;
    if (this.#entries.size >= this.#options.limits.entryCount) this.#full(path);
    this.#options.onProgress(this.#progress());
  }

  #full(path: string): never {
    const { entryCount, sizeBytes } = this.#options.limits;
    const message = `the tree has more than ${entryCount} entries, or ${sizeBytes} bytes`;
    return halt(fault("limit", message, path, "start in a smaller directory"));
  }

  /** What fails on our own side is no reason to leave a file out: it ends the copy. */
  #making<T>(path: string, make: () => T): T {
    try {
      return make();
    } catch (error) {
      if (errno(error) === "") throw error;
      return halt(ioFault(path, error as Error));
    }
  }

  #progress(): TakeProgress {
    return { entryCount: this.#entries.size, sizeBytes: this.#sizeBytes };
  }

  #dir(): Dir {
    const dir = this.#dirs.at(-1);
    if (dir === undefined) throw new Error("the copy's root is closed");
    return dir;
  }

  #at(name: string): string {
    return this.#dir().at(name);
  }
}

export function modeOf(stat: BigIntStats): number {
  return Number(stat.mode & 0o777n);
}

export function stampOf(stat: BigIntStats): Stamp {
  return { mtimeNs: stat.mtimeNs, ctimeNs: stat.ctimeNs, inode: stat.ino };
}

export function sameStamp(one: Stamp, other: Stamp): boolean {
  return (
    one.mtimeNs === other.mtimeNs && one.ctimeNs === other.ctimeNs && one.inode === other.inode
  );
}

/** Writes all of it at the file's current position. */
function writeAll(fd: number, content: Uint8Array): void {
  for (let at = 0; at < content.length; ) at += writeSync(fd, content, at);
}

/** Writes a piece of a long file, but for zeros: they stay a hole, and `ftruncate` ends the file behind them. */
export function writePiece(fd: number, content: Uint8Array, offset: number): void {
  if (Buffer.compare(content, ZEROS.subarray(0, content.length)) === 0) return;
  for (let at = 0; at < content.length; ) {
    at += writeSync(fd, content, at, content.length - at, offset + at);
  }
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

/** Gives a copy the mode and the mtime of what it is a copy of. */
function dress(fd: number, stat: BigIntStats): void {
  futimesSync(fd, secondsOf(stat), secondsOf(stat));
  fchmodSync(fd, modeOf(stat));
}

function secondsOf(stat: BigIntStats): number {
  return Number(stat.mtimeNs) / 1e9;
}

function makeAnew<T>(path: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (errno(error) === "EEXIST") halt(fault("exists", "there is something already", path));
    throw error;
  }
}
