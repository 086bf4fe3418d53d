import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import { pythonMessage } from "./python.ts";
import type { Failure, Frame } from "./report.ts";
import { framesOf, type Mark, markOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

type Reading = {
  readonly failures: readonly Failure[];
  readonly passedCount: number | null;
  readonly failedCount: number | null;
};

/** A failure's own part of the output, under a line such as `____ TestCalc.test_adds ____`. */
type Block = { readonly title: string; readonly lines: readonly string[] };
type Entry = { readonly word: "FAILED" | "ERROR"; readonly text: string };

const closing = /^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in \d[\d.:]*s\b/;

export function readsPytest({ lines }: Transcript): boolean {
  return lines.some(
    (line) =>
      /^={3,} (?:test session starts|FAILURES|ERRORS|short test summary info) =+$/.test(line) ||
      closing.test(line) ||
      /^ImportError while loading conftest/.test(line),
  );
}

export function readPytest(transcript: Transcript, place: Place): Reading {
  const { lines } = transcript;
  const { blocks, flat } = blocksOf(lines);
  const entries = entriesOf(lines);
  const told = new Set<Entry>();
  const failures: Failure[] = [];
  for (const block of blocks.slice(0, failureLimit)) {
    const entry = entries.find((it) => !told.has(it) && idOf(it, block) !== null);
    if (entry !== undefined) told.add(entry);
    failures.push(failureOfBlock(block, entry === undefined ? null : idOf(entry, block), place));
  }
  const rest = entries.filter((entry) => !told.has(entry)).slice(0, failureLimit);
  for (const [at, entry] of rest.entries()) {
    failures.push(failureOfEntry(entry, rest.length === flat.length ? flat[at] : undefined, place));
  }
  if (failures.length === 0) failures.push(...loadFailures(lines, place));
  return { failures: distinct(failures), ...countsOf(lines) };
}

const header = /^={3,} (.+?) =+$/;
const title = /^_+ (.*\S) _+$/;

function blocksOf(lines: readonly string[]): {
  readonly blocks: readonly Block[];
  readonly flat: readonly string[];
} {
  const blocks: { title: string; lines: string[] }[] = [];
  // With `--tb=line` there are no titles, and one line says each failure.
  const flat: string[] = [];
  let within = false;
  let captured = false;
  for (const line of lines) {
    const section = header.exec(line)?.[1];
    if (section !== undefined) {
      within = section === "FAILURES" || section === "ERRORS";
      continue;
    }
    if (!within) continue;
    const named = /^(?:_ )+_?$/.test(line) ? undefined : title.exec(line)?.[1];
    const block = blocks.at(-1);
    if (named !== undefined) {
      blocks.push({ title: named, lines: [] });
      captured = false;
    } else if (/^-{3,} Captured .* -{3,}$/.test(line)) captured = true;
    else if (captured) continue;
    else if (block !== undefined) block.lines.push(line);
    else if (/^\S.*:\d+: /.test(line)) flat.push(line);
  }
  return { blocks, flat };
}

function entriesOf(lines: readonly string[]): readonly Entry[] {
  const entries: Entry[] = [];
  let from = lines.length;
  while (from > 0 && !/^={3,} short test summary info =+$/.test(lines[from - 1] ?? "")) from -= 1;
  if (from === 0) return entries;
  for (const line of lines.slice(from)) {
    const match = /^(FAILED|ERROR) (\S.*)$/.exec(line);
    if (match === null) continue;
    entries.push({ word: match[1] === "ERROR" ? "ERROR" : "FAILED", text: match[2] ?? "" });
  }
  return entries;
}

const occasion = /^ERROR (?:at (?:setup|teardown) of|collecting) /;

/** The id in a line of the summary, if it is of the block's test: ids may hold what parts them from a message. */
function idOf(entry: Entry, block: Block): string | null {
  const name = block.title.replace(occasion, "");
  const { text } = entry;
  for (let at = text.indexOf(" - "); ; at = text.indexOf(" - ", at + 1)) {
    const id = at < 0 ? text : text.slice(0, at);
    const inner = id.indexOf("::");
    if (same(id, name) || (inner >= 0 && dotted(id.slice(inner + 2)) === name)) return id;
    if (at < 0) return null;
  }
}

/** The summary names a file from where pytest runs, and a title from its root. */
function same(id: string, name: string): boolean {
  return id === name || name.endsWith(`/${id}`) || id.endsWith(`/${name}`);
}

function dotted(id: string): string {
  const brackets = id.indexOf("[");
  if (brackets < 0) return id.replaceAll("::", ".");
  return id.slice(0, brackets).replaceAll("::", ".") + id.slice(brackets);
}

function failureOfBlock(block: Block, id: string | null, place: Place): Failure {
  const frames = pytestFrames(block.lines, place);
  const collecting = block.title.startsWith("ERROR collecting ");
  const name = block.title.replace(occasion, "");
  const file =
    id === null
      ? collecting
        ? fileOf(place, name)
        : outermost(frames)
      : fileOf(place, id.split("::", 1)[0] ?? "");
  const message = pytestMessage(block.lines);
  const brackets = name.indexOf("[");
  const head = brackets < 0 ? name : name.slice(0, brackets);
  const made = `${file ?? ""}::${head.replaceAll(".", "::")}${name.slice(head.length)}`;
  return failureOf({
    test: id ?? (collecting ? name : made),
    file,
    kind: collecting ? "load" : block.title.startsWith("ERROR at ") ? "error" : null,
    message,
    frames,
  });
}

/** pytest's long style writes a place under the code, and the function in the code. */
export function pytestFrames(lines: readonly string[], place: Place): readonly Frame[] {
  let name = "";
  const match = (line: string, before: string): Mark | null => {
    const named = /^[ >]\s+(?:async )?def (\w+)\(/.exec(line)?.[1];
    if (named !== undefined) name = named;
    const where = /^(\S[^:]{0,400}):(\d{1,7}): (?:[\w.]+)?$/.exec(line);
    if (where === null) return /^(?:E\s|\s|\S.*: in )/.test(line) ? traced(line, before) : null;
    const mark = { path: where[1] ?? "", line: Number(where[2]), function: name } as const;
    name = "";
    return { ...mark, innermost: "last" };
  };
  return framesOf(lines, place, match);
}

/** Lines of code and of messages name places too; only those that Python's traces name are frames. */
function traced(line: string, before: string): Mark | null {
  const mark = markOf(line, before);
  return mark?.innermost === "last" ? mark : null;
}

export function pytestMessage(lines: readonly string[]): string {
  let from = lines.length;
  while (from > 0 && !/^E(?:\s|$)/.test(lines[from - 1] ?? "")) from -= 1;
  if (from === 0) return pythonMessage(lines);
  const to = from;
  while (from > 0 && /^E(?:\s|$)/.test(lines[from - 1] ?? "")) from -= 1;
  const said = lines.slice(from, to).map((line) => line.slice(1));
  const named = said.findIndex((line) =>
    /^\s+[\w.]+(?:Error|Exception|Warning|Interrupt|Exit)\b/.test(line),
  );
  return messageOf(said.slice(Math.max(named, 0)), () => false);
}

function failureOfEntry(entry: Entry, flat: string | undefined, place: Place): Failure {
  const at = partedAt(entry.text);
  const id = at < 0 ? entry.text : entry.text.slice(0, at);
  const short = at < 0 ? "" : entry.text.slice(at + 3);
  const where = flat === undefined ? null : /^(\S.*?):(\d+): (.*)$/.exec(flat);
  const file = fileOf(place, id.split("::", 1)[0] ?? "");
  const near = where === null ? null : fileOf(place, where[1] ?? "");
  return failureOf({
    test: id,
    file,
    kind: entry.word === "ERROR" ? (id.includes("::") ? "error" : "load") : null,
    message: where?.[3] ?? short,
    frames: near === null ? [] : [{ file: near, line: Number(where?.[2]), function: "" }],
  });
}

/** Where a message begins after an id: parameters in brackets may hold the same three characters. */
function partedAt(text: string): number {
  const first = text.indexOf(" - ");
  const opened = text.indexOf("[");
  if (first < 0 || opened < 0 || opened > first) return first;
  const closed = text.indexOf("] - ", opened);
  if (closed >= 0) return closed + 1;
  return text.endsWith("]") ? -1 : first;
}

function loadFailures(lines: readonly string[], place: Place): readonly Failure[] {
  const from = lines.findIndex((line) => /^ImportError while loading conftest/.test(line));
  const said = lines.findLast((line) => line.startsWith("ERROR: "));
  if (from < 0 && said === undefined) return [];
  const body = from < 0 ? [] : lines.slice(from);
  const frames = pytestFrames(body, place);
  const message = from < 0 ? (said ?? "").slice("ERROR: ".length) : pytestMessage(body);
  return [failureOf({ test: "", file: outermost(frames), kind: "load", message, frames })];
}

/** A test whose call and whose teardown fail is told twice. */
function distinct(failures: readonly Failure[]): readonly Failure[] {
  const seen = new Map<string, Failure>();
  for (const failure of failures) {
    const before = seen.get(failure.test);
    if (before === undefined || before.kind === "error") seen.set(failure.test, failure);
  }
  return [...seen.values()];
}

function countsOf(lines: readonly string[]): Pick<Reading, "passedCount" | "failedCount"> {
  const line = lines.findLast((it) => closing.test(it));
  if (line === undefined) return { passedCount: null, failedCount: null };
  const count = (word: RegExp): number => Number(word.exec(line)?.[1] ?? 0);
  return {
    passedCount: count(/(\d+) passed/),
    failedCount: count(/(\d+) failed/) + count(/(\d+) errors?/),
  };
}
