import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The repository's text files by path, with `/` and without a leading one. */
export type Tree = ReadonlyMap<string, string>;

export const ROOT: string = fileURLToPath(new URL("..", import.meta.url));

/** Reads what is committed, or would be by `git add --all`. */
export function readTree(): Tree {
  // A copy of the tree may belong to someone else, which git refuses to read unless it is told.
  const args = ["-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"];
  const paths = execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).split("\0");
  const found = [...new Set(paths)].filter((path) => path !== "" && existsSync(ROOT + path)).sort();
  const texts = found.map((path) => [path, readFileSync(ROOT + path, "utf8")] as const);
  return new Map(texts.filter(([, text]) => !text.includes("\0")));
}

export function filesOf(tree: Tree, pattern: RegExp): readonly (readonly [string, string])[] {
  return [...tree].filter(([path]) => pattern.test(path));
}

/** A copy of the tree with one more file, or with one file changed. */
export function planted(tree: Tree, path: string, text: string): Tree {
  return new Map([...tree, [path, text]]);
}
