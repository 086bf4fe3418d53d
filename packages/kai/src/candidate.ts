/** A replacement in one file, in UTF-16 units of its text, as JavaScript counts them. */
export type Edit = {
  /** Relative to the workspace, with `/`. */
  readonly file: string;
  readonly from: number;
  readonly to: number;
  readonly text: string;
};

/** Where a candidate changes something. */
export type Site = {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  /** The innermost function that holds it; null at the top of a file. */
  readonly function: string | null;
};

/** A change that might be the fix; nothing has been run yet. */
export type Candidate = {
  /** Never empty; they do not overlap, and are in order of file and place. */
  readonly edits: readonly Edit[];
  /** What kind of change it is, such as `comparison-flip`. */
  readonly operator: string;
  readonly site: Site;
  /** How likely it is, against the others of the same run; higher is tried first. */
  readonly weight: number;
};

/** A file's text with a candidate's edits to it made. */
export function edited(text: string, file: string, edits: readonly Edit[]): string {
  let made = "";
  let at = 0;
  for (const edit of edits) {
    if (edit.file !== file) continue;
    if (edit.from < at || edit.to < edit.from || edit.to > text.length) {
      throw new Error(`edits of ${file} overlap, or leave it`);
    }
    made += text.slice(at, edit.from) + edit.text;
    at = edit.to;
  }
  return made + text.slice(at);
}
