// Cases: a faulty tree, the command that fails in it, and the right text of the files that are wrong.
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Reads a folder of cases, each a folder with case.json, tree/ and fixed/; `only` is a pattern with `*`.
 * A case's kind is its name up to what tells it from others of its kind.
 */
export function readCases(folder, only = "*") {
  const shape = shapeOf(only);
  return readdirSync(folder)
    .filter((name) => shape.test(name) && existsSync(join(folder, name, "case.json")))
    .sort()
    .map((id) => {
      const { command, wide, kind } = JSON.parse(
        readFileSync(join(folder, id, "case.json"), "utf8"),
      );
      const tree = join(folder, id, "tree");
      const fixed = new Map(
        filesOf(join(folder, id, "fixed")).map((file) => [
          file,
          readFileSync(join(folder, id, "fixed", file), "utf8"),
        ]),
      );
      return { id, kind: kind ?? kindOf(id), command, wide: wide ?? null, tree, fixed };
    });
}

function kindOf(id) {
  const parts = id.split("-");
  return parts.slice(0, Math.max(1, parts.length - 1)).join("-");
}

/** A pattern in which `*` stands for anything. */
export function shapeOf(glob) {
  const parts = glob.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

/** All files of a directory, relative to it, links too, but for what is of a name in `skipped`. */
export function filesOf(directory, below = "", skipped = []) {
  return readdirSync(join(directory, below), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .filter(({ name }) => !skipped.includes(name))
    .flatMap((entry) => {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      return entry.isDirectory() ? filesOf(directory, path, skipped) : [path];
    });
}

/** By path, what a tree is made of: a link's target, or a file's bytes and whether it can be run. */
export function snapshot(directory) {
  return new Map(
    filesOf(directory).map((file) => {
      const path = join(directory, file);
      const stat = lstatSync(path);
      if (stat.isSymbolicLink()) return [file, `link ${readlinkSync(path)}`];
      return [file, `${stat.mode & 0o111} ${readFileSync(path, "latin1")}`];
    }),
  );
}

/**
 * Makes a fresh copy of a tree, gives it to `use`, and removes it. With `linked`, what is installed in
 * it is not copied but linked to, for a run that is sure to write nothing there.
 */
export async function inCopy(tree, use, { linked = false } = {}) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "kai-bench-")));
  try {
    const place = join(home, "tree");
    const installed = join(tree, "node_modules");
    const isLinked = linked && existsSync(installed);
    const filter = (path) => !isLinked || path !== installed;
    cpSync(tree, place, { recursive: true, verbatimSymlinks: true, filter });
    if (isLinked) symlinkSync(installed, join(place, "node_modules"));
    return await use(place, home);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/**
 * Which lines of a text have to change to make another of it, as hunks: the lines that go, counted from
 * 1, and for what is only put in, the line `before` it (0 at the start).
 */
export function hunks(from, to) {
  const [a, b] = [from.split("\n"), to.split("\n")].map((all) => all.map((line) => line.trimEnd()));
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  let end = 0;
  while (
    end < Math.min(a.length, b.length) - start &&
    a[a.length - 1 - end] === b[b.length - 1 - end]
  ) {
    end += 1;
  }
  return matched(a.slice(start, a.length - end), b.slice(start, b.length - end), start);
}

/** By the longest common subsequence of what differs. */
function matched(a, b, offset) {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        a[i] === b[j]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const found = [];
  let hunk = null;
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      hunk = null;
      i += 1;
      j += 1;
      continue;
    }
    if (hunk === null) {
      hunk = { lines: [], added: [], before: offset + i };
      found.push(hunk);
    }
    const goes =
      j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1]);
    if (goes) hunk.lines.push(offset + ++i);
    else hunk.added.push(b[j++]);
  }
  return found;
}
