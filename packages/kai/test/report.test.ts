import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { failureLimit, messageLimit } from "../src/report/failure.ts";
import { readReport } from "../src/report/reading.ts";
import type { Output, Report, Runner } from "../src/report/report.ts";
import { frameLimit } from "../src/report/trace.ts";
import { lineLimit, streamLimit, transcriptOf } from "../src/report/transcript.ts";
import { fileOf, workspaceOf } from "../src/report/workspace.ts";
import { goldenOf, goldens, reportOf } from "./golden.ts";

const byTest = (a: { readonly test: string }, b: { readonly test: string }): number =>
  a.test < b.test ? -1 : 1;

function shown({ runner, passedCount: passed, failedCount: failed, failures: all }: Report) {
  const failures = all.map(({ test: name, file, kind, frames }) => ({
    test: name,
    file,
    kind,
    frames: frames.map((it) => `${it.file}:${it.line} ${it.function}`),
  }));
  return { runner, passed, failed, failures: failures.sort(byTest) };
}

describe.each(goldens)("the output of $name is read", (golden) => {
  test.each(golden.runs)("$name", (run) => {
    const report = reportOf(golden, run);
    const { failures, ...counts } = run.expected;
    const wanted = failures.map(([name, file, kind, , frames]) => ({
      test: name,
      file,
      kind,
      frames,
    }));
    expect(shown(report)).toEqual({ ...counts, failures: wanted.sort(byTest) });
    for (const [name, , , part] of failures) {
      expect(report.failures.find((it) => it.test === name)?.message).toContain(part);
    }
  });
});

const plain = { argv: ["./check"], cwd: "." };
const workspace = workspaceOf("/home/ann/project", ["src/calc.py", "test/calc_test.go", "a b.js"]);
const said = (stdout: string, code = 1, stderr = ""): Output => ({
  stdout,
  stderr,
  end: { kind: "exit", code },
});
const runners: readonly Runner[] = [
  "pytest",
  "unittest",
  "node-test",
  "vitest",
  "jest",
  "mocha",
  "go",
  "cargo",
  "junit",
  "tap",
  "unknown",
];

describe("output that nobody would wish for", () => {
  const pieces = goldens
    .flatMap((golden) => golden.runs.slice(0, 2))
    .flatMap((run) => [...run.output.stdout.split("\n"), ...run.output.stderr.split("\n")]);
  const line = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...pieces) },
    { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 60 }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom("\u001b[31m", "\u001b]8;;", "\r", "\0", "\ufffd", "<![CDATA["),
    },
  );
  const text = fc
    .array(fc.tuple(line, fc.constantFrom("\n", "\n", "\n", "\r\n", "\r", "")), { maxLength: 80 })
    .map((parts) => parts.flat().join(""));

  test("never throws, and a report keeps its limits", () => {
    const run = fc.record({
      runner: fc.constantFrom(...runners),
      stdout: text,
      stderr: text,
      code: fc.nat({ max: 2 }),
    });
    fc.assert(
      fc.property(run, ({ runner, stdout, stderr, code }) => {
        const report = readReport(runner, plain, said(stdout, code, stderr), workspace);
        if (code !== 0) expect(report.failures.length).toBeGreaterThan(0);
        for (const failure of report.failures) {
          expect(failure.message.length).toBeLessThanOrEqual(messageLimit);
          expect(failure.frames.length).toBeLessThanOrEqual(frameLimit);
          expect(failure.frames.every((it) => workspace.files.has(it.file))).toBe(true);
          expect(failure.frames.every((it) => Number.isSafeInteger(it.line))).toBe(true);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  const megabytes = 20_000_000;
  const repeated = (piece: string): string => piece.repeat(Math.ceil(megabytes / piece.length));
  const bodies: readonly (readonly [string, string])[] = [
    ["one line with no end", repeated("x")],
    ["slashes", repeated("/a.b/")],
    ["digits and colons", repeated("1:")],
    ["spaces", repeated(" ")],
    ["escapes", repeated("\u001b[")],
    ["escapes that never end", repeated("\u001b]8;;")],
    ["NUL", repeated("\0")],
    ["progress", repeated("\r 12% of it")],
    ["empty lines", repeated("\n")],
    ["tags", repeated('<testcase a="')],
    ["testcases", repeated('<testcase name="a"><failure message="b">c')],
    [
      "failures of pytest",
      repeated("____ test_a ____\nE   assert 1\nsrc/calc.py:1: AssertionError\n"),
    ],
    [
      "summaries of pytest",
      `=== FAILURES ===\n=== short test summary info ===\n${repeated("FAILED a - b - c - d\n")}`,
    ],
    ["failures of unittest", repeated(`${"=".repeat(70)}\nFAIL: a (b.c)\n`)],
    ["points of TAP", `TAP version 13\n${repeated("    # Subtest: a\n        not ok 1 - b\n")}`],
    ["failures of go", repeated("--- FAIL: TestA (0.00s)\n")],
    ["failures of node", repeated("✖ a (1ms)\n  b\n")],
    ["trees of node", repeated("▶ a\n  ✖ b (1ms)\n")],
    ["frames", repeated("    at f (src/calc.py:1:1)\n")],
    ["errors", repeated("Error: a\n")],
  ];

  test.each(bodies)("%s cost little", (_name, body) => {
    for (const runner of ["unknown", "pytest", "node-test", "go"] as const) {
      const from = process.cpuUsage();
      const report = readReport(runner, plain, said(body), workspace);
      const { user, system } = process.cpuUsage(from);
      expect(report.failures.length).toBeGreaterThan(0);
      expect(report.failures.length).toBeLessThanOrEqual(2 * failureLimit);
      expect((user + system) / 1_000).toBeLessThan(1_500);
    }
  });

  test("is clipped at both ends of a stream and in each line", () => {
    const { lines } = transcriptOf(said(`first\n${"y".repeat(2 * streamLimit)}\nlast\n`));
    expect(lines.at(0)).toBe("first");
    expect(lines.at(-1)).toBe("last");
    expect(Math.max(...lines.map((it) => it.length))).toBeLessThanOrEqual(lineLimit);
  });

  test("is shown as a terminal would", () => {
    const { lines } = transcriptOf(said("\u001b[1;31mred\u001b[0m\r\n10%\r20%\rdone\na\0b\ttab"));
    expect(lines).toEqual(["red", "done", "ab\ttab"]);
  });
});

describe("a command that fails and says little", () => {
  test.each([
    [said("", 7), "exit status 7"],
    [{ stdout: "half", stderr: "", end: { kind: "timeout" } } as const, "it did not end in time"],
    [
      { stdout: "", stderr: "", end: { kind: "signal", signal: "SIGSEGV" } } as const,
      "ended by SIGSEGV",
    ],
    [said("all is\nnot as it was\n"), "not as it was"],
  ])("has one failure all the same", (output, message) => {
    const report = readReport("unknown", plain, output, workspace);
    expect(report.failures).toEqual([{ test: "", file: null, kind: "error", message, frames: [] }]);
  });

  test("has none where it passes, whatever it prints", () => {
    expect(readReport("unknown", plain, said("Error: no\n", 0), workspace).failures).toEqual([]);
  });
});

test("what a test prints is not taken for the runner's words", () => {
  const golden = goldenOf("pytest-fixture.pytest-9");
  const [run] = golden.runs;
  if (run === undefined) throw new Error("no run");
  const names = reportOf(golden, run).failures.map((it) => it.test);
  expect(names).not.toContain("test_store.py::test_fake");
});

test("a path is a file of the workspace or nothing", () => {
  const place = { workspace, cwd: "test" };
  const files = [
    "/home/ann/project/src/calc.py",
    "file:///home/ann/project/a%20b.js",
    "../src/calc.py",
    "src/calc.py",
    "calc.py",
    "./calc_test.go",
    "/home/ann/project-2/src/calc.py",
    "/home/ann/project/../project-2/src/calc.py",
    "../../etc/calc.py",
    "file:///%ff",
  ].map((path) => fileOf(place, path));
  expect(files).toEqual([
    "src/calc.py",
    "a b.js",
    "src/calc.py",
    "src/calc.py",
    "src/calc.py",
    "test/calc_test.go",
    null,
    null,
    null,
    null,
  ]);
});
