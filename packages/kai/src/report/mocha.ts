import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import type { Place } from "./workspace.ts";

const passing = /^\s+(\d+) passing\b/;
const failing = /^\s+(\d+) failing$/;

export function readsMocha({ lines }: Transcript): boolean {
  return lines.some((line) => passing.test(line));
}

/** Reads mocha's reporters that end in a list of failures: `spec`, `dot`, `min`, `list` and others. */
export function readMocha({ lines }: Transcript, place: Place): Omit<Report, "runner"> {
  const failures: Failure[] = [];
  const from = lines.findLastIndex((line) => failing.test(line));
  let block: string[] = [];
  const flush = (): void => {
    if (block.length > 0 && failures.length < failureLimit) failures.push(failureIn(block, place));
  };
  let next = 1;
  for (const line of from < 0 ? [] : lines.slice(from + 1)) {
    const title = /^ {2}(\d+)\) (\S.*)$/.exec(line);
    if (title !== null && Number(title[1]) === next) {
      flush();
      block = [title[2] ?? ""];
      next += 1;
    } else if (block.length > 0) block.push(line);
  }
  flush();
  const passed = lines.findLast((line) => passing.test(line));
  return {
    failures,
    passedCount: passed === undefined ? null : Number(passing.exec(passed)?.[1]),
    failedCount:
      passed === undefined ? null : from < 0 ? 0 : Number(failing.exec(lines[from] ?? "")?.[1]),
  };
}

/** A test is named by its own title below those of its suites; the last ends in a colon. */
function failureIn(block: readonly string[], place: Place): Failure {
  const end = block.findIndex(
    (line, at) => line.endsWith(":") && !/^ {7}/.test(block[at + 1] ?? ""),
  );
  const last = Math.max(end, 0);
  const titles = block.slice(0, last + 1).map((line) => line.trim());
  const body = block.slice(last + 1);
  const frames = framesOf(body, place);
  return failureOf({
    test: titles.join(" ").replace(/:$/, ""),
    file: outermost(frames),
    kind: null,
    message: messageOf(body, (line) => /^\s+at .*[:)]/.test(line)),
    frames,
  });
}
