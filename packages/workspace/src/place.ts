import {
  closeSync,
  fchmodSync,
  fstatSync,
  futimesSync,
  lstatSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
} from "node:fs";
import type { Entry, FileEntry } from "./listing.ts";
import { type ByteName, closeDir, type Dir, errno, openDirAt, openFileAt } from "./walk.ts";

/** Whether two entries are the same, whatever a directory holds. */
export function isLike(one: Entry, other: Entry): boolean {
  if (one.kind === "skipped" || other.kind === "skipped") return one.kind === other.kind;
  if (one.mtimeUs !== other.mtimeUs) return false;
  if (one.kind === "symlink") return other.kind === "symlink" && one.target === other.target;
  if (other.kind === "symlink" || one.mode !== other.mode) return false;
  if (one.kind === "directory") return other.kind === "directory";
  return other.kind === "file" && one.digest === other.digest && one.sizeBytes === other.sizeBytes;
}

/** Removes what is at a name, and all below it. */
export function removeAt(dir: Dir, name: ByteName): void {
  const path = dir.atBytes(name);
  try {
    if (!lstatSync(path).isDirectory()) {
      unlinkSync(path);
      return;
    }
  } catch (error) {
    if (errno(error) === "ENOENT") return;
    throw error;
  }
  const inner = openDirAt(path);
  try {
    makeWritable(inner);
    for (const below of readdirSync(inner.at("."), "latin1")) removeAt(inner, below);
  } finally {
    closeDir(inner);
  }
  rmdirSync(path);
}

/** A directory that its owner may not write in has to be, for as long as it is written in. */
export function makeWritable(dir: Dir): void {
  const mode = fstatSync(dir.fd).mode & 0o777;
  if ((mode & 0o700) !== 0o700) fchmodSync(dir.fd, mode | 0o700);
}

/** Gives a file the mode and the mtime that its entry has. */
export function dressFile(dir: Dir, { name, mode, mtimeUs }: FileEntry): void {
  const fd = openFileAt(dir.atBytes(name));
  try {
    dress(fd, mode, mtimeUs);
  } finally {
    closeSync(fd);
  }
}

export function dress(fd: number, mode: number, mtimeUs: number): void {
  futimesSync(fd, secondsOf(mtimeUs), secondsOf(mtimeUs));
  fchmodSync(fd, mode);
}

/** A third of a microsecond more: whichever way the fraction is cut, the microsecond is the same. */
export function secondsOf(mtimeUs: number): number {
  return (mtimeUs + 0.3) / 1e6;
}
