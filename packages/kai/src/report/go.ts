import { posix } from "node:path";
import { failureLimit, failureOf, messageOf } from "./failure.ts";
import type { Failure, Report } from "./report.ts";
import { framesOf, type Mark, markOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";

const ended = /^(FAIL|ok {2}|---|\?\s*)\t(\S+)(?:\s+(.*))?$/;
const result = /^\s*--- (FAIL|PASS|SKIP): (\S+) \(\d[\d.]*s\)$/;
const event = /^\{"(?:Time|ImportPath|Action)":"/;

export function readsGo({ lines }: Transcript): boolean {
  return lines.some((line) => ended.test(line) || /^--- FAIL: /.test(line) || event.test(line));
}

/** Reads `go test`, `go test -v` and `go test -json`. */
export function readGo(transcript: Transcript, place: Place): Omit<Report, "runner"> {
  const { lines, structured } = unfolded(transcript.lines);
  const failures: Failure[] = [];
  let passedCount = 0;
  let counted = structured;
  let chunk: string[] = [];
  const built = lines.filter((line) => /^(?:\S+\.go|# \S+|.*\.go):?/.test(line));
  for (const line of lines) {
    const end = ended.exec(line);
    if (end === null) {
      chunk.push(line);
      continue;
    }
    const tests = testsOf(chunk);
    counted = counted || chunk.some((it) => it.startsWith("=== RUN "));
    passedCount += leaves(tests).filter((it) => it.result === "PASS").length;
    if (end[1] === "FAIL") {
      const name = end[2] ?? "";
      const broken = /\[(?:build|setup) failed\]/.test(end[3] ?? "");
      if (broken) failures.push(unbuilt(name, built, place));
      else failures.push(...failuresIn(name, tests, chunk, place));
    }
    chunk = [];
  }
  return {
    failures: failures.slice(0, failureLimit),
    passedCount: counted ? passedCount : null,
    failedCount: failures.length,
  };
}

/** The text that the events of `-json` hold, package by package; other output as it is. */
function unfolded(lines: readonly string[]): {
  readonly lines: readonly string[];
  readonly structured: boolean;
} {
  if (!lines.some((line) => event.test(line))) return { lines, structured: false };
  const texts = new Map<string, string[]>();
  for (const line of lines) {
    const said = event.test(line) ? outputOf(line) : { of: "", text: `${line}\n` };
    if (said === null) continue;
    const texts_ = texts.get(said.of);
    if (texts_ === undefined) texts.set(said.of, [said.text]);
    else texts_.push(said.text);
  }
  return { lines: [...texts.values()].flatMap((it) => it.join("").split("\n")), structured: true };
}

function outputOf(line: string): { readonly of: string; readonly text: string } | null {
  try {
    const { Package, ImportPath, Output } = JSON.parse(line) as Record<string, unknown>;
    if (typeof Output !== "string") return null;
    return { of: String(Package ?? ImportPath ?? ""), text: Output };
  } catch {
    // A line that was cut short, or that a test printed, says nothing.
    return null;
  }
}

type Test = { readonly name: string; result: "FAIL" | "PASS" | "SKIP" | null; lines: string[] };

/** What each test of a package printed, and how it ended: told after its end, or before it with `-v`. */
function testsOf(chunk: readonly string[]): readonly Test[] {
  const tests = new Map<string, Test>();
  const named = (name: string): Test => {
    const test = tests.get(name) ?? { name, result: null, lines: [] };
    tests.set(name, test);
    return test;
  };
  let current: Test | null = null;
  for (const line of chunk) {
    const begun = /^=== (?:RUN|NAME|CONT|PAUSE) +(\S+)$/.exec(line)?.[1];
    const end = result.exec(line);
    if (begun !== undefined) current = named(begun);
    else if (end !== null) {
      current = named(end[2] ?? "");
      current.result = end[1] === "FAIL" ? "FAIL" : end[1] === "PASS" ? "PASS" : "SKIP";
    } else if (/^(?:FAIL|PASS|exit status \d+)$/.test(line)) current = null;
    else current?.lines.push(line);
  }
  return [...tests.values()];
}

/** A test that only holds others is no test of its own. */
function leaves(tests: readonly Test[]): readonly Test[] {
  const parents = new Set(tests.map(({ name }) => name.slice(0, name.lastIndexOf("/"))));
  return tests.filter((test) => !parents.has(test.name));
}

function failuresIn(
  name: string,
  tests: readonly Test[],
  chunk: readonly string[],
  place: Place,
): readonly Failure[] {
  const panic = chunk.findIndex((line) => /^(?:panic|fatal error): /.test(line));
  const failed = tests.filter((test) => test.result === "FAIL" || isPanicked(test, panic >= 0));
  const parents = new Set(failed.map((it) => it.name.slice(0, it.name.lastIndexOf("/"))));
  const last = failed.filter((test) => !parents.has(test.name));
  if (last.length === 0)
    return [failureIn(name, "", panic < 0 ? chunk : chunk.slice(panic), place)];
  return last.map((test) => failureIn(name, test.name, test.lines, place));
}

/** A test that was running when the process ended in a panic has no end of its own. */
function isPanicked(test: Test, panicked: boolean): boolean {
  return panicked && test.result === null && test.lines.some((line) => /^panic: /.test(line));
}

function failureIn(name: string, test: string, lines: readonly string[], place: Place): Failure {
  const panic = lines.findIndex((line) => /^(?:panic|fatal error): /.test(line));
  const frames =
    panic < 0
      ? framesOf(lines, place, inPackage(name, place))
      : framesOf(lines.slice(panic), place, (line, before) =>
          line.startsWith("\t") ? markOf(line, before) : null,
        );
  const said = panic < 0 ? lines : [(lines[panic] ?? "").replace(/ \[recovered.*\]$/, "")];
  const message = messageOf(said, () => false).replace(/^\S+\.go:\d+: /, "");
  return failureOf({
    test: test === "" ? name : `${name}.${test}`,
    file: frames.find((it) => it.file.endsWith("_test.go"))?.file ?? null,
    kind: panic < 0 ? "assertion" : "error",
    message,
    frames,
  });
}

function unbuilt(name: string, built: readonly string[], place: Place): Failure {
  const from = built.findIndex((line) => line.startsWith(`# ${name}`));
  const rest = built.slice(from + 1);
  const to = rest.findIndex((line) => line.startsWith("# "));
  const lines = to < 0 ? rest : rest.slice(0, to);
  return failureOf({
    test: name,
    file: null,
    kind: "load",
    message: messageOf(lines, () => false).replaceAll(/^.*\.go:\d+(?::\d+)?: /gm, ""),
    frames: framesOf(lines, place),
  });
}

/** A test's own messages name files without their directory, which is the package's. */
function inPackage(name: string, place: Place): (line: string, before: string) => Mark | null {
  return (line) => {
    const where = /^\s+(\w[\w.-]*\.go):(\d+): /.exec(line);
    if (where === null) return null;
    const path = packageFile(name, where[1] ?? "", place);
    return { path, line: Number(where[2]), function: "", innermost: "first" };
  };
}

function packageFile(name: string, base: string, place: Place): string {
  const parts = name.split("/");
  for (let from = 0; from < parts.length; from += 1) {
    const path = posix.join(...parts.slice(from), base);
    if (place.workspace.files.has(path)) return path;
  }
  return fileOf(place, base) ?? base;
}
