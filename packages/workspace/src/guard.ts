import type { TreeChange } from "./change.ts";

/**
 * Whether a change could make the person's own git run a program, or look elsewhere: a hook, a
 * configuration (`core.fsmonitor`, an alias), a `.git` that points to another place. Of a repository's
 * insides only plain data is not held back.
 */
export function isHeldBack(change: TreeChange): boolean {
  const names = change.path.split("/");
  const at = names.findIndex(isGitName);
  if (at < 0) return false;
  const inside = names.slice(at + 1);
  const isLink = "after" in change && change.after.kind === "symlink";
  if (inside.length === 0) {
    // The directory alone does nothing; a file of that name says where the repository is.
    const sides = [
      "after" in change ? change.after : null,
      "before" in change ? change.before : null,
    ];
    return sides.some((side) => side !== null && side.kind !== "directory");
  }
  const [first = "", second = ""] = inside;
  if (isLink) return true;
  if (first === "objects") return second === "info";
  if (first === "refs" || first === "logs") return false;
  return inside.length > 1 || !PLAIN.has(first);
}

/**
 * Whether it is the index of a repository: git writes it anew at every look, and makes it again from
 * the commit, so that one that differs is no reason to bring nothing.
 */
export function isIndex(path: string): boolean {
  const [name = "", parent = ""] = path.split("/").toReversed();
  return name === "index" && isGitName(parent);
}

/** Whether it is a name that git takes for a repository's, on any file system. */
function isGitName(name: string): boolean {
  // Some file systems fold case, and ignore these code points, or a trailing dot or space.
  const folded = name.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, "");
  return /^(\.git|git~1)[. ]*$/i.test(folded);
}

const PLAIN: ReadonlySet<string> = new Set([
  "HEAD",
  "ORIG_HEAD",
  "FETCH_HEAD",
  "MERGE_HEAD",
  "MERGE_MSG",
  "MERGE_MODE",
  "CHERRY_PICK_HEAD",
  "REVERT_HEAD",
  "SQUASH_MSG",
  "AUTO_MERGE",
  "COMMIT_EDITMSG",
  "description",
  "index",
  "packed-refs",
]);
