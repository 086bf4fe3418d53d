import type { Report } from "../report/report.ts";
import type { Trigrams } from "./trigram.ts";

/** A line that spells something that a failure says. */
export type Echo = {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly needle: string;
  /** Between 0 and 1: what is found on one line alone says most. */
  readonly weight: number;
};

export const ECHO_LIMITS = {
  failureCount: 12,
  messageChars: 2_000,
  needleCount: 64,
  needleChars: 80,
  /** What is found on more lines says nothing. */
  lineCount: 60,
} as const;

/** The lines that spell the names and the quoted texts of a report's failures. */
export function echoes(index: Trigrams, report: Report): readonly Echo[] {
  const found: Echo[] = [];
  for (const needle of needles(report)) {
    const lines = index.lines(needle, ECHO_LIMITS.lineCount + 1);
    if (lines.length === 0 || lines.length > ECHO_LIMITS.lineCount) continue;
    const weight = 1 / Math.sqrt(lines.length);
    for (const { file, line } of lines) found.push({ file, line, needle, weight });
  }
  return found;
}

const QUOTED = /"([^"\n]{4,})"|'([^'\n]{4,})'|`([^`\n]{4,})`/g;
const NAME = /[A-Za-z_$][\w$]{3,}/g;
/** What runners and languages say of every failure. */
const COMMON: ReadonlySet<string> = new Set(
  `assert asserts assertion assertionerror error errors exception expected expect actual received
  true false null none undefined equal equals strict deep deepequal strictequal deepstrictequal
  tobe toequal test tests testing should with that this from have values where object array string
  number value code operator message stack function self left right panicked called result line
  file node main java python traceback most recent call last raise return typeerror valueerror
  indexerror keyerror nameerror attributeerror referenceerror rangeerror zerodivisionerror
  generatedmessage err_assertion diff`.split(/\s+/),
);

function needles(report: Report): readonly string[] {
  const found = new Set<string>();
  for (const failure of report.failures.slice(0, ECHO_LIMITS.failureCount)) {
    const said = failure.message.slice(0, ECHO_LIMITS.messageChars);
    for (const [, a, b, c] of said.matchAll(QUOTED)) {
      const text = (a ?? b ?? c ?? "").trim().slice(0, ECHO_LIMITS.needleChars);
      if (text.length > 3) found.add(text);
    }
    for (const [name] of `${failure.test} ${said}`.matchAll(NAME)) {
      if (!COMMON.has(name.toLowerCase())) found.add(name.slice(0, ECHO_LIMITS.needleChars));
    }
  }
  return [...found].slice(0, ECHO_LIMITS.needleCount);
}
