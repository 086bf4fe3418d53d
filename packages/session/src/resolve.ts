import { lstatSync, readlinkSync, realpathSync, type Stats } from "node:fs";
import { isAbsolute, join, relative } from "node:path";

/** How many symbolic links one path may lead through, as in Linux. */
export const LINK_DEPTH_LIMIT: number = 40;
/** The length of a path, with the targets of its links. */
export const PATH_LIMIT: number = 4096;

/** Where a cell of its own sees its workspace: an absolute link made in there points below this. */
const CELL_WORKSPACE = "/workspace";

/**
 * What a path below a workspace really names: its symbolic links are read, and no file is. What is
 * missing is taken as written, since a write makes it. A path that leaves the workspace, or that
 * cannot be resolved, stays as it is: the cell refuses it. A process that still runs in the background
 * may swap a link after this look; against that only the confinement of the cell holds.
 */
export function resolvePath(workspace: string, path: string): string {
  if (isAbsolute(path) || path.includes("\0")) return path;
  try {
    return walk(realpathSync(workspace), workspace, path) ?? path;
  } catch (error) {
    if (error instanceof Error && "code" in error) return path;
    throw error;
  }
}

/** Walks a path one component at a time; null where it leads out, or on for ever. */
function walk(root: string, named: string, path: string): string | null {
  const names = componentsOf(path);
  let held: string[] = [];
  let links = 0;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === "..") {
      if (held.pop() === undefined) return null;
      continue;
    }
    const at = join(root, ...held, name);
    if (lookAt(at)?.isSymbolicLink() !== true) {
      held.push(name);
      continue;
    }
    links++;
    const target = readlinkSync(at);
    const steps = isAbsolute(target) ? below([root, named, CELL_WORKSPACE], target) : target;
    if (steps === null || links > LINK_DEPTH_LIMIT) return null;
    if (isAbsolute(target)) held = [];
    names.unshift(...componentsOf(steps));
    if (names.join("/").length > PATH_LIMIT) return null;
  }
  return held.length === 0 ? "." : held.join("/");
}

/** An absolute path, relative to the workspace; null when it is spelt as lying elsewhere. */
function below(roots: readonly string[], target: string): string | null {
  for (const root of roots) {
    const path = relative(root, target);
    if (path !== ".." && !path.startsWith("../") && !isAbsolute(path)) return path;
  }
  return null;
}

function lookAt(at: string): Stats | null {
  try {
    return lstatSync(at);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

function componentsOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}
