import { isUtf8 } from "node:buffer";
import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  type PathLike,
  readdirSync,
  readlinkSync,
} from "node:fs";
import { setImmediate as breathe } from "node:timers/promises";
import { type Fault, fail, fault, type Result } from "@dev/protocol";
import type { Skipped, SkippedWhy } from "./node.ts";

/** How many directories deep a walk goes: each level holds a descriptor open. */
export const DEPTH_LIMIT = 128;
/** How much work is done before this process's other work gets its turn. */
const PACE_STEPS = 200;

/**
 * An open directory. What lies in it is named through its descriptor, so that nobody who renames
 * the directories above it, or puts a symlink in their place, can lead the reader elsewhere.
 */
export type Dir = {
  readonly fd: number;
  readonly at: (name: string) => string;
  /** The same for a name that need not be UTF-8. */
  readonly atBytes: (name: ByteName) => PathLike;
};

/**
 * A file's name, or a path of names, as the bytes that the system has it in, each a code unit below 256:
 * names that are no UTF-8 are names too, and this order is the order of the bytes.
 */
export type ByteName = string;

/** What a walk finds; `parent` is open for as long as the visit lasts. */
export type Found = {
  readonly path: string;
  readonly name: string;
  readonly parent: Dir;
  readonly stat: BigIntStats;
};

/** `directory` says whether to go in; `leave` is told when all that is in it was seen. */
export type Visitor = {
  readonly directory: (found: Found) => boolean;
  readonly leave: (found: Found) => void;
  readonly file: (found: Found) => Promise<void>;
  readonly symlink: (found: Found, target: string) => void;
  readonly skip: (skipped: Skipped) => void;
};

/** Awaited between steps: lets other work through now and then, and throws when it is aborted. */
export type Pace = () => Promise<void>;

// Linux resolves this to the open directory itself, wherever it has gone. Elsewhere paths are used, and
// only the last component of each is safe from being replaced by a symlink.
const THROUGH_DESCRIPTORS = existsSync("/proc/self/fd");
const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Opens the root of a tree; the caller's own path to it may lead through symlinks. */
export function openTree(path: string): Dir {
  return dirOf(openSync(path, O_RDONLY | O_DIRECTORY), path);
}

/** Opens a directory in a directory; a symlink in its place is an error. */
export function openDir(parent: Dir, name: string): Dir {
  return openDirAt(parent.at(name));
}

/** Opens a directory by a path whose last name is no symlink. */
export function openDirAt(path: PathLike): Dir {
  const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  return dirOf(fd, typeof path === "string" ? path : Buffer.from(path as Buffer).toString());
}

/** Opens a regular file for reading; anything else in its place is an error, and nothing blocks. */
export function openFile(parent: Dir, name: string): number {
  return openFileAt(parent.at(name));
}

/** The same by a path whose last name is no symlink. */
export function openFileAt(path: PathLike): number {
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw Object.assign(new Error("not a regular file"), { code: "ELOOP", syscall: "open" });
}

export function closeDir(dir: Dir): void {
  closeSync(dir.fd);
}

/** Visits all that is in a tree, by name; a directory comes before what is in it. */
export async function walkTree(root: Dir, visitor: Visitor, pace: Pace): Promise<void> {
  await walkDir(root, "", 0, visitor, pace);
}

/**
 * Acts on the directory that holds `path`, opened from the root one component at a time, and open until
 * `act` is done. `absent`: a directory above it is not there. `blocked`: something else is in its place.
 */
export async function reach<T>(
  root: Dir,
  path: string,
  act: (parent: Dir, name: string) => T | Promise<T>,
): Promise<T | "absent" | "blocked"> {
  if (!isTreePath(path)) throw new Error(`not a path below a root: ${JSON.stringify(path)}`);
  const names = path.split("/");
  const name = names.pop() ?? "";
  let dir = root;
  try {
    for (const above of names) {
      const next = enter(dir, above);
      if (typeof next === "string") return next;
      if (dir !== root) closeDir(dir);
      dir = next;
    }
    return await act(dir, name);
  } finally {
    if (dir !== root) closeDir(dir);
  }
}

/** A path of a manifest is relative, and names nothing above its root. */
export function isTreePath(path: string): boolean {
  return path.split("/").every((name) => !["", ".", ".."].includes(name)) && !path.includes("\0");
}

/** The error's code, such as `ENOENT`; empty for what is no error of the system's. */
export function errno(error: unknown): string {
  return error instanceof Error && "code" in error && "syscall" in error ? String(error.code) : "";
}

/** Ends the `orFault` around it with this fault; a visitor's way to end a walk. */
export function halt(fault: Fault): never {
  throw Object.assign(new Error(fault.message), { fault });
}

/** Makes an `io` fault of a system's error; an error that is neither that nor a `halt` goes on. */
export async function orFault<T>(
  subject: string,
  work: () => Promise<Result<T>>,
): Promise<Result<T>> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && "fault" in error) return fail(error.fault as Fault);
    if (errno(error) === "") throw error;
    return fail(ioFault(subject, error as Error));
  }
}

export function ioFault(subject: string, error: Error): Fault {
  return fault("io", error.message, subject, "check the disk and permissions");
}

export function pacer(signal: AbortSignal | undefined): Pace {
  let steps = 0;
  return async () => {
    if (++steps % PACE_STEPS === 0) await breathe();
    signal?.throwIfAborted();
  };
}

async function walkDir(
  dir: Dir,
  prefix: string,
  depth: number,
  visitor: Visitor,
  pace: Pace,
): Promise<void> {
  for (const bytes of readdirSync(dir.at("."), { encoding: "buffer" }).sort(Buffer.compare)) {
    await pace();
    const name = bytes.toString();
    const path = prefix + name;
    if (!isUtf8(bytes)) visitor.skip({ path, why: "name" });
    else await visit({ dir, path, name, depth }, visitor, pace);
  }
}

type Place = {
  readonly dir: Dir;
  readonly path: string;
  readonly name: string;
  readonly depth: number;
};

async function visit(place: Place, visitor: Visitor, pace: Pace): Promise<void> {
  const { dir: parent, path, name } = place;
  try {
    const stat = lstatSync(parent.at(name), { bigint: true });
    const found: Found = { path, name, parent, stat };
    if (stat.isDirectory()) await goIn(found, place.depth + 1, visitor, pace);
    else if (stat.isFile()) await visitor.file(found);
    else if (stat.isSymbolicLink()) {
      const target = readlinkSync(parent.at(name), { encoding: "buffer" });
      if (isUtf8(target)) visitor.symlink(found, target.toString());
      else visitor.skip({ path, why: "name" });
    } else visitor.skip({ path, why: specialKind(stat) });
  } catch (error) {
    const why = whyNot(errno(error));
    if (why === null) throw error;
    if (why !== "gone") visitor.skip({ path, why });
  }
}

async function goIn(found: Found, depth: number, visitor: Visitor, pace: Pace): Promise<void> {
  if (depth > DEPTH_LIMIT) return visitor.skip({ path: found.path, why: "depth" });
  const dir = openDir(found.parent, found.name);
  try {
    if (!visitor.directory(found)) return;
    try {
      await walkDir(dir, `${found.path}/`, depth, visitor, pace);
    } finally {
      visitor.leave(found);
    }
  } finally {
    closeDir(dir);
  }
}

/** Why what cannot be looked at is left out; null where that is no fault of the tree's. */
export function whyNot(code: string): "gone" | SkippedWhy | null {
  switch (code) {
    case "ENOENT":
      return "gone";
    case "EACCES":
    case "EPERM":
      return "unreadable";
    // It became something else between being listed and being opened.
    case "ELOOP":
    case "ENOTDIR":
    case "ENXIO":
    case "EINVAL":
      return "changing";
    default:
      return null;
  }
}

export function specialKind(stat: BigIntStats): SkippedWhy {
  if (stat.isSocket()) return "socket";
  return stat.isFIFO() ? "fifo" : "device";
}

function enter(dir: Dir, name: string): Dir | "absent" | "blocked" {
  try {
    return openDir(dir, name);
  } catch (error) {
    if (errno(error) === "ENOENT") return "absent";
    if (["ELOOP", "ENOTDIR"].includes(errno(error))) return "blocked";
    throw error;
  }
}

/** A path to an open file whatever its name has become; null where the system has none. */
export function pathOf(fd: number): string | null {
  return THROUGH_DESCRIPTORS ? `/proc/self/fd/${fd}` : null;
}

function dirOf(fd: number, path: string): Dir {
  const base = pathOf(fd) ?? path;
  return {
    fd,
    at: (name) => `${base}/${name}`,
    atBytes: (name) => pathLike(`${bytesOf(base)}/${name}`),
  };
}

/** A path of bytes as the system's calls take it. */
export function pathLike(path: ByteName): PathLike {
  return IS_ASCII.test(path) ? path : Buffer.from(path, "latin1");
}

/** A text as the bytes of its UTF-8. */
export function bytesOf(text: string): ByteName {
  return IS_ASCII.test(text) ? text : Buffer.from(text).toString("latin1");
}

/** Bytes as a person reads them; what is no UTF-8 becomes the mark for that. */
export function textOf(name: ByteName): string {
  return IS_ASCII.test(name) ? name : Buffer.from(name, "latin1").toString();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are in names too.
const IS_ASCII = /^[\x00-\x7f]*$/;
