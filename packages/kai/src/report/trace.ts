import type { Frame } from "./report.ts";
import { fileOf, type Place } from "./workspace.ts";

/** A place in some file, as one line of a stack trace names it. */
export type Mark = {
  readonly path: string;
  readonly line: number;
  readonly function: string;
  /** Python writes the innermost call last; the others write it first. */
  readonly innermost: "first" | "last";
};

export const frameLimit = 40;
/** Of a longer trace its two ends are read: a run-away recursion says the same in its middle. */
const traceLimit = 4_000;

type Match = (line: string, before: string) => Mark | null;

/** The frames of a failure that lie in the workspace, the innermost first. */
export function framesOf(
  lines: readonly string[],
  place: Place,
  match: Match = markOf,
): readonly Frame[] {
  const read = lines.length <= traceLimit ? lines : ends(lines);
  let found: Frame[] = [];
  let run: Frame[] = [];
  for (const [at, line] of read.entries()) {
    if (chained.test(line)) {
      // An exception that came of another is told after it, and is the nearer one.
      found = [...run.reverse(), ...found];
      run = [];
    }
    const mark = match(line, read[at - 1] ?? "");
    if (mark === null) continue;
    const file = fileOf(place, mark.path);
    if (file === null) continue;
    const frame = { file, line: mark.line, function: bare(mark.function) };
    (mark.innermost === "last" ? run : found).push(frame);
  }
  return distinct([...run.reverse(), ...found]).slice(0, frameLimit);
}

const chained =
  /^(?:The above exception was the direct cause|During handling of the above exception|Traceback \(most recent)/;

function ends(lines: readonly string[]): readonly string[] {
  return [...lines.slice(0, traceLimit / 2), ...lines.slice(-traceLimit / 2)];
}

function distinct(frames: readonly Frame[]): readonly Frame[] {
  const seen = new Map<string, Frame>();
  for (const frame of frames) {
    const key = `${frame.file}:${frame.line}`;
    const before = seen.get(key);
    if (before === undefined || (before.function === "" && frame.function !== "")) {
      seen.set(key, frame);
    }
  }
  return [...seen.values()];
}

/** A function's own name: with no module, class or receiver, and empty where it has none. */
function bare(name: string): string {
  const own = name
    .replace(/ \[as .*$/, "")
    .replace(/^(?:async|new) /, "")
    .replace(/\((?:\.\.\.|0x|\{|\)).*$/, "")
    .trim();
  const last = own.split(/\.|::|#/).at(-1) ?? "";
  return /^[\p{L}\p{N}_$]+$/u.test(last) ? last : "";
}

const path = String.raw`((?:file:\/\/)?[^\s()<>"'\`,;|]{1,400}?)`;
const patterns: readonly {
  readonly pattern: RegExp;
  readonly read: (groups: readonly string[], before: string) => Mark;
}[] = [
  {
    pattern: /^(?:E\s+|\s*)File "([^"]{1,400})", line (\d{1,7})(?:, in (.{1,200}))?/,
    read: ([file = "", line, name = ""]) => mark(file, line, name, "last"),
  },
  {
    // pytest's short style.
    pattern: new RegExp(String.raw`^${path}:(\d{1,7}): in (.{1,200})$`),
    read: ([file = "", line, name = ""]) => mark(file, line, name, "last"),
  },
  {
    pattern:
      /^\s*at (?:[\w.-]+(?:@[\w.-]*)?\/+)*([\w.$<>]{1,300})\(([\w$.-]{1,200}\.(?:java|kt|scala|groovy)):(\d{1,7})\)/,
    read: ([name = "", file = "", line]) => mark(inPackage(name, file), line, name, "first"),
  },
  {
    pattern: /^\s*(?:at )?(\S.{0,200}?) \(([^()]{1,400}?):(\d{1,7}):\d{1,7}\)/,
    read: ([name = "", file = "", line]) => mark(file, line, name, "first"),
  },
  {
    pattern: new RegExp(String.raw`^\s*❯ (?:(\S.{0,200}) )?${path}:(\d{1,7}):\d{1,7}$`),
    read: ([name = "", file = "", line]) => mark(file, line, name, "first"),
  },
  {
    pattern: /^\s*at (?:async )?([^()]{1,400}?):(\d{1,7}):\d{1,7}\)?(?: \{)?$/,
    read: ([file = "", line], before) =>
      mark(file, line, before.match(/^\s*\d+: (\S+)$/)?.[1] ?? "", "first"),
  },
  {
    // Go writes the function on the line before.
    pattern: /^\t(\S{1,400}\.go):(\d{1,7})(?: \+0x[0-9a-f]+)?$/,
    read: ([file = "", line], before) => mark(file, line, before, "first"),
  },
  {
    pattern: /^\s*SyntaxError: ([^\s:]{1,400}): .{0,300}\((\d{1,7}):\d{1,7}\)/,
    read: ([file = "", line]) => mark(file, line, "", "first"),
  },
  {
    pattern: new RegExp(String.raw`(?:^|[\s("'\`\[])${path}:\[?(\d{1,7})(?![\w.])`),
    read: ([file = "", line]) => mark(file, line, "", "first"),
  },
];

/** The place that a line of a stack trace or of a compiler's message names, whichever language wrote it. */
export function markOf(line: string, before: string): Mark | null {
  const text = line.length > markedLimit ? line.slice(0, markedLimit) : line;
  for (const { pattern, read } of patterns) {
    const groups = pattern.exec(text);
    if (groups !== null) return read(groups.slice(1), before);
  }
  return null;
}

const markedLimit = 700;

function mark(
  file: string,
  line: string | undefined,
  name: string,
  innermost: "first" | "last",
): Mark {
  return { path: file.replace(/^\[?\.\//, ""), line: Number(line), function: name, innermost };
}

/** Java names a class with its package and a file without. */
function inPackage(name: string, file: string): string {
  const parts = name.split(".").slice(0, -2);
  return [...parts, file].join("/");
}
