import { failureLimit, failureOf, outermost } from "./failure.ts";
import { pythonMessage } from "./python.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const ran = /^Ran (\d+) tests? in \d/;

export function readsUnittest({ lines }: Transcript): boolean {
  return lines.some((line) => ran.test(line));
}

export function readUnittest(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines } = transcript;
  const failures: Failure[] = [];
  let at = 0;
  while (at < lines.length && failures.length < failureLimit) {
    const head = /^(FAIL|ERROR): (.+)$/.exec(lines[at] ?? "");
    if (head === null || !/^={60,}$/.test(lines[at - 1] ?? "")) {
      at += 1;
      continue;
    }
    const rest = lines.slice(at + 1);
    const rule = rest.findIndex((line) => /^-{60,}$/.test(line));
    const body = rest.slice(rule + 1);
    const end = body.findIndex((line) => /^(?:={60,}|-{60,})$/.test(line));
    failures.push(failureIn(head[2] ?? "", end < 0 ? body : body.slice(0, end), place));
    at += 1;
  }
  return { failures, ...countsOf(lines) };
}

function failureIn(title: string, body: readonly string[], place: Place): Failure {
  const match = /^(\S+) \(([\w.]+)\)/.exec(title);
  const [name, within] = [match?.[1] ?? title, match?.[2] ?? ""];
  const loading = within.startsWith("unittest.loader._FailedTest");
  const whole = within === "" || within.endsWith(`.${name}`) ? within : `${within}.${name}`;
  const frames = framesOf(body, place);
  const test = loading ? name : whole || name;
  return failureOf({
    test,
    file: moduleFile(test, place) ?? outermost(frames),
    kind: loading ? "load" : null,
    message: pythonMessage(body),
    frames,
  });
}

function moduleFile(test: string, place: Place): string | null {
  const parts = test.split(".");
  for (let count = parts.length; count > 0; count -= 1) {
    const file = fileOf(place, `${parts.slice(0, count).join("/")}.py`);
    if (file !== null) return file;
  }
  return null;
}

function countsOf(lines: readonly string[]): Pick<Report, "passedCount" | "failedCount"> {
  const at = lines.findLastIndex((line) => ran.test(line));
  if (at < 0) return { passedCount: null, failedCount: null };
  const all = Number(ran.exec(lines[at] ?? "")?.[1]);
  const line = lines.slice(at).find((it) => /^(?:OK|FAILED)\b/.test(it)) ?? "";
  let [failed, other] = [0, 0];
  for (const [, word = "", count = ""] of line.matchAll(/([a-z ]+)=(\d+)/g)) {
    if (/^\s*(?:failures|errors|unexpected successes)$/.test(word)) failed += Number(count);
    else other += Number(count);
  }
  return { passedCount: Math.max(0, all - failed - other), failedCount: failed };
}
