import { failureLimit, failureOf, messageOf, outermost } from "./failure.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const started = /^\s*(?:RUN|DEV)\s+v\d+\.\d+/;
const tests = /^\s*Tests\s+(?:no tests|.*\(\d+\))$/;
const head = /^\s?FAIL\s+(?:\|[^|]*\|\s+)?(\S.*)$/;
const rule = /^⎯{3,}/;

export function readsVitest({ lines }: Transcript): boolean {
  return lines.some((line) => started.test(line));
}

export function readVitest(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines } = transcript;
  const failures: Failure[] = [];
  let titles: string[] = [];
  let body: string[] = [];
  const flush = (): void => {
    // Tests that fail alike are told by their names, one below the other, over one message.
    if (body.some((line) => line.trim() !== "")) {
      for (const title of titles) failures.push(failureIn(title, body, place));
      titles = [];
    }
    body = [];
  };
  for (const line of lines) {
    if (failures.length >= failureLimit) break;
    const title = head.exec(line)?.[1];
    if (title !== undefined) {
      flush();
      titles.push(title);
    } else if (rule.test(line)) {
      flush();
      titles = /Unhandled (?:Errors?|Rejections?)/.test(line) ? [""] : [];
    } else if (titles.length > 0) body.push(line);
  }
  flush();
  return { failures, ...countsOf(lines, failures) };
}

function failureIn(title: string, body: readonly string[], place: Place): Failure {
  const frames = framesOf(body, place);
  const suite = /^(\S.*) \[ .* \]$/.exec(title)?.[1];
  const at = title.indexOf(" > ");
  const written = suite ?? (at < 0 ? title : title.slice(0, at));
  const file = fileOf(place, written);
  const test = suite ?? (file === null || at < 0 ? title : title.slice(at + 3));
  return failureOf({
    test,
    file: file ?? outermost(frames),
    kind: suite === undefined ? null : "load",
    message: messageOf(body, (line) => /^\s*❯ |^\s+at |^\s*\d+\s*\|/.test(line)),
    frames,
  });
}

function countsOf(
  lines: readonly string[],
  failures: readonly Failure[],
): Pick<Report, "passedCount" | "failedCount"> {
  const line = lines.findLast((it) => tests.test(it));
  if (line === undefined) return { passedCount: null, failedCount: null };
  const unloaded = failures.filter((it) => it.kind === "load").length;
  return {
    passedCount: Number(/(\d+) passed/.exec(line)?.[1] ?? 0),
    failedCount: Number(/(\d+) failed/.exec(line)?.[1] ?? 0) + unloaded,
  };
}
