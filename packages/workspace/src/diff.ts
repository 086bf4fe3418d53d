import { closeSync, openSync, readSync } from "node:fs";
import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { type StructuredPatchHunk, structuredPatch } from "diff";
import type { TreeChange } from "./change.ts";
import { digestOf, isText, readSmall, TEXT_LIMIT_BYTES } from "./content.ts";
import type { TreeNode } from "./node.ts";
import type { Base } from "./take.ts";
import { closeDir, type Dir, errno, openFile, openTree, orFault, reach } from "./walk.ts";

/** Lines that stay as they are around a change. */
const CONTEXT_LINES = 3;
/** Files that differ by more lines than this are shown as replaced whole: finding less takes too long. */
const EDIT_LIMIT_LINES = 5_000;

/**
 * Changes as a text that people read and `git apply` takes, with names quoted as git does. What it
 * cannot say is left out: directories of their own, and mode bits other than the owner's `x`. Of files
 * that are not text, or have more than TEXT_LIMIT_BYTES, it says that they differ, in a line that git skips. The base's side is what was
 * taken, whatever became of the original. Faults: `changed` for a file that is no longer as `changes`
 * saw it, `corrupt`, `io`.
 */
export async function unifiedDiff(
  found: readonly TreeChange[],
  base: Base,
  tree: string,
): Promise<Result<string>> {
  return orFault(tree, async () => {
    const root = openTree(tree);
    const textFd = openSync(base.textPath, "r");
    try {
      let text = "";
      for (const change of found) {
        const sides = await sidesOf(change, base, root, textFd);
        if (!sides.ok) return sides;
        for (const { before, after } of sides.value) text += fileDiff(change.path, before, after);
      }
      return ok(text);
    } finally {
      closeSync(textFd);
      closeDir(root);
    }
  });
}

/** One side of a difference; `text` is null where it cannot be shown. */
export type Side = {
  readonly gitMode: "100644" | "100755" | "120000";
  /** Tells sides apart whose text cannot be shown. */
  readonly identity: string;
  readonly text: string | null;
};

export type Pair = { readonly before: Side | null; readonly after: Side | null };

async function sidesOf(
  change: TreeChange,
  base: Base,
  root: Dir,
  textFd: number,
): Promise<Result<readonly Pair[]>> {
  if (change.kind === "skipped") return ok([]);
  const before =
    change.kind === "added" ? ok(null) : baseSide(change.path, change.before, base, textFd);
  if (!before.ok) return before;
  const after =
    change.kind === "deleted" ? ok(null) : await treeSide(change.path, change.after, root);
  if (!after.ok) return after;
  return ok(pairsOf({ before: before.value, after: after.value }));
}

/** A file in a symlink's place, or the reverse, is one that goes and one that comes. */
export function pairsOf(pair: Pair): readonly Pair[] {
  const { before, after } = pair;
  const types = [before, after].map((side) => side?.gitMode === "120000");
  if (before === null || after === null || types[0] === types[1]) return [pair];
  return [
    { before, after: null },
    { before: null, after },
  ];
}

function baseSide(path: string, node: TreeNode, base: Base, textFd: number): Result<Side | null> {
  if (node.kind !== "file") return ok(linkSide(node));
  const at = base.manifest.entries.get(path)?.textAt ?? null;
  if (at === null) return ok(fileSide(node, null));
  const content = Buffer.alloc(node.sizeBytes);
  readSync(textFd, content, 0, content.length, at);
  if (digestOf(content) === node.digest) return ok(fileSide(node, content));
  const message = `the base's text of ${path} is damaged`;
  return fail(fault("corrupt", message, base.textPath, "take the workspace anew"));
}

async function treeSide(path: string, node: TreeNode, root: Dir): Promise<Result<Side | null>> {
  if (node.kind !== "file") return ok(linkSide(node));
  if (node.sizeBytes > TEXT_LIMIT_BYTES) return ok(fileSide(node, null));
  const content = await contentAt(root, path, node.sizeBytes);
  if (content === null || digestOf(content) !== node.digest) {
    return fail(fault("changed", "the file was written to meanwhile", path, "compare again"));
  }
  return ok(fileSide(node, content));
}

async function contentAt(root: Dir, path: string, sizeBytes: number): Promise<Uint8Array | null> {
  const read = await reach(root, path, (parent, name) => {
    try {
      const fd = openFile(parent, name);
      try {
        return readSmall(fd, sizeBytes);
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      if (["ENOENT", "ELOOP"].includes(errno(error))) return null;
      throw error;
    }
  });
  return typeof read === "string" ? null : read;
}

/** A file's side; its content, or null where that is not to be shown. */
export function fileSide(
  node: { readonly mode: number; readonly digest: Digest },
  content: Uint8Array | null,
): Side {
  const gitMode = (node.mode & 0o100) === 0 ? "100644" : "100755";
  // A byte order mark is content like any other.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const text = content !== null && isText(content) ? decoder.decode(content) : null;
  return { gitMode, identity: node.digest, text };
}

/** A symlink's side; null for a directory. */
export function linkSide(node: TreeNode): Side | null {
  if (node.kind !== "symlink") return null;
  return { gitMode: "120000", identity: node.target, text: node.target };
}

/** The text of one difference; empty where there is nothing that it can say. */
export function fileDiff(path: string, before: Side | null, after: Side | null): string {
  const [a, b] = [quoted(`a/${path}`), quoted(`b/${path}`)];
  let head = `diff --git ${a} ${b}\n`;
  if (before === null && after === null) return "";
  if (before === null) head += `new file mode ${after?.gitMode}\n`;
  else if (after === null) head += `deleted file mode ${before.gitMode}\n`;
  else if (before.gitMode !== after.gitMode) {
    head += `old mode ${before.gitMode}\nnew mode ${after.gitMode}\n`;
  } else if (before.identity === after.identity) return "";
  if (before?.identity === after?.identity) return head;
  const [old, now] = [before === null ? "/dev/null" : a, after === null ? "/dev/null" : b];
  const [oldText, newText] = [before === null ? "" : before.text, after === null ? "" : after.text];
  // Without a header, as diff itself says it: git would refuse the whole patch for one that it cannot apply.
  if (oldText === null || newText === null) return `Binary files ${old} and ${now} differ\n`;
  // An empty file has no line to show: that it came or went is all there is.
  if (oldText === newText) return head;
  return `${head}--- ${ended(old)}\n+++ ${ended(now)}\n${hunks(oldText, newText)}`;
}

function hunks(before: string, after: string): string {
  const limits = { context: CONTEXT_LINES, maxEditLength: EDIT_LIMIT_LINES };
  const patch = structuredPatch("", "", before, after, "", "", limits);
  const found = patch === undefined ? [replacement(before, after)] : patch.hunks;
  return found.map(hunkText).join("");
}

function hunkText(hunk: StructuredPatchHunk): string {
  const { oldLines, newLines, lines } = hunk;
  // A range without lines names the line before it.
  const oldStart = oldLines === 0 ? hunk.oldStart - 1 : hunk.oldStart;
  const newStart = newLines === 0 ? hunk.newStart - 1 : hunk.newStart;
  const range = `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`;
  return `${range}\n${lines.join("\n")}\n`;
}

function replacement(before: string, after: string): StructuredPatchHunk {
  const [removed, added] = [marked("-", before), marked("+", after)];
  const count = (lines: readonly string[]) => lines.filter((line) => line[0] !== "\\").length;
  const [oldLines, newLines] = [count(removed), count(added)];
  return { oldStart: 1, oldLines, newStart: 1, newLines, lines: [...removed, ...added] };
}

function marked(mark: string, text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  const unended = lines.pop();
  const all = lines.map((line) => mark + line);
  return unended === "" ? all : [...all, mark + unended, "\\ No newline at end of file"];
}

/** After a name with a space git puts a tab, so that it can be told from what may follow it. */
function ended(name: string): string {
  return name.includes(" ") && !name.startsWith('"') ? `${name}\t` : name;
}

const ESCAPES: Readonly<Record<number, string>> = {
  7: "\\a",
  8: "\\b",
  9: "\\t",
  10: "\\n",
  11: "\\v",
  12: "\\f",
  13: "\\r",
  34: '\\"',
  92: "\\\\",
};

/** A name as git writes it: quoted, with bytes in octal, where it is not plain ASCII. */
function quoted(name: string): string {
  let text = "";
  let plain = true;
  for (const byte of Buffer.from(name)) {
    const escaped = ESCAPES[byte];
    const octal = byte < 32 || byte > 126;
    if (escaped !== undefined || octal) plain = false;
    text +=
      escaped ?? (octal ? `\\${byte.toString(8).padStart(3, "0")}` : String.fromCharCode(byte));
  }
  return plain ? name : `"${text}"`;
}
