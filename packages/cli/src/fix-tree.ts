import { readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";

const TREE_LIMITS = {
  /** Directories between the one that was given and the repository that it is in. */
  depth: 64,
  /** Entries of a repository that is taken whole; of a larger one, the directory that was given. */
  entryCount: 20_000,
} as const;

export type FoundTree = {
  readonly given: string;
  /** What is copied: the repository, or the directory where there is none, or it is too large. */
  readonly directory: string;
  /** Where in it the command runs. */
  readonly cwd: string;
};

/**
 * The tree that a directory is part of: a test may read what lies beside its package. No tree is looked
 * for above `top`. Fault: `usage`.
 */
export function findTree(given: string, top: string | null = null): Result<FoundTree> {
  let own: string;
  try {
    own = realpathSync(resolve(given));
    if (!statSync(own).isDirectory()) return fail(fault("usage", "not a directory", given));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return fail(fault("usage", `there is no such directory: ${message}`, given));
  }
  const root = repositoryOf(own, top);
  const directory = root !== null && root !== own && isSmall(root) ? root : own;
  const cwd = relative(directory, own).split(sep).join("/") || ".";
  return ok({ given: own, directory, cwd });
}

function repositoryOf(directory: string, top: string | null): string | null {
  let at = directory;
  for (let depth = 0; depth < TREE_LIMITS.depth; depth += 1) {
    if (statSync(join(at, ".git"), { throwIfNoEntry: false }) !== undefined) return at;
    const above = dirname(at);
    if (above === at || at === top) return null;
    at = above;
  }
  return null;
}

/** Directories that are linked to and not copied, or left out. */
const UNCOPIED = /^(node_modules|\.git|\.venv|venv|bower_components|__pycache__|\.tox|\.nox)$/;

function isSmall(root: string): boolean {
  const waiting = [root];
  let count = 0;
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    try {
      for (const entry of readdirSync(at, { withFileTypes: true })) {
        count += 1;
        if (count > TREE_LIMITS.entryCount) return false;
        if (entry.isDirectory() && !UNCOPIED.test(entry.name)) waiting.push(join(at, entry.name));
      }
    } catch {
      // What may not be read cannot be copied either.
      return false;
    }
  }
  return true;
}
