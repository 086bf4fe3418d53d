import fc from "fast-check";
import { expect, test } from "vitest";
import { linesOf, listing, merged } from "../src/generate/listing.ts";
import { PROMPT_LIMITS, promptOf } from "../src/generate/prompt.ts";
import type { Subject } from "../src/generate/subject.ts";
import { revisionOf } from "../src/revision.ts";

function subject(files: Readonly<Record<string, string>>, more: Partial<Subject> = {}): Subject {
  return {
    revision: revisionOf(new Map()),
    command: { argv: ["pytest", "-q"], cwd: "." },
    report: { runner: "pytest", failures: [], passedCount: null, failedCount: null },
    ranking: [],
    tests: [],
    tried: [],
    text: async (file) => files[file] ?? null,
    ...more,
  };
}

async function text(asked: Subject, effort: "low" | "full" = "low"): Promise<string> {
  return (await promptOf(asked, effort, [])).messages.map((message) => message.text).join("\n");
}

function numbered(count: number, name: string): string {
  return Array.from({ length: count }, (_, at) => `${name}_${at + 1}\n`).join("");
}

function place(file: string, firstLine: number, lastLine: number) {
  return { file, function: "f", firstLine, lastLine, lines: [{ line: lastLine }] };
}

test("lines have their numbers, and line ends and marks of byte order do not show", () => {
  expect(listing("a.py", "\ufeffx\r\n\ty\r\n", [{ from: 1, to: 9 }])).toBe(
    "=== a.py (all of it)\n1| x\n2| \ty",
  );
});

test("of a long file the ranked functions are shown, and the rest is left out", async () => {
  const files = { "a.py": numbered(1_000, "line") };
  const ranking = [place("a.py", 500, 502), place("a.py", 100, 101)];
  const said = await text(subject(files, { ranking }));
  expect(said).toContain("parts of its 1000 lines");
  expect(said).toContain(" 97| line_97\n");
  expect(said).toContain("104| line_104\n...\n497| line_497\n");
  expect(said).not.toContain("line_106\n");
});

test("a short file is shown whole", async () => {
  const said = await text(
    subject({ "a.py": numbered(20, "x") }, { ranking: [place("a.py", 5, 6)] }),
  );
  expect(said).toContain("=== a.py (all of it)\n 1| x_1\n");
});

test("of a function that is too long what is around its likeliest line is shown", async () => {
  const files = { "a.py": numbered(20_000, "x") };
  const said = await text(subject(files, { ranking: [place("a.py", 1, 15_000)] }));
  expect(said).toContain("14960| x_14960\n");
  expect(said).toContain("15040| x_15040");
  expect(said).not.toContain("x_14959\n");
});

test("the source shown stays within its limit, and full effort shows more", async () => {
  const names = Array.from({ length: 30 }, (_, at) => `f${at}.py`);
  const files = Object.fromEntries(
    names.map((name) => [name, numbered(150, "a_long_line_of_code")]),
  );
  const asked = subject(files, { ranking: names.map((name) => place(name, 1, 150)) });
  const [low, full] = [await text(asked), await text(asked, "full")];
  expect(low).toContain("=== f0.py");
  expect(low.length).toBeLessThan(PROMPT_LIMITS.sourceChars.low + 2_000);
  expect(full.length).toBeGreaterThan(low.length);
  expect(full.length).toBeLessThan(PROMPT_LIMITS.sourceChars.full + 2_000);
});

test("of a long test file what failed is shown", async () => {
  const tests = `${numbered(3_000, "before")}def test_adds():\n    assert add(1, 2) == 3\n${numbered(3_000, "after")}`;
  const failure = {
    test: "t/test_a.py::test_adds[x]",
    file: "t/test_a.py",
    kind: "assertion" as const,
    message: "assert -1 == 3",
    frames: [],
  };
  const said = await text(
    subject(
      { "t/test_a.py": tests },
      {
        tests: ["t/test_a.py"],
        report: { runner: "pytest", failures: [failure], passedCount: 1, failedCount: 1 },
      },
    ),
  );
  expect(said).toContain("3001| def test_adds():\n3002|     assert add(1, 2) == 3");
  expect(said).not.toContain("before_2000\n");
});

test("the same subject gives the same prompt", async () => {
  const asked = subject({ "a.py": "x\n" }, { ranking: [place("a.py", 1, 1)] });
  expect(await promptOf(asked, "low", [])).toEqual(await promptOf(asked, "low", []));
});

test("merged ranges are in order, apart, inside, and hold the lines that they were made of", () => {
  const range = fc.tuple(fc.integer({ min: -5, max: 40 }), fc.nat(10)).map(([from, count]) => ({
    from,
    to: from + count,
  }));
  fc.assert(
    fc.property(fc.array(range), fc.integer({ min: 1, max: 30 }), (ranges, lineCount) => {
      const made = merged(ranges, lineCount);
      for (const [at, { from, to }] of made.entries()) {
        expect(from).toBeGreaterThan((made[at - 1]?.to ?? -1) + 1);
        expect(to).toBeGreaterThanOrEqual(from);
      }
      for (let line = 1; line <= lineCount; line += 1) {
        const isIn = ({ from, to }: { from: number; to: number }) => from <= line && line <= to;
        expect(made.some(isIn)).toBe(ranges.some(isIn));
      }
      expect(made.at(-1)?.to ?? 1).toBeLessThanOrEqual(lineCount);
    }),
  );
});

test("a file has as many lines as line ends, and one more where the last has none", () => {
  expect(linesOf("a\nb\n")).toEqual(["a", "b"]);
  expect(linesOf("a\nb")).toEqual(["a", "b"]);
  expect(linesOf("")).toEqual([""]);
});
