import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Clues } from "../src/locate/clue.ts";
import type { Coverage } from "../src/locate/coverage.ts";
import { FUNCTION_FEATURES, LINE_FEATURES } from "../src/locate/feature.ts";
import { locate, type Ranked, suspectsOf } from "../src/locate/locate.ts";
import { shortlist } from "../src/locate/shortlist.ts";
import { weights } from "../src/locate/weights.ts";
import { isTestFile, stemOf } from "../src/locate/witness.ts";
import type { Failure, Report } from "../src/report/report.ts";
import { openSyntax, type Syntax } from "../src/syntax/syntax.ts";

let syntax: Syntax;
beforeAll(async () => {
  syntax = await openSyntax();
});
afterAll(() => syntax.close());

const LIB = [
  "RATES = [1, 2, 3]", // 1
  "", // 2
  "def widen(span, by):", // 3
  '    """Makes a span wider."""', // 4
  "    low, high = span", // 5
  "    if by < 0:", // 6
  "        return span", // 7
  "    return clamp(low - by), high + by", // 8
  "", // 9
  "def clamp(value):", // 10
  "    return max(value, 0)", // 11
  "", // 12
  "def rate(index):", // 13
  "    return RATES[index] * 2", // 14
  "",
].join("\n");
const TESTS = [
  "from lib import widen, rate",
  "def test_widen():",
  "    assert widen((1, 2), 3) == (0, 5)",
  "def test_rate():",
  "    assert rate(1) == 4",
  "",
].join("\n");

function failure(more: Partial<Failure> = {}): Failure {
  const base = { test: "tests/test_lib.py::test_widen", file: "tests/test_lib.py", message: "" };
  return { kind: "assertion", frames: [], ...base, ...more };
}

function reportOf(...failures: readonly Failure[]): Report {
  return { runner: "pytest", failures, passedCount: 1, failedCount: failures.length };
}

async function clues(
  more: Partial<Clues> = {},
  files: Readonly<Record<string, string>> = {},
): Promise<Clues> {
  const all = Object.entries({ "lib.py": LIB, "tests/test_lib.py": TESTS, ...files });
  const sources = await Promise.all(all.map(([file, text]) => syntax.read(file, text)));
  const report = reportOf(failure());
  return { report, coverage: null, echoes: [], sources, changedMs: new Map(), ...more };
}

/** Lines as `line: [failing, passing]` of one file. */
function covered(
  file: string,
  lines: Readonly<Record<number, readonly [number, number]>>,
): Coverage {
  const hits = Object.entries(lines).map(
    ([line, [failing, passing]]) => [Number(line), { failing, passing }] as const,
  );
  return {
    grain: "test",
    failingCount: 1,
    passingCount: 2,
    files: new Map([[file, new Map(hits)]]),
  };
}

function names(ranking: readonly Ranked[]): readonly (string | null)[] {
  return ranking.map((ranked) => ranked.function);
}

describe("the weights file", () => {
  test.for(["covered", "blind"] as const)(
    "has a number for each feature and no other: %s",
    (view) => {
      expect(Object.keys(weights[view].functions)).toEqual([...FUNCTION_FEATURES]);
      expect(Object.keys(weights[view].lines)).toEqual([...LINE_FEATURES]);
      const all = [
        ...Object.values(weights[view].functions),
        ...Object.values(weights[view].lines),
      ];
      expect(all.every(Number.isFinite)).toBe(true);
    },
  );

  test("holds nothing to be likelier for being out of the failing tests' reach", () => {
    for (const { functions, lines } of [weights.covered, weights.blind]) {
      expect(functions.uncovered).toBeLessThanOrEqual(0);
      expect(lines.uncovered).toBeLessThanOrEqual(0);
    }
    // With coverage it is known what a call came to, so a name says little more.
    expect(weights.blind.functions.called).toBeGreaterThan(0);
    expect(
      weights.covered.functions["ochiai-top"] + weights.covered.functions.ochiai,
    ).toBeGreaterThan(0);
  });
});

describe("the ranking", () => {
  test("has every function once with all of its lines, and shares that add up to 1", async () => {
    const ranking = locate(await clues());
    expect(new Set(names(ranking))).toEqual(new Set(["clamp", "rate", "widen", null]));
    expect(ranking).toHaveLength(4);
    const widen = ranking.find((ranked) => ranked.function === "widen");
    expect(widen?.lines.map(({ line }) => line).toSorted()).toEqual([3, 5, 6, 7, 8]);
    expect(
      ranking.find((ranked) => ranked.function === null)?.lines.map(({ line }) => line),
    ).toEqual([1]);
    const sum = (shares: readonly number[]): number => shares.reduce((a, b) => a + b, 0);
    expect(sum(ranking.map(({ share }) => share))).toBeCloseTo(1, 9);
    expect(sum(ranking.flatMap(({ lines }) => lines.map(({ share }) => share)))).toBeCloseTo(1, 9);
  });

  test("is the same in whatever order the files come", async () => {
    const given = await clues({}, { "a.py": "def a(x):\n    return x + 1\n", "b.py": "B = 1\n" });
    const expected = names(locate(given));
    fc.assert(
      fc.property(
        fc.shuffledSubarray([...given.sources], { minLength: given.sources.length }),
        (sources) => {
          expect(names(locate({ ...given, sources }))).toEqual(expected);
        },
      ),
    );
  });

  test("begins with what the failing test calls, and not with what it does not", async () => {
    const [first] = locate(await clues());
    expect(first).toMatchObject({ file: "lib.py", function: "widen", firstLine: 3, lastLine: 8 });
    const test = { test: "tests/test_lib.py::test_rate" };
    const [other] = locate(await clues({ report: reportOf(failure(test)) }));
    expect(other?.function).toBe("rate");
  });

  test("begins with the function that an error came from, and its line", async () => {
    const frames = [
      { file: "lib.py", line: 11, function: "clamp" },
      { file: "lib.py", line: 8, function: "widen" },
      { file: "tests/test_lib.py", line: 3, function: "test_widen" },
    ];
    const report = reportOf(failure({ kind: "error", message: "TypeError: no order", frames }));
    const ranking = locate(await clues({ report }));
    expect(names(ranking).slice(0, 2).toSorted()).toEqual(["clamp", "widen"]);
    const crash = ranking.find((ranked) => ranked.function === "clamp");
    expect(crash?.values.crash).toBe(1);
    expect(crash?.lines[0]?.line).toBe(11);
  });

  test("believes coverage: what only failing tests ran comes first, what they did not run last", async () => {
    const coverage = covered("lib.py", { 5: [0, 2], 6: [0, 2], 7: [0, 2], 14: [1, 0] });
    const ranking = locate(await clues({ coverage }));
    expect(ranking[0]?.function).toBe("rate");
    const widen = ranking.find((ranked) => ranked.function === "widen");
    expect(widen?.values).toMatchObject({ ochiai: 0, covered: 0, uncovered: 1 });
  });

  test("puts lines that the failing tests did not run behind those that they did", async () => {
    const coverage = covered("lib.py", { 5: [1, 2], 6: [1, 2], 7: [0, 2], 8: [1, 0] });
    const widen = locate(await clues({ coverage })).find((ranked) => ranked.function === "widen");
    expect(widen?.lines[0]?.line).toBe(8);
    const shares = new Map(widen?.lines.map(({ line, share }) => [line, share]));
    expect(shares.get(7)).toBeLessThan(shares.get(6) ?? 0);
  });

  test("counts what was changed last, and lines that spell the message, for more", async () => {
    const twins = { "a.py": LIB, "b.py": LIB };
    const changedMs = new Map([
      ["a.py", 1_000],
      ["b.py", 2_000],
      ["lib.py", 3],
    ]);
    const files = (ranking: readonly Ranked[]): readonly string[] =>
      ranking.filter((ranked) => ranked.function === "widen").map(({ file }) => file);
    expect(files(locate(await clues({}, twins)))).toEqual(["lib.py", "a.py", "b.py"]);
    expect(files(locate(await clues({ changedMs }, twins))).slice(-2)).toEqual(["b.py", "a.py"]);
    const echoes = [{ file: "lib.py", line: 14, needle: "RATES", weight: 1 }];
    const share = async (more: Partial<Clues>): Promise<number> =>
      locate(await clues(more)).find((ranked) => ranked.function === "rate")?.share ?? 0;
    expect((await share({ echoes })) >= (await share({}))).toBe(true);
    expect(locate(await clues({ echoes })).find(({ values }) => values.echo === 1)?.function).toBe(
      "rate",
    );
  });

  test("has no test in it, unless there is nothing else", async () => {
    const ranking = locate(await clues({}, { "pkg/conftest.py": "def f():\n    return 1\n" }));
    expect(new Set(ranking.map(({ file }) => file))).toEqual(new Set(["lib.py"]));
    const given = await clues();
    const sources = given.sources.filter(({ file }) => file !== "lib.py");
    expect(names(locate({ ...given, sources }))).toContain("test_widen");
    expect(locate({ ...given, sources: [] })).toEqual([]);
  });

  test("has no other version of a failing test in it, and what is only of its name", async () => {
    const main = "class Main {\n  static void main() {\n    assert new Lib().one() == 1;\n  }\n}\n";
    const lib = "class Lib {\n  int one() {\n    return 2;\n  }\n}\n";
    const frames = [{ file: "Main.java", line: 3, function: "main" }];
    const report = reportOf(failure({ test: "", file: null, frames }));
    const files = {
      "Main.java": main,
      "more/Main.java": main,
      "app/Main.java": lib,
      "Lib.java": lib,
    };
    const ranking = locate(await clues({ report }, files));
    const found = new Set(ranking.map(({ file }) => file));
    expect(found.has("app/Main.java") && found.has("Lib.java")).toBe(true);
    expect(found.has("more/Main.java") || found.has("Main.java")).toBe(false);
  });

  test("gives its lines as suspects, the likeliest first, and no more than asked", async () => {
    const ranking = locate(await clues());
    const suspects = suspectsOf(ranking, 4);
    expect(suspects).toHaveLength(4);
    const sorted = suspects.toSorted((a, b) => b.weight - a.weight);
    expect(suspects).toEqual(sorted);
    expect(
      suspects.every(({ firstLine, lastLine, weight }) => firstLine === lastLine && weight > 0),
    ).toBe(true);
  });
});

describe("the shortlist", () => {
  test("begins with the failing tests and the files that frames and coverage name", () => {
    const frames = [{ file: "deep/e.py", line: 1, function: "e" }];
    const report = reportOf(failure({ frames }));
    const coverage = covered("ran.py", { 3: [1, 0] });
    const files = [
      "a.py",
      "b.py",
      "deep/e.py",
      "ran.py",
      "lib.py",
      "tests/test_b.py",
      "tests/test_lib.py",
    ];
    const short = shortlist(files, { report, coverage, echoes: [] }, 4);
    expect(short).toEqual({
      files: ["tests/test_lib.py", "ran.py", "deep/e.py", "lib.py"],
      leftCount: 3,
    });
  });
});

test.for([
  ["tests/test_lib.py", true, "lib"],
  ["src/__tests__/lib.ts", true, "lib"],
  ["lib.test.js", true, "lib"],
  ["LibTest.java", true, "lib"],
  ["lib_test.go", true, "lib"],
  ["src/latest.py", false, "latest"],
  ["src/contest/lib.py", false, "lib"],
] as const)("%s: whether it is a test, and of what", ([file, isTest, stem]) => {
  expect([isTestFile(file), stemOf(file)]).toEqual([isTest, stem]);
});
