import { type BigIntStats, constants, type Dirent } from "node:fs";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";

/** A tree as it was when it was taken, kept aside so that copies of it can be made and mended. */
export type Tree = {
  /** The directory that was taken, with no link in its path. */
  readonly origin: string;
  /** A copy that nobody writes to. */
  readonly dir: string;
  /** By path relative to the tree, with `/`; a directory is before what lies in it. */
  readonly entries: ReadonlyMap<string, Entry>;
};

export type Entry =
  | { readonly kind: "directory" }
  | { readonly kind: "file" }
  | { readonly kind: "link"; readonly target: string }
  /** What a build keeps for its next run: each copy has its own, which is not mended. */
  | { readonly kind: "kept" };

export const COPY_LIMITS = {
  /** Files, directories and links that are copied. */
  entryCount: 40_000,
  sizeBytes: 1_000_000_000,
  depth: 64,
  /** Above these, a directory that `.gitignore` names is linked to rather than copied. */
  ignoredCount: 1_000,
  ignoredBytes: 64_000_000,
  /** Files that are copied at the same time. */
  parallelCount: 16,
} as const;

/** What a run makes anew and no test needs. */
const LEFT_OUT: RegExp =
  /^(__pycache__|\.(pytest|mypy|ruff)_cache|\.hypothesis|\.tox|\.nox|\.hg|\.svn)$/;
/** Large, and only read; a link to each thing in it is enough. */
const LINKED: RegExp = /^(node_modules|\.git|\.venv|venv|bower_components)$/;

/**
 * Takes a directory into `place/base`. What is large and only read is linked to where `isReadOnly` says
 * that no process can write to the original, and copied once into `place/large` where it does not.
 * Faults: `too_large`, `io`.
 */
export async function takeTree(
  directory: string,
  place: string,
  isReadOnly: boolean,
  signal: AbortSignal,
): Promise<Result<Tree>> {
  try {
    const origin = await realpath(directory);
    // What a system shows of itself as files may have no end, and to read it may never return.
    if (dirname(origin) === origin) return fail(tooLarge("it is a whole system", directory));
    const dir = join(place, "base", basename(origin) || "root");
    await mkdir(dir, { recursive: true });
    const ignored = await ignoredNames(origin);
    const large = isReadOnly ? null : join(place, "large");
    const taking = { origin, dir, large, ignored, entries: new Map(), signal };
    const taker = new Taker(taking);
    await taker.directory("", 0);
    return ok({ origin, dir, entries: taking.entries });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Error && error.cause === TOO_LARGE)
      return fail(tooLarge(error.message, directory));
    if (isSystemError(error)) return fail(fault("io", error.message, directory));
    throw error;
  }
}

/** Directories whose names the tree's own `.gitignore` has as they are, with no pattern in them. */
async function ignoredNames(origin: string): Promise<ReadonlySet<string>> {
  const text = await readFile(join(origin, ".gitignore"), "utf8").catch(() => "");
  const names = text.split("\n").map((line) => line.trim().replace(/^\/|\/$/g, ""));
  return new Set(names.filter((name) => /^[\w.-]+$/.test(name)));
}

/** What an error is caused by that says that a tree is too large. */
const TOO_LARGE = "too large";

function excess(what: string): Error {
  return new Error(what, { cause: TOO_LARGE });
}

function tooLarge(what: string, directory: string): Fault {
  const mend = "run from the directory of the package that fails";
  return fault("too_large", `the tree is too large to copy: ${what}`, directory, mend);
}

type Taking = {
  readonly origin: string;
  readonly dir: string;
  readonly large: string | null;
  readonly ignored: ReadonlySet<string>;
  readonly entries: Map<string, Entry>;
  readonly signal: AbortSignal;
};

class Taker {
  readonly #taking: Taking;
  #entryCount = 0;
  #sizeBytes = 0;

  constructor(taking: Taking) {
    this.#taking = taking;
  }

  async directory(path: string, depth: number): Promise<void> {
    const { origin, entries, ignored, signal } = this.#taking;
    signal.throwIfAborted();
    if (depth > COPY_LIMITS.depth) throw excess(`${path} is too deep`);
    const found = await readdir(join(origin, path), { withFileTypes: true });
    await inTurn(found, async (entry) => {
      const below = path === "" ? entry.name : `${path}/${entry.name}`;
      if (!entry.isDirectory()) return this.#single(below, entry);
      if (LEFT_OUT.test(entry.name)) return;
      this.#count(below, 0);
      if (LINKED.test(entry.name)) return this.#linked(below, depth);
      if (ignored.has(entry.name) && !(await isSmall(join(origin, below)))) {
        return this.#linked(below, depth);
      }
      const isCache = entry.name === "target" && found.some(({ name }) => name === "Cargo.toml");
      entries.set(below, { kind: isCache ? "kept" : "directory" });
      await mkdir(join(this.#taking.dir, below), { recursive: true });
      await this.directory(below, depth + 1);
    });
  }

  /** A real directory of links, so that what is made beside them is made in the copy. */
  async #linked(path: string, depth: number): Promise<void> {
    const { origin, dir, entries, large } = this.#taking;
    entries.set(path, { kind: "directory" });
    await mkdir(join(dir, path), { recursive: true });
    await inTurn(await readdir(join(origin, path), { withFileTypes: true }), async (entry) => {
      const below = `${path}/${entry.name}`;
      if (!entry.isDirectory()) return this.#single(below, entry);
      if (entry.name.startsWith("@") && depth <= COPY_LIMITS.depth) {
        return this.#linked(below, depth + 1);
      }
      // A cache is written to, and made anew where it is missing.
      if (entry.name.startsWith(".") && entry.name !== ".bin" && entry.name !== ".pnpm") return;
      if (large !== null) await this.#aside(below, large, 0);
      this.#link(below, join(large ?? origin, below));
      await symlink(join(large ?? origin, below), join(dir, below));
    });
  }

  /** A copy for all copies to link to, in which nothing is mended. */
  async #aside(path: string, large: string, depth: number): Promise<void> {
    this.#taking.signal.throwIfAborted();
    if (depth > COPY_LIMITS.depth) throw excess(`${path} is too deep`);
    const from = join(this.#taking.origin, path);
    await mkdir(join(large, path), { recursive: true });
    await inTurn(await readdir(from, { withFileTypes: true }), async (entry) => {
      const below = `${path}/${entry.name}`;
      const source = join(from, entry.name);
      const target = join(large, below);
      this.#count(below, entry.isFile() ? (await lstat(source)).size : 0);
      if (entry.isDirectory()) await this.#aside(below, large, depth + 1);
      if (entry.isSymbolicLink()) await symlink(await this.#target(below), target);
      if (entry.isFile()) await copyFile(source, target, constants.COPYFILE_FICLONE);
    });
  }

  async #single(path: string, entry: Dirent): Promise<void> {
    const { origin, dir, entries } = this.#taking;
    if (entry.isSymbolicLink()) {
      const target = await this.#target(path);
      this.#link(path, target);
      await symlink(target, join(dir, path));
      return;
    }
    // A socket or a pipe is somebody's who is running now.
    if (!entry.isFile()) return;
    const { size, atime, mtime } = await lstat(join(origin, path));
    this.#count(path, size);
    entries.set(path, { kind: "file" });
    await copyFile(join(origin, path), join(dir, path), constants.COPYFILE_FICLONE);
    await utimes(join(dir, path), atime, mtime);
  }

  /** A link into the tree by its whole path would lead out of the copy, and to the original. */
  async #target(path: string): Promise<string> {
    const { origin } = this.#taking;
    const target = await readlink(join(origin, path));
    if (!isAbsolute(target)) return target;
    const within = relative(origin, target);
    if (within === ".." || within.startsWith(`..${sep}`)) return target;
    return relative(dirname(join(origin, path)), target) || ".";
  }

  #link(path: string, target: string): void {
    this.#count(path, 0);
    this.#taking.entries.set(path, { kind: "link", target });
  }

  #count(path: string, sizeBytes: number): void {
    this.#entryCount += 1;
    this.#sizeBytes += sizeBytes;
    if (this.#entryCount > COPY_LIMITS.entryCount) {
      throw excess(`more than ${COPY_LIMITS.entryCount} entries, at ${path}`);
    }
    if (this.#sizeBytes > COPY_LIMITS.sizeBytes) {
      throw excess(`more than ${COPY_LIMITS.sizeBytes} bytes, at ${path}`);
    }
  }
}

async function isSmall(directory: string): Promise<boolean> {
  let count = 0;
  let sizeBytes = 0;
  const waiting = [directory];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const entry of await readdir(at, { withFileTypes: true })) {
      count += 1;
      if (entry.isFile()) sizeBytes += (await lstat(join(at, entry.name))).size;
      if (entry.isDirectory()) waiting.push(join(at, entry.name));
      if (count > COPY_LIMITS.ignoredCount || sizeBytes > COPY_LIMITS.ignoredBytes) return false;
    }
  }
  return true;
}

/** A copy that a run may write to, and that is mended after it. */
export class Copy {
  readonly dir: string;
  readonly #tree: Tree;
  readonly #stamps: Map<string, Stamp>;
  #mended: Promise<void> = Promise.resolve();

  private constructor(tree: Tree, dir: string, stamps: Map<string, Stamp>) {
    this.dir = dir;
    this.#tree = tree;
    this.#stamps = stamps;
  }

  /** Makes a copy in `place`, which does not exist yet, under the tree's own name. */
  static async make(tree: Tree, place: string, signal: AbortSignal): Promise<Copy> {
    const dir = join(place, basename(tree.dir));
    await mkdir(dir, { recursive: true });
    const copy = new Copy(tree, dir, new Map());
    for (const [path, entry] of tree.entries) {
      if (entry.kind !== "directory" && entry.kind !== "kept") continue;
      await mkdir(join(dir, path));
    }
    await inTurn([...tree.entries], async ([path, entry]) => {
      signal.throwIfAborted();
      if (entry.kind === "link") await copy.#relink(path, entry.target);
      if (entry.kind === "file") await copy.#refill(path, true);
    });
    return copy;
  }

  /** Writes files that the tree has, as a candidate would have them. */
  async put(files: ReadonlyMap<string, string>): Promise<void> {
    for (const [path, text] of files) {
      if (this.#tree.entries.get(path)?.kind !== "file") throw new Error(`no file: ${path}`);
      // The clock that stamps a file may stand still from one write to the next.
      this.#stamps.delete(path);
      await writeFile(join(this.dir, path), text);
    }
  }

  /** Makes the copy what the tree is again: bytes, links, and nothing beside them. */
  mend(): Promise<void> {
    // One after the other: two that put the same file back would be in each other's way.
    this.#mended = this.#mended.then(() => this.#mend());
    return this.#mended;
  }

  async #mend(): Promise<void> {
    await this.#sweep("", 0);
    const entries = [...this.#tree.entries].filter(([path]) => !this.#isKept(path));
    for (const [path, entry] of entries) {
      if (entry.kind !== "directory") continue;
      const stat = await lstatOf(join(this.dir, path));
      if (stat?.isDirectory()) continue;
      if (stat !== null) await remove(join(this.dir, path));
      await mkdir(join(this.dir, path));
    }
    await inTurn(entries, async ([path, entry]) => {
      if (entry.kind === "directory" || entry.kind === "kept") return;
      const stat = await lstatOf(join(this.dir, path));
      if (stat !== null && sameStamp(this.#stamps.get(path), stampOf(stat))) return;
      if (stat !== null) await remove(join(this.dir, path));
      if (entry.kind === "link") await this.#relink(path, entry.target);
      else await this.#refill(path, false);
    });
  }

  /** Removes what the tree does not have. */
  async #sweep(path: string, depth: number): Promise<void> {
    const found = await readdir(join(this.dir, path), { withFileTypes: true }).catch(() => []);
    for (const entry of found) {
      const below = path === "" ? entry.name : `${path}/${entry.name}`;
      const known = this.#tree.entries.get(below);
      if (known === undefined || depth > COPY_LIMITS.depth) await remove(join(this.dir, below));
      else if (entry.isDirectory() && known.kind === "directory") {
        await this.#sweep(below, depth + 1);
      }
    }
  }

  #isKept(path: string): boolean {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
      if (this.#tree.entries.get(path.slice(0, at))?.kind === "kept") return true;
    }
    return false;
  }

  /**
   * A build compares times, so what is first put there has the original's, and what is put back after
   * a candidate is as new as it can be: what was built of the candidate is old beside it.
   */
  async #refill(path: string, isFirst: boolean): Promise<void> {
    const [source, target] = [join(this.#tree.dir, path), join(this.dir, path)];
    await copyFile(source, target, constants.COPYFILE_FICLONE);
    if (isFirst) {
      const { atime, mtime } = await lstat(source);
      await utimes(target, atime, mtime);
    }
    this.#stamps.set(path, stampOf(await lstat(target, { bigint: true })));
  }

  async #relink(path: string, target: string): Promise<void> {
    await symlink(target, join(this.dir, path));
    this.#stamps.set(path, stampOf(await lstat(join(this.dir, path), { bigint: true })));
  }
}

/** A file's text in the tree; null where it is none of its files, or not UTF-8. */
export async function textOf(tree: Tree, path: string): Promise<string | null> {
  if (tree.entries.get(path)?.kind !== "file") return null;
  const bytes = await readFile(join(tree.dir, path));
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : null;
}

/** Removes a file, or a directory with all that is in it, also where a run took the right away. */
export async function remove(path: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 2 } as const;
  await rm(path, options).catch(async () => {
    await unlock(path);
    await rm(path, options);
  });
}

async function unlock(path: string): Promise<void> {
  if (!(await lstat(path)).isDirectory()) return;
  await chmod(path, 0o700);
  for (const name of await readdir(path)) await unlock(join(path, name));
}

/** What no write leaves as it was: the system sets the time of change, and no program can. */
type Stamp = { readonly inode: bigint; readonly changedNs: bigint; readonly sizeBytes: bigint };

function stampOf(stat: BigIntStats): Stamp {
  return { inode: stat.ino, changedNs: stat.ctimeNs, sizeBytes: stat.size };
}

function sameStamp(one: Stamp | undefined, other: Stamp): boolean {
  return (
    one !== undefined &&
    one.inode === other.inode &&
    one.changedNs === other.changedNs &&
    one.sizeBytes === other.sizeBytes
  );
}

async function lstatOf(path: string): Promise<BigIntStats | null> {
  return lstat(path, { bigint: true }).catch(() => null);
}

/** Some at a time, and none any more once one has failed. */
async function inTurn<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += COPY_LIMITS.parallelCount) {
    await Promise.all(items.slice(at, at + COPY_LIMITS.parallelCount).map(act));
  }
}

function isSystemError(error: unknown): error is Error {
  return error instanceof Error && "code" in error && "syscall" in error;
}
