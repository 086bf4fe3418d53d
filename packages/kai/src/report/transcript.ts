import type { Output } from "./report.ts";

/** What a command has written, made readable: no colours, no overwritten progress, no NUL, clipped. */
export type Transcript = {
  /** What came on stdout, then what came on stderr. */
  readonly lines: readonly string[];
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  readonly end: Output["end"];
};

/** Of each stream so much is read: its beginning, and three times as much of its end. */
export const streamLimit = 2_000_000;
export const lineCountLimit = 40_000;
export const lineLimit = 4_000;
const headLimit = streamLimit / 4;

export function transcriptOf(output: Output): Transcript {
  const stdout = linesOf(output.stdout);
  const stderr = linesOf(output.stderr);
  return { lines: [...stdout, ...stderr], stdout, stderr, end: output.end };
}

const esc = String.fromCharCode(27);
const bell = String.fromCharCode(7);
const sequences = new RegExp(
  `${esc}(?:\\[[0-?]{0,64}[ -/]{0,8}[@-~]|\\][^${bell}${esc}\\n]{0,2000}(?:${bell}|${esc}\\\\)|[@-Z\\\\-_])`,
  "g",
);
/** All control characters but the tab and the ends of lines. */
const controls = /[^\P{Cc}\t\n\r]/gu;

/** A text with the sequences that colour a terminal or move its cursor taken out. */
function uncoloured(text: string): string {
  return text.includes(esc) ? text.replaceAll(sequences, "") : text;
}

function linesOf(whole: string): readonly string[] {
  const clipped =
    whole.length <= streamLimit
      ? whole
      : `${whole.slice(0, headLimit)}\n${whole.slice(headLimit - streamLimit)}`;
  const text = uncoloured(clipped).replaceAll(controls, "");
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const head = lineCountLimit / 4;
  const kept =
    lines.length <= lineCountLimit
      ? lines
      : [...lines.slice(0, head), ...lines.slice(head - lineCountLimit)];
  return kept.map(shown);
}

/** A line as a terminal would show it: what follows a carriage return has overwritten what it follows. */
function shown(line: string): string {
  let text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const from = text.lastIndexOf("\r");
  if (from >= 0) text = text.slice(from + 1);
  return text.length <= lineLimit ? text : text.slice(0, lineLimit);
}
