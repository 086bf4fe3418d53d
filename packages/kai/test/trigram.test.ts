import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Report } from "../src/report/report.ts";
import { echoes } from "../src/search/echo.ts";
import {
  fill,
  nearest,
  openTrigrams,
  TRIGRAM_LIMITS,
  type Trigrams,
} from "../src/search/trigram.ts";

const never: AbortSignal = new AbortController().signal;

function indexOf(files: Readonly<Record<string, string>>): Trigrams {
  const index = openTrigrams();
  for (const [file, text] of Object.entries(files)) expect(index.put(file, text)).toBe("held");
  return index;
}

/** What a reader with all the time in the world would find. */
function read(files: Readonly<Record<string, string>>, needle: string): readonly string[] {
  return Object.entries(files).flatMap(([file, text]) =>
    text.split("\n").flatMap((line, at) => (line.includes(needle) ? [`${file}:${at + 1}`] : [])),
  );
}

describe("a trigram index", () => {
  const texts = fc.string({ unit: fc.constantFrom("a", "b", "c", "é", "\n", "_"), maxLength: 60 });

  test("finds the lines that reading all files finds", () => {
    const trees = fc.dictionary(fc.constantFrom("a.py", "b/c.js", "d", "e.go", "f.rs", "g"), texts);
    const needles = fc.string({
      unit: fc.constantFrom("a", "b", "c", "é", "_"),
      minLength: 3,
      maxLength: 6,
    });
    fc.assert(
      fc.property(trees, needles, (files, needle) => {
        const found = indexOf(files).lines(needle, 1_000);
        expect(found.map(({ file, line }) => `${file}:${line}`)).toEqual(read(files, needle));
      }),
      { numRuns: 500 },
    );
  });

  test("answers for what a file has become, however often it changes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("a", "b"), texts), { maxLength: 12 }),
        (puts) => {
          const index = openTrigrams();
          const now: Record<string, string> = {};
          for (const [file, text] of puts) {
            index.put(file, text);
            now[file] = text;
          }
          const found = index.lines("abc", 1_000).map(({ file, line }) => `${file}:${line}`);
          expect(found.toSorted()).toEqual(read(now, "abc").toSorted());
          const sizeChars = Object.values(now).reduce((sum, text) => sum + text.length, 0);
          expect(index.held()).toMatchObject({ fileCount: Object.keys(now).length, sizeChars });
        },
      ),
    );
  });

  test("gives the text of a line, and no more lines than asked", () => {
    const index = indexOf({
      "a.py": "x = 1\nneedle one\n\nneedle two",
      "b.py": "needle three\r\n",
    });
    expect(index.lines("needle", 2)).toEqual([
      { file: "a.py", line: 2, text: "needle one" },
      { file: "a.py", line: 4, text: "needle two" },
    ]);
    expect(index.lines("three", 9)).toEqual([{ file: "b.py", line: 1, text: "needle three\r" }]);
    expect(index.lines("ne", 9)).toEqual([]);
  });

  test("leaves out what is binary or too long, and what comes when it is full, and says so", () => {
    const index = openTrigrams({ fileCount: 2, sizeChars: 100, fileChars: 60 });
    expect(index.put("a", "short text")).toBe("held");
    expect(index.put("b", "a\0b")).toBe("binary");
    expect(index.put("c", "y".repeat(61))).toBe("long");
    expect(index.put("d", "z".repeat(60))).toBe("held");
    expect(index.put("e", "one too many")).toBe("full");
    expect(index.put("a", "short again")).toBe("held");
    expect(index.held()).toEqual({
      fileCount: 2,
      sizeChars: 71,
      binaryCount: 1,
      longCount: 1,
      fullCount: 1,
    });
    expect(index.lines("many", 9)).toEqual([]);
  });

  test("of a million files no more are read than it holds, the first of them first", async () => {
    const files = Array.from({ length: 1_000_000 }, (_, at) => `f${at}.py`);
    const index = openTrigrams({ ...TRIGRAM_LIMITS, fileCount: 100 });
    let readCount = 0;
    const read = async (file: string): Promise<string | null> => {
      readCount += 1;
      return file === "f7.py" ? null : `# ${file}`;
    };
    const { unreadCount } = await fill(index, files, read, never);
    expect(index.held().fileCount).toBe(100);
    expect(readCount).toBeLessThan(150);
    expect(unreadCount).toBe(files.length - readCount);
    expect(index.lines("f99.py", 9)).toHaveLength(1);
  });

  test("files near to the given ones come first, and equals stay in their order", () => {
    const files = ["z.py", "lib/b.py", "lib/a.py", "tests/deep/x.py", "tests/t.py"];
    expect(nearest(files, ["tests/t.py"])).toEqual([
      "tests/t.py",
      "z.py",
      "tests/deep/x.py",
      "lib/b.py",
      "lib/a.py",
    ]);
    expect(nearest(files, ["lib/c.py"]).slice(0, 3)).toEqual(["lib/b.py", "lib/a.py", "z.py"]);
  });
});

describe("the echoes of a report", () => {
  function reportOf(message: string, name = "test_spans"): Report {
    const failure = { test: name, file: "t.py", kind: "error", message, frames: [] } as const;
    return { runner: "pytest", failures: [failure], passedCount: 0, failedCount: 1 };
  }

  test("are the lines that spell its quoted texts and its names", () => {
    const index = indexOf({
      "lib.py": 'def widen(a):\n    raise ValueError("no such span: %s" % a)\n',
      "other.py": "x = 1\n",
    });
    const found = echoes(index, reportOf("ValueError: 'no such span' in widen"));
    expect(found.map(({ line, needle }) => [line, needle])).toEqual([
      [2, "no such span"],
      [2, "such"],
      [2, "span"],
      [1, "widen"],
    ]);
    expect(found.every(({ weight }) => weight === 1)).toBe(true);
  });

  test("say nothing of what is everywhere, or is said of every failure", () => {
    const index = indexOf({ "lib.py": "spans = 1\n".repeat(61), "b.py": "AssertionError\n" });
    expect(echoes(index, reportOf("AssertionError: assert spans == 2"))).toEqual([]);
  });
});
