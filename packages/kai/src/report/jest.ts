import { failureLimit, failureOf, messageOf } from "./failure.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf, type Mark, markOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const tests = /^Tests: +.*\d+ total$/;
const head = /^ {2}● (\S.*)$/;
const unloaded = "Test suite failed to run";

export function readsJest({ lines }: Transcript): boolean {
  return lines.some((line) => tests.test(line));
}

export function readJest(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines } = transcript;
  const failures = new Map<string, Failure>();
  let file = "";
  let title: string | null = null;
  let body: string[] = [];
  const flush = (): void => {
    if (title === null || /^(?:Console|.*Warning:?$)/.test(title)) return;
    const failure = failureIn(title, file, body, place);
    // All failures are told again at the end of a longer run.
    const key = `${file}\n${title}`;
    if (!failures.has(key) && failures.size < failureLimit) failures.set(key, failure);
  };
  for (const line of lines) {
    const ran = /^\s?(?:PASS|FAIL)\s+(?:\S+ )??(\S+\.\w+)(?: \(.*\))?$/.exec(line)?.[1];
    const named = head.exec(line)?.[1];
    if (
      ran === undefined &&
      named === undefined &&
      !/^(?:Test Suites:|Summary of all)/.test(line)
    ) {
      body.push(line);
      continue;
    }
    flush();
    title = named ?? null;
    body = [];
    if (ran !== undefined) file = ran;
  }
  flush();
  return { failures: [...failures.values()], ...countsOf(lines, [...failures.values()]) };
}

function failureIn(title: string, file: string, body: readonly string[], place: Place): Failure {
  const load = title === unloaded;
  const details = body.findIndex((line) => /^\s+Details:$/.test(line));
  const lines = load ? body.slice(details + 1) : body;
  const known = fileOf(place, file);
  return failureOf({
    test: load ? (known ?? file) : title,
    file: known,
    kind: load ? "load" : null,
    message: messageOf(lines, (line) => /^\s*(?:>\s*)?\d+ \||^\s+at \S/.test(line)),
    frames: framesOf(lines, place, unnamed),
  });
}

/** The names of functions come from source maps here, and are often those of a property or a call. */
function unnamed(line: string, before: string): Mark | null {
  const mark = markOf(line, before);
  return mark === null ? null : { ...mark, function: "" };
}

function countsOf(
  lines: readonly string[],
  failures: readonly Failure[],
): Pick<Report, "passedCount" | "failedCount"> {
  const line = lines.findLast((it) => tests.test(it));
  if (line === undefined) return { passedCount: null, failedCount: null };
  const count = failures.filter((it) => it.kind === "load").length;
  return {
    passedCount: Number(/(\d+) passed/.exec(line)?.[1] ?? 0),
    failedCount: Number(/(\d+) failed/.exec(line)?.[1] ?? 0) + count,
  };
}
