import { fail, fault, ok, type Result } from "@dev/protocol";
import { isCrlf, latin1, splitLines } from "./lines.ts";

/** One hunk of a unified diff; texts are bytes as latin1, without line endings. */
export type Hunk = {
  /** Counted from 1; 0 for the old side of a new file. */
  readonly oldStart: number;
  readonly oldCount: number;
  readonly lines: readonly HunkLine[];
};

export type HunkLine = {
  readonly mark: " " | "-" | "+";
  readonly text: string;
  /** Whether `\ No newline at end of file` stands behind it. */
  readonly open: boolean;
};

/**
 * Reads a unified diff of one file. Its headers are skipped; the counts of a hunk must be those of its
 * lines, or the diff was cut or mistaken. Fault: `bad_call`.
 */
export function parseDiff(diff: string, path: string): Result<readonly Hunk[]> {
  const lines = splitLines(latin1(diff)).map((line) => line.replace(/\n$/, ""));
  const first = lines.findIndex((line) => line.startsWith("@@"));
  if (first === -1) return fail(bad(path, "the diff has no hunk"));
  // A diff that was itself turned into CR LF has one on its hunk headers too; git writes those with LF.
  const wide = lines[first]?.endsWith("\r") ?? false;
  const rest = lines.slice(first).map((line) => (wide ? line.replace(/\r$/, "") : line));
  if (lines.slice(0, first).some((line) => /^\+\+\+ \/dev\/null\r?$/.test(line))) {
    return fail(fault("unsupported", "the diff deletes the file", path, "use a command for that"));
  }
  const hunks: Hunk[] = [];
  let position = 0;
  while (position < rest.length) {
    const line = rest[position] ?? "";
    if (line === "" && rest.slice(position).every((blank) => blank === "")) break;
    const read = parseHunk(rest, position, path, hunks.length + 1);
    if (!read.ok) return read;
    hunks.push(read.value.hunk);
    position = read.value.end;
  }
  return ok(hunks);
}

/**
 * Applies hunks to a file's bytes (as latin1), all or none. A hunk's old lines must stand exactly at
 * the line it states, or else at exactly one other place; hunks stay in order. Line endings are the
 * file's own. Faults: `no_match`, `many_matches`.
 */
export function applyHunks(before: string, hunks: readonly Hunk[], path: string): Result<string> {
  const lines = splitLines(before);
  const crlf = isCrlf(before);
  let after = "";
  let done = 0;
  for (const [index, hunk] of hunks.entries()) {
    const where = placeOf(lines, hunk, done, { path, number: index + 1 });
    if (!where.ok) return where;
    const written = writeHunk(lines, hunk, where.value, crlf);
    const isLast = where.value + hunk.oldCount === lines.length;
    // Two lines would become one: behind an old last line, or by a mark that stands too early.
    if (written === null || (written !== "" && !written.endsWith("\n") && !isLast)) {
      const message = `hunk ${index + 1} has lines behind one that has no newline`;
      return fail(
        fault("no_match", message, path, "mark the last line: `\\ No newline at end of file`"),
      );
    }
    after += lines.slice(done, where.value).join("") + written;
    done = where.value + hunk.oldCount;
  }
  return ok(after + lines.slice(done).join(""));
}

const HUNK_HEADER = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

function parseHunk(
  lines: readonly string[],
  start: number,
  path: string,
  number: number,
): Result<{ readonly hunk: Hunk; readonly end: number }> {
  const header = HUNK_HEADER.exec(lines[start] ?? "");
  if (header === null) {
    const message = `line ${JSON.stringify(lines[start])} is no hunk header; a patch is of one file`;
    return fail(bad(path, message));
  }
  const oldCount = Number(header[2] ?? "1");
  const newCount = Number(header[4] ?? "1");
  const read: HunkLine[] = [];
  let olds = 0;
  let news = 0;
  let position = start + 1;
  for (; position < lines.length; position++) {
    const line = lines[position] ?? "";
    const last = read.at(-1);
    if (line.startsWith("\\") && last !== undefined) {
      read[read.length - 1] = { ...last, open: true };
      continue;
    }
    if (olds >= oldCount && news >= newCount) break;
    // Editors strip the blank off an empty line of context; it can be nothing else.
    const mark = line === "" || line === "\r" ? " " : line[0];
    if (mark !== " " && mark !== "-" && mark !== "+") break;
    if (mark !== "+") olds++;
    if (mark !== "-") news++;
    read.push({ mark, text: line.slice(line === "" || line === "\r" ? 0 : 1), open: false });
  }
  if (olds !== oldCount || news !== newCount) {
    const message = `hunk ${number} says ${oldCount} old and ${newCount} new lines, and has ${olds} and ${news}`;
    return fail(bad(path, message));
  }
  const hunk = { oldStart: Number(header[1]), oldCount, lines: read };
  return ok({ hunk, end: position });
}

type Which = { readonly path: string; readonly number: number };

function placeOf(lines: readonly string[], hunk: Hunk, from: number, which: Which): Result<number> {
  const old = hunk.lines.filter((line) => line.mark !== "+");
  // With no old line, the number is that of the line before it.
  const stated = old.length === 0 ? hunk.oldStart : hunk.oldStart - 1;
  if (stated >= from && stated + old.length <= lines.length && stands(lines, old, stated)) {
    return ok(stated);
  }
  const others: number[] = [];
  const last = old.length === 0 ? -1 : lines.length - old.length;
  for (let at = from; at <= last; at++) if (stands(lines, old, at)) others.push(at);
  const only = others[0];
  if (only !== undefined && others.length === 1) return ok(only);
  const mend = "read the file again, and make the diff from its text";
  if (only === undefined) {
    const message = `hunk ${which.number} does not match at line ${hunk.oldStart}, nor elsewhere`;
    return fail(fault("no_match", message, which.path, mend));
  }
  const places = others.map((at) => at + 1).join(", ");
  const message = `hunk ${which.number} does not match at line ${hunk.oldStart}, but at ${places}`;
  return fail(fault("many_matches", message, which.path, mend));
}

function stands(lines: readonly string[], old: readonly HunkLine[], at: number): boolean {
  return old.every((line, offset) => {
    const there = lines[at + offset] ?? "";
    const ending = endingOf(there);
    const text = there.slice(0, there.length - ending.length);
    if (text !== line.text && !(ending === "\r\n" && `${text}\r` === line.text)) return false;
    if (ending === "") return line.open || line.mark === " ";
    return !line.open;
  });
}

/** The hunk's new text; null when a line would be added to one that has no ending. */
function writeHunk(
  lines: readonly string[],
  hunk: Hunk,
  start: number,
  crlf: boolean,
): string | null {
  let text = "";
  let at = start;
  let ending = endingOf(lines[start - 1] ?? lines[start] ?? "") || (crlf ? "\r\n" : "\n");
  for (const line of hunk.lines) {
    if (line.mark === "+") {
      if (text !== "" ? !text.endsWith("\n") : start > 0 && !lines[start - 1]?.endsWith("\n")) {
        return null;
      }
      const bare = ending === "\r\n" ? line.text.replace(/\r$/, "") : line.text;
      text += bare + (line.open ? "" : ending);
      continue;
    }
    const own = lines[at] ?? "";
    at++;
    ending = endingOf(own) || ending;
    if (line.mark === " ") text += own;
  }
  return text;
}

function endingOf(line: string): "\r\n" | "\n" | "" {
  if (line.endsWith("\r\n")) return "\r\n";
  return line.endsWith("\n") ? "\n" : "";
}

function bad(path: string, message: string) {
  return fault("bad_call", message, path, "write a unified diff of this one file");
}
