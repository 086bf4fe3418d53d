import type { Failure, Frame } from "./report.ts";

export const failureLimit = 500;
export const messageLimit = 2_000;
export const messageLineLimit = 30;
const nameLimit = 1_000;

/** A failure whose parts are clipped, and whose kind is told by its message where it is not known. */
export function failureOf(parts: {
  readonly test: string;
  readonly file: string | null;
  readonly kind: Failure["kind"] | null;
  readonly message: string;
  readonly frames: readonly Frame[];
}): Failure {
  const lines = parts.message.split("\n", messageLineLimit + 1).slice(0, messageLineLimit);
  const message = lines
    .map((line) => line.trimEnd())
    .join("\n")
    .trim()
    .slice(0, messageLimit);
  return {
    test: parts.test.slice(0, nameLimit),
    file: parts.file,
    kind: parts.kind ?? kindOf(message),
    message,
    frames: parts.frames,
  };
}

const asserted =
  /^\s*(?:[\w.]*Assert\w*|assert\b|assertion\b|expect\(|Failed: |Expectation|comparison failed)|ERR_ASSERTION/i;
const unread =
  /^(?:\w*SyntaxError|IndentationError|TabError|ModuleNotFoundError|ImportError|(?:Error(?: \[\w+\])?: )?Cannot find (?:module|package))|ERR_MODULE_NOT_FOUND/;

/** What kind of failure a message tells of. */
export function kindOf(message: string): Failure["kind"] {
  const first = message.split("\n", 1)[0] ?? "";
  if (unread.test(first)) return "load";
  return asserted.test(first) ? "assertion" : "error";
}

/** Lines with the indentation that they share taken off, up to the first that ends a message. */
export function messageOf(lines: readonly string[], ends: (line: string) => boolean): string {
  const kept: string[] = [];
  for (const line of lines) {
    if (ends(line) || kept.length >= messageLineLimit) break;
    if (kept.length > 0 || line.trim() !== "") kept.push(line);
  }
  const indents = kept.filter((line) => line.trim() !== "").map((line) => line.search(/\S/));
  const least = Math.min(...indents);
  return kept.map((line) => line.slice(Number.isFinite(least) ? least : 0)).join("\n");
}

/** The file of the outermost frame: of the test, where nothing names it better. */
export function outermost(frames: readonly Frame[]): string | null {
  return frames.at(-1)?.file ?? null;
}
