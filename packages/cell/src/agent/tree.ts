import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  type Stats,
} from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { errnoOf, systemFault } from "./errno.ts";

/**
 * A name in a directory that is held open: whatever is renamed meanwhile, `at` still stands in that
 * very directory. `close` lets the directory go.
 */
export type Place = {
  /** For system calls, which must not follow a symbolic link there. */
  readonly at: string;
  /** The directory that holds it, to make a neighbour in or to sync. */
  readonly directory: string;
  /** Relative to the workspace, with every symbolic link resolved; `.` is the workspace. */
  readonly path: string;
  /** What stands there, never a symbolic link; null when nothing does. */
  readonly stats: Stats | null;
  readonly close: () => void;
};

/** How many symbolic links one path may lead through, as in Linux. */
export const LINK_DEPTH_LIMIT: number = 40;
/** The length of a path, with the targets of its links. */
export const PATH_LIMIT: number = 4096;

/** The workspace, as the only directory below which a path leads anywhere. */
export class Tree {
  /** The workspace, with its own symbolic links resolved. */
  readonly root: string;
  readonly #named: string;

  constructor(workspace: string) {
    this.root = realpathSync(workspace);
    this.#named = workspace;
  }

  /**
   * Walks to a path one component at a time, through directories that are held open and never by a
   * link: a directory that is swapped for a link meanwhile leads nowhere. Links are read and walked
   * instead, when their targets lie in the workspace too. `make` makes the directories that are
   * missing. Faults: `path_escape`, `not_found` (a directory above it), `io`.
   */
  locate(path: string, missing: "make" | "refuse"): Result<Place> {
    if (path === "" || path.includes("\0"))
      return fail(leaving(path, "it is empty or holds a NUL"));
    if (isAbsolute(path)) return fail(leaving(path, "it is absolute"));
    if (path.length > PATH_LIMIT) return fail(leaving(path, "it is too long"));
    const walk: Walk = { path, held: [], names: componentsOf(path), links: 0 };
    let found: Result<Place> | null = null;
    try {
      walk.held.push(hold(this.root, ""));
      while (found === null) found = this.#step(walk, missing);
    } catch (error) {
      found = fail(systemFault(error, path));
    }
    // A place keeps the directory that it is in; the others are let go.
    if (found.ok) walk.held.pop();
    for (const held of walk.held) release(held);
    return found;
  }

  /** The absolute path of a directory, for a command to start in. Faults: as `locate`. */
  directory(path: string): Result<string> {
    const place = this.locate(path, "refuse");
    if (!place.ok) return place;
    place.value.close();
    if (place.value.stats?.isDirectory()) return ok(join(this.root, place.value.path));
    return fail(fault("not_found", "there is no such directory", path, "search for its name"));
  }

  /** One component; the place when it was the last. */
  #step(walk: Walk, missing: "make" | "refuse"): Result<Place> | null {
    const top = walk.held.at(-1);
    if (top === undefined) throw new Error("a walk never leaves the workspace");
    const name = walk.names.shift();
    if (name === undefined) return ok(placeAt(walk, top, "."));
    if (name === "..") {
      if (walk.held.length === 1) return fail(leaving(walk.path, "it leaves the workspace"));
      release(top);
      walk.held.pop();
      return null;
    }
    const at = `${top.at}/${name}`;
    const stats = lookAt(at);
    if (stats?.isSymbolicLink()) return this.#follow(walk, at, name);
    if (walk.names.length === 0) return ok(placeAt(walk, top, name, stats));
    if (stats === null) {
      if (missing === "refuse") {
        const message = `there is no directory \`${name}\``;
        return fail(fault("not_found", message, walk.path, "search for its name"));
      }
      makeDirectory(at);
    }
    walk.held.push(hold(at, name));
    return null;
  }

  /** Puts a link's target in its place, or says that it leads out. */
  #follow(walk: Walk, at: string, name: string): Result<Place> | null {
    walk.links++;
    if (walk.links > LINK_DEPTH_LIMIT) return fail(leaving(walk.path, "it has too many links"));
    const target = readlinkSync(at);
    let steps = target;
    if (isAbsolute(target)) {
      const inside = this.#below(target);
      if (inside === null) return fail(leaving(walk.path, `\`${name}\` links to ${target}`));
      for (const held of walk.held.splice(1)) release(held);
      steps = inside;
    }
    walk.names.unshift(...componentsOf(steps));
    if (walk.names.join("/").length <= PATH_LIMIT) return null;
    return fail(leaving(walk.path, "it is too long"));
  }

  /** An absolute path, relative to the workspace; null when it is spelt as lying elsewhere. */
  #below(target: string): string | null {
    for (const root of [this.root, this.#named]) {
      const path = relative(root, target);
      if (path !== ".." && !path.startsWith("../") && !isAbsolute(path)) return path;
    }
    return null;
  }
}

type Walk = {
  readonly path: string;
  readonly held: Held[];
  readonly names: string[];
  links: number;
};

type Held = { readonly name: string; readonly at: string; readonly descriptor: number | null };

/** Without /proc there is no walking by descriptors: then the names are checked, and can be raced. */
const BY_DESCRIPTOR = process.platform === "linux";

function hold(at: string, name: string): Held {
  if (!BY_DESCRIPTOR) return { name, at, descriptor: null };
  // The workspace itself was resolved when the agent started: what stands there now is what is meant.
  // Not O_DIRECTORY: with it gVisor follows the link that O_NOFOLLOW forbids. A FIFO must not block us.
  const descriptor = openSync(at, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if (!fstatSync(descriptor).isDirectory()) {
    closeSync(descriptor);
    throw Object.assign(new Error("not a directory"), { code: "ENOTDIR" });
  }
  return { name, at: `/proc/self/fd/${descriptor}`, descriptor };
}

function release(held: Held): void {
  if (held.descriptor !== null) closeSync(held.descriptor);
}

function placeAt(walk: Walk, top: Held, name: string, stats?: Stats | null): Place {
  const above = walk.held.slice(1).map((held) => held.name);
  const path = (name === "." ? above : [...above, name]).join("/");
  const at = `${top.at}/${name}`;
  return {
    at,
    directory: top.at,
    path: path === "" ? "." : path,
    stats: stats === undefined ? lookAt(at) : stats,
    close: () => release(top),
  };
}

function lookAt(at: string): Stats | null {
  try {
    return lstatSync(at);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw error;
  }
}

function makeDirectory(at: string): void {
  try {
    mkdirSync(at, 0o755);
  } catch (error) {
    // Another command made it first.
    if (errnoOf(error) !== "EEXIST") throw error;
  }
}

function componentsOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

function leaving(path: string, why: string): Fault {
  return fault("path_escape", why, path, "name a path below the workspace");
}
