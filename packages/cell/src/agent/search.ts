import { spawn } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import { type Fault, fault, type Match, type Outcome, type SearchOp } from "@dev/protocol";
import type { Clock } from "./clock.ts";
import { errnoOf } from "./errno.ts";
import type { Tree } from "./tree.ts";

/** What one search gives. */
export const MATCH_LIMIT: number = 500;
/** Of a matching line, in characters. */
export const MATCH_TEXT_LIMIT: number = 400;
export const SEARCH_LIMIT_MS: number = 60_000;
/** Names that are looked through. */
export const NAME_LIMIT: number = 500_000;

/** ripgrep, and where it looks. */
export type SearchOptions = { readonly rg: string; readonly tree: Tree; readonly clock: Clock };

/**
 * Performs a `Search`, in path order. Hidden files are looked through and `.git` is not; files that
 * are ignored are not; a symbolic link is never followed. No match is an answer. Faults:
 * `bad_pattern`, `not_found`, `path_escape`, `limit`, `spawn`.
 */
export async function search(
  options: SearchOptions,
  op: SearchOp,
  signal: AbortSignal,
): Promise<Outcome> {
  const place = options.tree.locate(op.path, "refuse");
  if (!place.ok) return { kind: "failed", fault: place.fault };
  place.value.close();
  if (place.value.stats === null) {
    const missing = fault("not_found", "there is no such path", op.path, "search for its name");
    return { kind: "failed", fault: missing };
  }
  const { path } = place.value;
  const where = ["--", path === "." ? "./" : `./${path}`];
  const found =
    op.match === "text"
      ? await searchText(options, op, where, signal)
      : await searchNames(options, op, where, signal);
  if (found.stop === "cancelled") return { kind: "cancelled", known: "the search was stopped" };
  if (found.stop !== null) return { kind: "failed", fault: found.stop };
  return { kind: "ok", result: { kind: "search", matches: found.matches, cut: found.isCut } };
}

type Finding = {
  readonly matches: readonly Match[];
  readonly isCut: boolean;
  readonly stop: "cancelled" | Fault | null;
};

/** Sorted, so that the same files give the same answer, and the same first matches of too many. */
const COMMON = ["--no-config", "--color", "never", "--sort", "path"];
const WHICH = ["--hidden", "--no-ignore-global", "--no-ignore-parent"];

/** What ripgrep says in place of matches in a file that turned out to be no text. */
const BINARY = /: (binary file matches|WARNING: stopped searching binary file) /;

/** Of a long line the start is given, in more bytes than are shown of it. */
const PLAIN = [
  ...["--null", "--line-number", "--with-filename", "--no-heading"],
  ...["--max-columns", String(4 * MATCH_TEXT_LIMIT), "--max-columns-preview"],
];

async function searchText(
  options: SearchOptions,
  op: SearchOp,
  where: readonly string[],
  signal: AbortSignal,
): Promise<Finding> {
  const matches: Match[] = [];
  let isCut = false;
  /** What came before a NUL: a name may have a line break. */
  let begun = "";
  const args = [...COMMON, ...WHICH, ...PLAIN, ...globs(op), "-e", op.pattern, ...where];
  const run = await runRipgrep(options, args, "", signal, (line) => {
    const match = line === null ? null : readMatch(begun + line);
    if (match === null) {
      const isLeftOut = line === null || BINARY.test(line);
      isCut ||= isLeftOut;
      begun = isLeftOut ? "" : `${begun}${line}\n`;
      return true;
    }
    begun = "";
    isCut ||= matches.length === MATCH_LIMIT;
    if (matches.length < MATCH_LIMIT) matches.push(match);
    return !isCut;
  });
  return { matches, isCut, stop: await stopOf(options, op, run, matches.length > 0, signal) };
}

/** The names come from ripgrep, and are matched by it too: one dialect, and no pattern that hangs. */
async function searchNames(
  options: SearchOptions,
  op: SearchOp,
  where: readonly string[],
  signal: AbortSignal,
): Promise<Finding> {
  const names: string[] = [];
  let isCut = false;
  const listing = [...COMMON, ...WHICH, "--files", ...globs(op), ...where];
  const listed = await runRipgrep(options, listing, "", signal, (line) => {
    if (line !== null && names.length < NAME_LIMIT) names.push(line.replace(/^\.\//, ""));
    else isCut = true;
    return !isCut;
  });
  const matches: Match[] = [];
  const stop = await stopOf(options, op, listed, names.length > 0, signal);
  if (stop !== null) return { matches, isCut, stop };
  const filter = ["--no-config", "--color", "never", "-N", "-a", "-e", op.pattern, "-"];
  const run = await runRipgrep(options, filter, names.join("\n"), signal, (line) => {
    isCut ||= line === null || matches.length === MATCH_LIMIT;
    if (line !== null && matches.length < MATCH_LIMIT)
      matches.push({ path: line, line: 0, text: "" });
    return !isCut;
  });
  return { matches, isCut, stop: await stopOf(options, op, run, matches.length > 0, signal) };
}

function globs(op: SearchOp): readonly string[] {
  // The last glob that fits decides, so nobody's glob brings `.git` in.
  return [...(op.glob === "" ? [] : ["--glob", op.glob]), "--glob", "!.git"];
}

/** What went wrong, when the answer cannot be trusted for it. */
async function stopOf(
  options: SearchOptions,
  op: SearchOp,
  run: Run,
  hasMatches: boolean,
  signal: AbortSignal,
): Promise<Finding["stop"]> {
  switch (run.end) {
    case "cancelled":
      return "cancelled";
    case "late": {
      const mend = "name a path below it, or a glob";
      return fault("limit", `the search took more than ${SEARCH_LIMIT_MS} ms`, op.path, mend);
    }
    case "missing":
      return fault("spawn", `ripgrep did not start: ${run.words}`, options.rg, "install Dev again");
    case "failed":
      break;
    case "done":
      return null;
  }
  // It fails for a file that it may not read as it does for a pattern: nothing to read tells which.
  const probe = [...COMMON, ...globs(op), "-e", op.pattern, "-"];
  const pattern = await runRipgrep(options, probe, "", signal, () => true);
  if (pattern.end === "failed") {
    const mend = "mend the regular expression, in the syntax of Rust's regex";
    return fault("bad_pattern", pattern.words.trim(), op.pattern, mend);
  }
  return hasMatches ? null : fault("io", run.words.trim(), op.path);
}

type Run = {
  readonly end: "done" | "failed" | "late" | "cancelled" | "missing";
  /** What it said, shortened. */
  readonly words: string;
};

const WORDS_LIMIT = 2_000;

/** Runs ripgrep; `onLine` gets each line, null for one that is too long, and says whether to go on. */
async function runRipgrep(
  { rg, tree, clock }: SearchOptions,
  args: readonly string[],
  input: string,
  signal: AbortSignal,
  onLine: (line: string | null) => boolean,
): Promise<Run> {
  const child = spawn(rg, args, { cwd: tree.root, env: {}, stdio: "pipe" });
  let words = "";
  let end: Run["end"] | null = null;
  const stop = (why: Run["end"]) => {
    end ??= why;
    child.kill("SIGKILL");
  };
  const over = new AbortController();
  const cancel = () => stop("cancelled");
  if (signal.aborted) cancel();
  signal.addEventListener("abort", cancel, { once: true, signal: over.signal });
  void clock.sleep(SEARCH_LIMIT_MS, over.signal).then(() => {
    if (!over.signal.aborted) stop("late");
  });
  const lines = new LineSplitter();
  child.stdout.on("data", (chunk: Buffer) => {
    if (end !== null) return;
    for (const line of lines.push(chunk)) if (!onLine(line)) return stop("done");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    words = (words + chunk.toString()).slice(0, WORDS_LIMIT);
  });
  // It may end before it has read everything.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const exit = await new Promise<number | string | null>((resolve, reject) => {
    child.once("error", (error) => {
      const code = errnoOf(error);
      if (code === null) reject(error);
      else resolve(code);
    });
    child.once("close", resolve);
  });
  over.abort();
  if (typeof exit === "string") return { end: end ?? "missing", words: exit };
  return { end: end ?? (exit === 0 || exit === 1 ? "done" : "failed"), words };
}

/** A name, and the start of a line. */
const LINE_LIMIT = 1024 * 1024;

class LineSplitter {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #isTooLong = false;

  *push(chunk: Buffer): Generator<string | null> {
    const parts = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = parts.pop() ?? "";
    for (const part of parts) {
      yield this.#isTooLong || part.length > LINE_LIMIT ? null : part;
      this.#isTooLong = false;
    }
    if (this.#rest.length <= LINE_LIMIT) return;
    this.#isTooLong = true;
    this.#rest = "";
  }
}

/** One line of ripgrep's plain output, `name NUL line:text`; null when its NUL is still to come. */
function readMatch(line: string): Match | null {
  const end = line.indexOf("\0");
  const colon = line.indexOf(":", end);
  if (end < 0 || colon < 0) return null;
  const text = line.slice(colon + 1).replace(/\r$/, "");
  const isLong = text.length > MATCH_TEXT_LIMIT;
  return {
    path: line.slice(0, end).replace(/^\.\//, ""),
    line: Number(line.slice(end + 1, colon)),
    text: isLong ? `${text.slice(0, MATCH_TEXT_LIMIT).replace(/[\ud800-\udbff]$/, "")}…` : text,
  };
}
