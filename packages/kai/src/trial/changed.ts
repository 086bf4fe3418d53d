import { type Candidate, edited } from "../candidate.ts";
import { type Tree, textOf } from "../copy.ts";
import type { FileChange } from "./worker.ts";

/** Texts of the tree, each read once. */
export type Texts = (file: string) => Promise<string | null>;

export function textsOf(tree: Tree): Texts {
  const read = new Map<string, Promise<string | null>>();
  return (file) => {
    const text = read.get(file) ?? textOf(tree, file);
    read.set(file, text);
    return text;
  };
}

/**
 * What a candidate changes, as edits of each file by its path; a file in which characters are not all of
 * one unit is told whole. Null where one of them is none of the tree's, or no text.
 */
export async function changesIn(
  texts: Texts,
  { edits }: Candidate,
): Promise<ReadonlyMap<string, FileChange> | null> {
  const files = new Map<string, FileChange>();
  for (const { file } of edits) {
    if (files.has(file)) continue;
    const text = await texts(file);
    if (text === null) return null;
    const own = edits.filter((edit) => edit.file === file);
    const isWhole = SURROGATE.test(text);
    files.set(file, isWhole ? edited(text, file, edits) : own.map((e) => [e.from, e.to, e.text]));
  }
  return files;
}

const SURROGATE = /[\ud800-\udfff]/;

/**
 * The files that a candidate changes, as it would have them, by their path. Null where one of them is
 * none of the tree's, or no text.
 */
export async function changedFiles(
  texts: Texts,
  candidate: Candidate,
): Promise<ReadonlyMap<string, string> | null> {
  const files = new Map<string, string>();
  for (const { file } of candidate.edits) {
    if (files.has(file)) continue;
    const text = await texts(file);
    if (text === null) return null;
    files.set(file, edited(text, file, candidate.edits));
  }
  return files;
}
