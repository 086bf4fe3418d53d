import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";

/** What a workspace's own instructions are looked for in. */
export type Repository = {
  /** From the workspace up to the root of its repository; outside of one, the workspace alone. */
  readonly directories: readonly string[];
  readonly root: string;
};

/** How many directories above the workspace are looked into. */
const CLIMB_LIMIT = 64;

/** The repository that a directory is in. */
export function repositoryOf(directory: string): Repository {
  const directories: string[] = [];
  let at = directory;
  for (let step = 0; step < CLIMB_LIMIT; step++) {
    directories.push(at);
    if (realOf(join(at, ".git")) !== null) return { directories, root: at };
    const above = dirname(at);
    if (above === at) break;
    at = above;
  }
  return { directories: [directory], root: directory };
}

/**
 * A file of a repository, with at most one byte more than the limit. Null: there is none, or it is no
 * file that can be read, or a link leads out of the repository.
 */
export function readInside(path: string, { root }: Repository, limitBytes: number): Buffer | null {
  const real = insideOf(path, root);
  if (real === null) return null;
  try {
    // A FIFO must not make us wait for a writer.
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
    const descriptor = openSync(real, flags);
    try {
      if (!fstatSync(descriptor).isFile()) return null;
      const buffer = Buffer.alloc(limitBytes + 1);
      return buffer.subarray(0, readSync(descriptor, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    return nothing(error);
  }
}

/** The names in a directory of a repository, sorted; none where it is missing or a link leads out. */
export function namesInside(path: string, { root }: Repository): readonly string[] {
  const real = insideOf(path, root);
  if (real === null) return [];
  try {
    return readdirSync(real).sort();
  } catch (error) {
    return nothing(error) ?? [];
  }
}

/** What a path really is, when that lies in the repository. */
function insideOf(path: string, root: string): string | null {
  const real = realOf(path);
  const from = realOf(root);
  if (real === null || from === null) return null;
  const inside = relative(from, real);
  return inside === ".." || inside.startsWith("../") || inside.startsWith("/") ? null : real;
}

function realOf(path: string): string | null {
  try {
    return realpathSync(path);
  } catch (error) {
    return nothing(error);
  }
}

/** There being none is the usual case; what cannot be read is as good as none. A bug of ours throws. */
function nothing(error: unknown): null {
  if (error instanceof Error && "code" in error) return null;
  throw error;
}
