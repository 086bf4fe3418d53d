import { type Edit, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { isCrlf, latin1, lineAt, toCrlf } from "./lines.ts";

/** One patch's edits. */
export const EDITS_LIMIT: number = 1_000;

/**
 * Applies edits to a file's bytes (as latin1): each `old` must stand in `before` exactly once, and no
 * two may overlap. A file of CR LF lines is matched when the model writes LF, as models do; nothing
 * else is forgiven. Faults: `no_match`, `many_matches`, `bad_call`.
 */
export function applyEdits(before: string, edits: readonly Edit[], path: string): Result<string> {
  if (edits.length === 0 || edits.length > EDITS_LIMIT) {
    return fail(fault("bad_call", `${edits.length} edits, not 1 to ${EDITS_LIMIT}`, path));
  }
  const crlf = isCrlf(before);
  const changes: Replacement[] = [];
  for (const [index, edit] of edits.entries()) {
    const found = findEdit(before, edit, crlf, { path, number: index + 1 });
    if (!found.ok) return found;
    changes.push(found.value);
  }
  changes.sort((a, b) => a.start - b.start);
  let after = "";
  let done = 0;
  for (const change of changes) {
    if (change.start < done) {
      const message = `two edits overlap at line ${lineAt(before, change.start)}`;
      return fail(fault("bad_call", message, path, "make one edit of them"));
    }
    after += before.slice(done, change.start) + change.text;
    done = change.end;
  }
  return ok(after + before.slice(done));
}

type Replacement = { readonly start: number; readonly end: number; readonly text: string };
type Which = { readonly path: string; readonly number: number };

function findEdit(before: string, edit: Edit, crlf: boolean, which: Which): Result<Replacement> {
  const old = latin1(edit.old);
  const fresh = latin1(edit.new);
  if (old === "") {
    const message = `edit ${which.number} has no old text`;
    return fail(
      fault("bad_call", message, which.path, "name a text to replace, or write the file"),
    );
  }
  const freshCrlf = fresh.includes("\r") ? fresh : toCrlf(fresh);
  const candidates: Replacement[] = [];
  const bare = old.includes("\n") && !old.includes("\r");
  if (!(crlf && bare)) {
    for (const start of positionsOf(before, old)) {
      // An LF that is the second half of a CR LF is not the line ending that was meant.
      if (bare && old.startsWith("\n") && before[start - 1] === "\r") continue;
      candidates.push({ start, end: start + old.length, text: crlf ? freshCrlf : fresh });
    }
  }
  if (bare) {
    const wide = toCrlf(old);
    for (const start of positionsOf(before, wide)) {
      candidates.push({ start, end: start + wide.length, text: freshCrlf });
    }
  }
  const only = candidates[0];
  if (only === undefined) return fail(noMatch(before, edit.old, which));
  if (candidates.length > 1) return fail(manyMatches(before, candidates, which));
  return ok(only);
}

/** Every place, overlapping ones too: text that stands there twice is not exactly once. */
function* positionsOf(text: string, part: string): Generator<number> {
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) yield at;
}

const MATCHES_SHOWN = 10;

function manyMatches(before: string, found: readonly Replacement[], which: Which): Fault {
  const lines = found.slice(0, MATCHES_SHOWN).map((match) => lineAt(before, match.start));
  const more = found.length > MATCHES_SHOWN ? ", …" : "";
  const message = `edit ${which.number}: its old text stands there ${found.length} times, at lines ${lines.join(", ")}${more}`;
  return fault(
    "many_matches",
    message,
    which.path,
    "add lines around it, so that it is the only one",
  );
}

function noMatch(before: string, old: string, which: Which): Fault {
  const message = `edit ${which.number}: its old text does not stand there${nearestHint(before, old)}`;
  return fault("no_match", message, which.path, "read the file again, and copy its text exactly");
}

const HINT_LENGTH = 120;

/** Where the first line of the old text nearly stands: white space apart, or by its first half. */
function nearestHint(before: string, old: string): string {
  const first = old.split("\n").find((line) => line.trim() !== "");
  if (first === undefined) return "";
  const wanted = squeeze(first);
  const half = wanted.slice(0, Math.ceil(wanted.length / 2));
  let near: string | null = null;
  for (const [index, bytes] of before.split("\n").entries()) {
    const line = Buffer.from(bytes, "latin1").toString();
    const squeezed = squeeze(line);
    const shown = `line ${index + 1}: ${JSON.stringify(line.slice(0, HINT_LENGTH))}`;
    if (squeezed === wanted) {
      const exact = line.replace(/\r$/, "") === first.replace(/\r$/, "");
      return exact
        ? `; its first line is ${shown}, and a later line differs`
        : `; but for white space it begins at ${shown}`;
    }
    if (near === null && squeezed.includes(half)) near = shown;
  }
  return near === null ? "" : `; the nearest is ${near}`;
}

function squeeze(line: string): string {
  return line.replace(/\s+/g, " ").trim();
}
