import { diffArrays } from "diff";

/** How many lines were added and removed, from one text to another. */
export type LineCounts = { readonly added: number; readonly removed: number };

/** Past so many edits the count is that of a change in one piece: an upper bound, at a bounded cost. */
const EDIT_LIMIT = 1_000;

/** Counts what a change added and removed; both texts are bytes as latin1. */
export function countChanges(before: string, after: string): LineCounts {
  const old = splitLines(before);
  const fresh = splitLines(after);
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let oldEnd = old.length;
  let freshEnd = fresh.length;
  while (oldEnd > head && freshEnd > head && old[oldEnd - 1] === fresh[freshEnd - 1]) {
    oldEnd--;
    freshEnd--;
  }
  const changed = diffArrays(old.slice(head, oldEnd), fresh.slice(head, freshEnd), {
    maxEditLength: EDIT_LIMIT,
  });
  if (changed === undefined) return { added: freshEnd - head, removed: oldEnd - head };
  let added = 0;
  let removed = 0;
  for (const part of changed) {
    if (part.added) added += part.value.length;
    if (part.removed) removed += part.value.length;
  }
  return { added, removed };
}

/** Lines with their endings; the last may have none. An empty text has no lines. */
export function splitLines(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** The line, counted from 1, that the character at `index` stands in. */
export function lineAt(text: string, index: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < index; at = text.indexOf("\n", at + 1))
    line++;
  return line;
}

/** Whether every line ends in CR LF, and there is at least one. */
export function isCrlf(text: string): boolean {
  return text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
}

export function toCrlf(text: string): string {
  return text.replaceAll("\n", "\r\n");
}

/** The bytes of a text, one character each: matching and cutting then change no other byte. */
export function latin1(text: string): string {
  return Buffer.from(text).toString("latin1");
}
