import { posix } from "node:path";

/** The tree that a command runs in, as the readers of its output need it to know paths by. */
export type Workspace = {
  /** Absolute, with no symbolic link in it. */
  readonly directory: string;
  /** All of its files that may be read or changed, relative to it, with `/`. */
  readonly files: ReadonlySet<string>;
  readonly named: ReadonlyMap<string, readonly string[]>;
};

/** A copy elsewhere of the same tree is `{ ...workspace, directory }`. */
export function workspaceOf(directory: string, files: Iterable<string>): Workspace {
  const all = new Set(files);
  const named = new Map<string, string[]>();
  for (const file of all) {
    const name = posix.basename(file);
    const same = named.get(name);
    if (same === undefined) named.set(name, [file]);
    else same.push(file);
  }
  return { directory, files: all, named };
}

/** A workspace, and the directory in it where the command ran. */
export type Place = { readonly workspace: Workspace; readonly cwd: string };

const pathLimit = 1_000;
const sameNameLimit = 200;

/**
 * The file of the workspace that a path in some output means, or null: absolute, a URL, relative to
 * where the command ran or to the workspace, or the end of just one file's path.
 */
export function fileOf(place: Place, written: string): string | null {
  if (written.length === 0 || written.length > pathLimit) return null;
  const { directory, files, named } = place.workspace;
  const path = unescaped(written);
  if (path.startsWith(`${directory}/`)) {
    return known(files, path.slice(directory.length + 1));
  }
  if (path.startsWith("/")) {
    // Vite names the files of its root as if the root were the machine's.
    return known(files, posix.join(place.cwd, path.slice(1)));
  }
  const near = known(files, posix.join(place.cwd, path)) ?? known(files, path);
  if (near !== null || path.startsWith("../")) return near;
  const tail = posix.normalize(path);
  const same = named.get(posix.basename(tail)) ?? [];
  if (same.length > sameNameLimit) return null;
  const ends = same.filter((file) => file === tail || file.endsWith(`/${tail}`));
  return ends.length === 1 ? (ends[0] ?? null) : null;
}

function known(files: ReadonlySet<string>, path: string): string | null {
  const clean = posix.normalize(path);
  return files.has(clean) ? clean : null;
}

function unescaped(written: string): string {
  if (!written.startsWith("file://")) return written;
  const path = written.slice("file://".length).replace(/[?#].*$/, "");
  try {
    return decodeURIComponent(path);
  } catch {
    // What is no escape sequence after all is the path as it stands.
    return path;
  }
}
