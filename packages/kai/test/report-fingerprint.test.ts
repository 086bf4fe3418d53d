import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fingerprint } from "../src/report/fingerprint.ts";
import type { Failure, Report } from "../src/report/report.ts";
import { goldens, reportOf } from "./golden.ts";

const failure = (message: string, parts: Partial<Failure> = {}): Failure => ({
  test: "adds",
  file: "calc.test.js",
  kind: "assertion",
  message,
  frames: [{ file: "calc.js", line: 3, function: "add" }],
  ...parts,
});
const report = (...failures: readonly Failure[]): Report => ({
  runner: "unknown",
  failures,
  passedCount: null,
  failedCount: null,
});
const of = (message: string): string => fingerprint(report(failure(message)));

test.each([
  ["wanted /tmp/a1b2/out.txt", "wanted /var/folders/x/out-2.txt"],
  ["calc.js:12:3: no", "calc.js:104:17: no"],
  ['File "calc.py", line 3: no', 'File "calc.py", line 77: no'],
  ["<Store object at 0x7f1b58039010>", "<Store object at 0x7fb4315b2490>"],
  ["took 12 ms", "took 8.25s"],
  ["at 2024-01-02T03:04:05.678Z no", "at 2031-11-12 13:14:15 no"],
  ["id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174fff"],
  ["in tmpab12cd34", "in tmpzz98yy76"],
  ["process 4711 died", "process 12 died"],
  ["goroutine 19 [running]", "goroutine 7 [running]"],
  ["connect localhost:41234", "connect localhost:5021"],
  ["build deadbeef0123456789ab", "build 0123456789abcdef0000"],
  ["now 1700000000123", "now 1764532800999"],
])("%j is the same failure as %j", (one, other) => {
  expect(of(one)).toBe(of(other));
});

test.each([
  ["-1 != 3", "1 != 3"],
  ["expected 3", "expected 30"],
  ["no name 'a'", "no name 'b'"],
  ["ratio 1/2", "ratio 1/3"],
  ["[1, 2, 3]", "[1, 3, 2]"],
  ["1.5 != 2.5", "1.5 != 3.5"],
])("%j is another failure than %j", (one, other) => {
  expect(of(one)).not.toBe(of(other));
});

test("another test, kind or function is another failure; another line or file's place is not", () => {
  const base = fingerprint(report(failure("no")));
  const frames = (line: number, name: string) => [{ file: "calc.js", line, function: name }];
  expect(fingerprint(report(failure("no", { test: "subtracts" })))).not.toBe(base);
  expect(fingerprint(report(failure("no", { kind: "error" })))).not.toBe(base);
  expect(fingerprint(report(failure("no", { frames: frames(3, "sum") })))).not.toBe(base);
  expect(fingerprint(report(failure("no", { frames: frames(90, "add") })))).toBe(base);
  expect(fingerprint(report(failure("no", { file: "moved/calc.test.js" })))).toBe(base);
});

const failures = fc.array(
  fc
    .record({ test: fc.string(), message: fc.string({ maxLength: 200 }) })
    .map(({ test: name, message }) => failure(message, { test: name })),
  { minLength: 1, maxLength: 8 },
);

test("the order of the failures does not matter, and one less does", () => {
  fc.assert(
    fc.property(failures, (all) => {
      expect(fingerprint(report(...all.toReversed()))).toBe(fingerprint(report(...all)));
      const marked = failure("only here", { test: "of its own" });
      expect(fingerprint(report(...all, marked))).not.toBe(fingerprint(report(...all)));
    }),
  );
});

test("lines put in above a failure do not change it", () => {
  fc.assert(
    fc.property(failures, fc.nat({ max: 1_000 }), (all, more) => {
      const moved = all.map((it) => ({
        ...it,
        message: `${it.message}\ncalc.js:${7 + more}: no`,
        frames: it.frames.map((frame) => ({ ...frame, line: frame.line + more })),
      }));
      const still = all.map((it) => ({ ...it, message: `${it.message}\ncalc.js:7: no` }));
      expect(fingerprint(report(...moved))).toBe(fingerprint(report(...still)));
    }),
  );
});

describe.each(goldens)("$name", (golden) => {
  test("fails in the same way wherever it lies and whenever it runs", () => {
    for (const run of golden.runs) {
      const moved = (text: string): string => text.replaceAll(golden.directory, "/srv/elsewhere/x");
      const { stdout, stderr, end } = run.output;
      const output = { stdout: moved(stdout), stderr: moved(stderr), end };
      const there = reportOf({ ...golden, directory: "/srv/elsewhere/x" }, run, output);
      expect(fingerprint(there)).toBe(fingerprint(reportOf(golden, run)));
    }
  });
});
