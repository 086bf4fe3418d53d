import { failureLimit, failureOf, kindOf, messageOf, outermost } from "./failure.ts";
import { pytestFrames, pytestMessage } from "./pytest.ts";
import type { Failure, Report, Runner } from "./report.ts";
import { framesOf } from "./trace.ts";
import type { Transcript } from "./transcript.ts";
import { fileOf, type Place } from "./workspace.ts";
import { type Element, elements } from "./xml.ts";

const told =
  /^\[ERROR\]\s+(?!Tests run:)(\S.*?)(?: --)?\s+Time elapsed: [\d.,]+ s(?:ec)?\s+<<< (FAILURE|ERROR)!/;

export function readsJunit({ lines }: Transcript): boolean {
  return lines.some((line) => /<testsuites?[\s>]/.test(line));
}

export function readsSurefire({ lines }: Transcript): boolean {
  return lines.some((line) => told.test(line));
}

type Case = {
  readonly name: string;
  readonly suites: readonly string[];
  readonly of: string;
  readonly file: string;
};
type Result = { readonly kind: "failure" | "error"; message: string; text: string; type: string };

/** Reads JUnit's XML, of which every runner writes a dialect of its own. */
export function readJunit(
  transcript: Transcript,
  place: Place,
  runner: Runner,
): Omit<Report, "runner"> {
  const failures: Failure[] = [];
  const suites: string[] = [];
  let [passed, failed] = [0, 0];
  let current: Case | null = null;
  let result: Result | null = null;
  let skipped = false;
  for (const it of elements(transcript.lines.join("\n"))) {
    if (it.name === "testsuite") {
      if (it.kind === "open") suites.push(it.attributes.get("name") ?? "");
      else if (it.kind === "close") suites.pop();
    } else if (it.name === "testcase") {
      if (it.kind !== "close") [current, result, skipped] = [caseOf(it, suites), null, false];
      if (it.kind === "open") continue;
      if (current === null || skipped) continue;
      if (result === null) passed += 1;
      else {
        failed += 1;
        if (failures.length < failureLimit)
          failures.push(failureIn(current, result, place, runner));
      }
      current = null;
    } else if (it.name === "skipped") skipped = true;
    else if (it.name === "failure" || it.name === "error") {
      if (it.kind === "close") {
        if (result !== null && result.text === "") result.text = it.text;
      } else result ??= resultOf(it);
    }
  }
  return { failures, passedCount: passed, failedCount: failed };
}

function caseOf({ attributes }: Element, suites: readonly string[]): Case {
  return {
    name: attributes.get("name") ?? "",
    suites: [...suites],
    of: attributes.get("classname") ?? "",
    file: attributes.get("file") ?? "",
  };
}

function resultOf(it: Element): Result {
  return {
    kind: it.name === "failure" ? "failure" : "error",
    message: it.attributes.get("message") ?? "",
    text: "",
    type: it.attributes.get("type") ?? "",
  };
}

function failureIn(test: Case, result: Result, place: Place, runner: Runner): Failure {
  const lines = result.text.split("\n");
  const frames = runner === "pytest" ? pytestFrames(lines, place) : framesOf(lines, place);
  const { name, file } = namedIn(test, place, runner);
  const own = runner === "pytest" ? pytestMessage(lines) : result.message;
  const said = own || messageOf(lines, (line) => /^\s+at |^\s*❯ /.test(line));
  const typed = `${result.type}: ${said}`;
  const collected = runner === "pytest" && /^collection failure/.test(said);
  return failureOf({
    test: name,
    file: fileOf(place, test.file) ?? file ?? outermost(frames),
    kind: collected ? "load" : kindIn(said, result),
    message:
      /^[\w.]*(?:Error|Exception)$/.test(result.type) && !said.includes(result.type) ? typed : said,
    frames,
  });
}

/** What was thrown says it: node:test wraps that in an error of its own, and others put it into the type. */
function kindIn(said: string, { kind, type, text }: Result): Failure["kind"] {
  const typed = /(?:Error|Exception)$/.test(type) ? type : undefined;
  const thrown =
    /\[?\bcause\]?: ([\w.]+)/.exec(text)?.[1] ??
    typed ??
    /^([\w.$]*(?:Error|Exception))\b(?! \[ERR_TEST)/m.exec(text)?.[1];
  if (thrown !== undefined) return kindOf(`${thrown}: `.replace(/^.*\./, ""));
  return kind === "error" ? "error" : kindOf(said);
}

/** How the runner itself would name a test that its XML takes apart. */
function namedIn(
  test: Case,
  place: Place,
  runner: Runner,
): { readonly name: string; readonly file: string | null } {
  switch (runner) {
    case "pytest":
      return pytestName(test, place);
    case "node-test":
      return { name: [...test.suites, test.name].join(" > "), file: null };
    case "vitest":
      return { name: test.name, file: fileOf(place, test.of) };
    case "mocha":
      return { name: `${test.of} ${test.name}`.trim(), file: null };
    case "jest":
    case "unittest":
    case "go":
    case "cargo":
    case "junit":
    case "tap":
    case "unknown":
      return { name: joined(test), file: javaFile(test.of, place) };
  }
}

function joined({ of, name }: Case): string {
  const own = name.replace(/\(\)$/, "");
  return of === "" || own.startsWith(of) ? own : `${of}.${own}`;
}

function javaFile(name: string, place: Place): string | null {
  const path = name.replace(/\$.*$/, "").replaceAll(".", "/");
  for (const suffix of ["java", "kt", "scala", "groovy"]) {
    const file = path === "" ? null : fileOf(place, `${path}.${suffix}`);
    if (file !== null) return file;
  }
  return null;
}

function pytestName(
  { of, name }: Case,
  place: Place,
): { readonly name: string; readonly file: string | null } {
  const parts = (of === "" ? name : of).split(".");
  for (let count = parts.length; count > 0; count -= 1) {
    const file = fileOf(place, `${parts.slice(0, count).join("/")}.py`);
    if (file === null) continue;
    const classes = parts.slice(count);
    return { name: of === "" ? file : [file, ...classes, name].join("::"), file };
  }
  return { name: `${of}.${name}`, file: null };
}

/** Reads what Maven's surefire says on the console. */
export function readSurefire({ lines }: Transcript, place: Place): Omit<Report, "runner"> {
  const failures: Failure[] = [];
  for (const [at, line] of lines.entries()) {
    const head = told.exec(line);
    if (head === null || failures.length >= failureLimit) continue;
    // Older ones write the method first, and its class in brackets.
    const test = (head[1] ?? "").replace(/^(\S+)\(([\w.$]+)\)$/, "$2.$1").replace(/\(.*\)$/, "");
    const rest = lines.slice(at + 1, at + 1 + surefireLimit);
    const end = rest.findIndex((it) => it === "" || it.startsWith("["));
    const body = end < 0 ? rest : rest.slice(0, end);
    const frames = framesOf(body, place);
    failures.push(
      failureOf({
        test,
        file: javaFile(test.slice(0, test.lastIndexOf(".")), place) ?? outermost(frames),
        kind: head[2] === "FAILURE" ? "assertion" : "error",
        message: messageOf(body, (it) => /^\s+at /.test(it)),
        frames,
      }),
    );
  }
  const total = lines
    .map((it) =>
      /^\[\w+\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$/.exec(it),
    )
    .findLast((it) => it !== null);
  if (total === undefined || total === null) {
    return { failures, passedCount: null, failedCount: failures.length };
  }
  const [run = 0, failed = 0, errors = 0, skipped = 0] = total.slice(1).map(Number);
  return { failures, passedCount: run - failed - errors - skipped, failedCount: failed + errors };
}

const surefireLimit = 500;
