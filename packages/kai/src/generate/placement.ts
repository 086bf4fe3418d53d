import type { Edit } from "../candidate.ts";
import type { Proposal } from "./answer.ts";

/** What became of proposals against the files as they are. */
export type Placement =
  /** In order of file and place; they do not overlap. */
  | {
      readonly kind: "placed";
      readonly edits: readonly Edit[];
      /** Of the first edit, counted from 1. */
      readonly line: number;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Why proposals cannot be made, for the one who wrote them. */
export type Refusal = {
  readonly why: string;
  /**
   * Where the proposal said it stood, in a file that is there; null where it is about no such
   * place.
   */
  readonly place: { readonly file: string; readonly line: number } | null;
};

/**
 * Finds where proposals stand. `old` has to be in the file to the letter, but for how lines end:
 * beginning on its line, or else once in the whole file. Nothing is guessed. Only what differs
 * between `old` and `new` is touched, and new lines end as the file's do. `textOf` gives null for
 * what may not be edited.
 */
export function placed(
  proposals: readonly Proposal[],
  textOf: (file: string) => string | null,
): Placement {
  const found: Found[] = [];
  for (const proposal of proposals) {
    const file = proposal.file.replace(/^(\.\/)+/, "");
    const text = isInside(file) ? textOf(file) : null;
    if (text === null) {
      return refused(
        `${JSON.stringify(file)} is no file of the workspace that may be edited`,
        null,
      );
    }
    const one = findOne({ ...proposal, file }, text);
    if (typeof one === "string") return refused(one, { file, line: proposal.line });
    found.push(one);
  }
  const sorted = found.toSorted(
    (a, b) => compared(a.file, b.file) || a.from - b.from || a.to - b.to,
  );
  for (const [at, one] of sorted.entries()) {
    const before = sorted[at - 1];
    if (before?.file === one.file && before.to > one.from) {
      const why = `two edits of ${one.file} overlap: make them one`;
      return refused(why, { file: one.file, line: one.line });
    }
  }
  const edits = sorted.map(({ edit }) => edit);
  const [first] = edits;
  if (first === undefined) throw new Error("nothing is proposed");
  const before = textOf(first.file)?.slice(0, first.from) ?? "";
  return { kind: "placed", edits, line: before.split("\n").length };
}

/** Whether a path is a plain one below the workspace, and nothing of git's. */
export function isInside(file: string): boolean {
  const parts = file.split("/");
  return (
    !file.includes("\0") &&
    !/^[A-Za-z]:/.test(file) &&
    parts.every(
      (part) => part !== "" && part !== "." && part !== ".." && part.toLowerCase() !== ".git",
    )
  );
}

type Found = {
  readonly file: string;
  readonly line: number;
  /** All that was quoted. */
  readonly from: number;
  readonly to: number;
  /** What of it changes. */
  readonly edit: Edit;
};

function findOne(proposal: Proposal, text: string): Found | string {
  const { file, line } = proposal;
  const view = viewOf(text);
  const [old, made] = [unified(proposal.old), unified(proposal.new)];
  if (old === "")
    return `the "old" of ${file}:${line} is empty: quote a line, and repeat it in "new"`;
  if (old === made) return `the "old" and "new" of ${file}:${line} are the same`;
  const at = placeOf(view.text, old, line);
  if (typeof at === "string") return `the "old" of ${file}:${line} ${at}`;
  const [before, after] = common(old, made);
  const from = view.raw(at + before);
  const to = view.raw(at + old.length - after);
  const changed = made.slice(before, made.length - after);
  return {
    file,
    line,
    from: view.raw(at),
    to: view.raw(at + old.length),
    edit: { file, from, to, text: changed.replaceAll("\n", view.lineEnd) },
  };
}

/** Where `old` stands, or why that cannot be said. */
function placeOf(text: string, old: string, line: number): number | string {
  const { from, to } = lineSpan(text, line);
  const places: number[] = [];
  for (let at = text.indexOf(old); at >= 0; at = text.indexOf(old, at + 1)) places.push(at);
  const onLine = places.filter((at) => from <= at && at < to);
  const [first] = onLine.length > 0 ? onLine : places;
  if (first === undefined) return "is not in the file";
  if (onLine.length > 1) return `stands ${onLine.length} times on that line: quote more of it`;
  if (onLine.length === 0 && places.length > 1) {
    return `does not begin on that line, and stands ${places.length} times elsewhere`;
  }
  return first;
}

/** From a line's first character to past its end; nowhere, where there is no such line. */
function lineSpan(text: string, line: number): { readonly from: number; readonly to: number } {
  let from = 0;
  for (let count = 1; count < line; count += 1) {
    const end = text.indexOf("\n", from);
    if (end < 0) return { from: text.length, to: text.length };
    from = end + 1;
  }
  const end = text.indexOf("\n", from);
  return { from, to: end < 0 ? text.length : end + 1 };
}

/** How much two texts have in common at their beginnings, and at their ends behind it. */
function common(one: string, other: string): readonly [before: number, after: number] {
  const least = Math.min(one.length, other.length);
  let before = 0;
  while (before < least && one[before] === other[before]) before += 1;
  let after = 0;
  while (
    after < least - before &&
    one[one.length - 1 - after] === other[other.length - 1 - after]
  ) {
    after += 1;
  }
  // Half of a surrogate pair is no character.
  if (/[\ud800-\udbff]/.test(one[before - 1] ?? "")) before -= 1;
  if (/[\udc00-\udfff]/.test(one[one.length - after] ?? "")) after -= 1;
  return [before, after];
}

/** A text with all its lines ending in `\n`, and the way back. */
type View = {
  readonly text: string;
  /** The place in the text as it is. */
  readonly raw: (at: number) => number;
  /** How most of its lines end. */
  readonly lineEnd: string;
};

function viewOf(raw: string): View {
  // The places, in the unified text, of the line ends that were two characters.
  const doubles: number[] = [];
  for (let at = raw.indexOf("\r\n"); at >= 0; at = raw.indexOf("\r\n", at + 2)) {
    doubles.push(at - doubles.length);
  }
  const text = unified(raw);
  const lineCount = text.split("\n").length - 1;
  return {
    text,
    raw: (at) => at + doubles.filter((double) => double < at).length,
    lineEnd: doubles.length * 2 > lineCount ? "\r\n" : "\n",
  };
}

function unified(text: string): string {
  return text.replaceAll("\r\n", "\n");
}

function refused(why: string, place: Refusal["place"]): Placement {
  return { kind: "refused", refusal: { why, place } };
}

/** By code units, the same on every machine. */
function compared(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
