import { readFileSync } from "node:fs";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { edited } from "../../src/candidate.ts";
import { candidates, operators } from "../../src/operator/candidates.ts";
import { FEATURES } from "../../src/operator/feature.ts";
import { GROUPS } from "../../src/operator/group.ts";
import { measureOf, weights } from "../../src/operator/weights.ts";
import { openSyntax, type Syntax } from "../../src/syntax/syntax.ts";
import { all, change, made } from "./change.ts";
import { tables } from "./table.ts";

let syntax: Syntax;
beforeAll(async () => {
  syntax = await openSyntax();
});
afterAll(() => syntax.close());

const own = "../../src/operator/";
const corpus: readonly (readonly [file: string, text: string])[] = [
  ...Object.entries(tables).flatMap(([file, rows]) =>
    rows.map(([, text], at) => [file.replace("a", `a${at}`), change(text).before] as const),
  ),
  ...["scope.ts", "call.ts", "heap.ts"].map(
    (file) => [file, readFileSync(new URL(own + file, import.meta.url), "utf8")] as const,
  ),
];

describe.each(Object.entries(tables))("%s", (file, rows) => {
  test.each(rows)("%s makes %j", async (operator, text) => {
    const { before, after } = change(text);
    expect(before).not.toBe(after);
    const source = await syntax.read(file, before);
    expect(made(source, operator, after)?.operator).toBe(operator);
  });
});

test("every operator has a row of its own", () => {
  const shown = new Set(Object.values(tables).flatMap((rows) => rows.map(([name]) => name)));
  expect(operators.map((operator) => operator.name).filter((name) => !shown.has(name))).toEqual([]);
});

test("the weights are of operators, groups and features that there are, and of no others", () => {
  const known = new Set(operators.map((operator) => operator.name));
  expect(Object.keys(weights.operators).filter((name) => !known.has(name))).toEqual([]);
  const features = new Set<string>(FEATURES);
  for (const sums of [weights.features, ...Object.values(weights.groups)]) {
    expect(Object.keys(sums).filter((name) => !features.has(name))).toEqual([]);
    expect(Object.values(sums).every(Number.isFinite)).toBe(true);
  }
  expect(Object.values(weights.operators).every(Number.isFinite)).toBe(true);
  expect(Object.keys(weights.groups).filter((name) => !Object.hasOwn(GROUPS, name))).toEqual([]);
});

test("what is in a group is an operator, and in one group alone", () => {
  const all = Object.values(GROUPS).flat();
  const known = new Set(operators.map((operator) => operator.name));
  expect(all.filter((name) => !known.has(name))).toEqual([]);
  expect(new Set(all).size).toBe(all.length);
});

test("an operator that the weights do not name is as likely as the middle of all", () => {
  const given = {
    ...weights,
    groups: {},
    operators: { "name-swap": -1, "term-drop": -3, other: -2 },
  };
  expect(measureOf("of no name", given).base).toBe(-2);
  expect(measureOf("name-swap", given).base).toBe(-1);
});

test("a change that makes a value stand against itself is tried after one that does not", async () => {
  const text = "def f(low, high, size):\n    middle = low + high\n    return middle - low\n";
  const found = all(await syntax.read("a.py", text), 2_000);
  const values = (made: string): ReadonlyMap<string, number> | undefined => {
    const one = found.find(({ edits }) => edited(text, "a.py", edits).includes(made));
    return one && new Map(one.features);
  };
  expect(values("return low - low")?.get("repeats")).toBe(1);
  expect(values("return high - low")?.has("repeats")).toBe(false);
  // `size` is declared, and nothing reads it.
  expect(values("return size - low")?.get("wakes")).toBe(1);
});

test("a candidate changes its file, parses as well, and never makes a text that was made before", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...corpus), fc.nat(400), async ([file, text], skipped) => {
      const source = await syntax.read(file, text);
      const judge = source.judge(source.root);
      const texts = new Set([text]);
      for (const [at, candidate] of all(source, skipped + 300).entries()) {
        const made = edited(text, file, candidate.edits);
        expect(texts).not.toContain(made);
        texts.add(made);
        if (at >= skipped) expect(judge.parses(candidate.edits)).toBe(true);
      }
      judge.close();
    }),
    { numRuns: 60, seed: 7 },
  );
});

test("the weights of candidates never rise while no function has to wait", async () => {
  for (const [file, text] of corpus.slice(-1)) {
    const found = all(await syntax.read(file, text), 2_000);
    const rising = found.filter((each, at) => each.weight > (found[at - 1]?.weight ?? Infinity));
    expect(found.length).toBeGreaterThan(1_000);
    expect(rising).toEqual([]);
  }
});

test("candidates are only where suspicion is, and its measure goes into their weight", async () => {
  const text = "def f(a, b):\n    return a < b\n\n\ndef g(a, b):\n    return a < b\n";
  const source = await syntax.read("a.py", text);
  const at = (firstLine: number, lastLine: number, weight: number) => ({
    file: "a.py",
    firstLine,
    lastLine,
    weight,
  });
  const found = [...candidates([source], [at(1, 2, 0.25), at(6, 6, 1)])];
  expect(found[0]?.site).toEqual({ file: "a.py", line: 6, function: "g" });
  const flips = found.filter((each) => each.operator === "comparison-flip");
  const [low, high] = [2, 6].map((line) => flips.find((each) => each.site.line === line));
  // The same operator at a second place is less likely besides.
  expect(low?.weight).toBeLessThanOrEqual((high?.weight ?? 0) / 4 ** weights.suspicion);
  expect([...candidates([source], [at(3, 4, 1)])]).toEqual([]);
});

test("candidates of several files come in one order", async () => {
  const first = await syntax.read("a.py", "def f(a, b):\n    return a < b\n");
  const second = await syntax.read("b.js", "function f(a, b) {\n  return a < b;\n}\n");
  const suspects = ["a.py", "b.js"].map((file) => ({ file, firstLine: 1, lastLine: 3, weight: 1 }));
  const files: string[] = [];
  for (const candidate of candidates([first, second], suspects)) {
    files.push(candidate.site.file);
    if (files.length === 12) break;
  }
  expect(new Set(files)).toEqual(new Set(["a.py", "b.js"]));
});

test("a file that does not parse gives candidates that parse no worse", async () => {
  const text = "def f(a, b):\n    return a < b\n\n\ndef g(:\n    return 1\n";
  const source = await syntax.read("broken.py", text);
  const found = all(source, 500);
  expect(found.length).toBeGreaterThan(20);
  const judge = source.judge(source.root);
  for (const candidate of found) expect(judge.parses(candidate.edits)).toBe(true);
  judge.close();
});

test("lines that are put in end as those of the file do", async () => {
  const text = change(tables["a.py"]?.map(([, row]) => row).join("\n\n") ?? "").before;
  const source = await syntax.read("crlf.py", text.replaceAll("\n", "\r\n"));
  const found = all(source, 3_000);
  expect(found.some((each) => each.operator === "statement-delete")).toBe(true);
  expect(found.some((each) => each.edits.some((edit) => edit.text.includes("\n")))).toBe(true);
  for (const candidate of found) {
    const after = edited(source.text, source.file, candidate.edits);
    expect(after).not.toMatch(/[^\r]\n|\r[^\n]/);
  }
});

test("no name stands for one whose declared type is another", async () => {
  const text = "class A {\n  int f(int a, int b, String s) {\n    return a + s.length();\n  }\n}\n";
  const found = all(await syntax.read("A.java", text), 5_000)
    .filter((each) => each.operator === "name-swap")
    .flatMap((each) => each.edits.map((edit) => edit.text));
  expect(found).toContain("b");
  expect(found).not.toContain("s");
});

test("a candidate of a suspect that is a line changes something that starts on the line", async () => {
  const text = change(tables["a.py"]?.map(([, row]) => row).join("\n\n") ?? "").before;
  const source = await syntax.read("lines.py", text);
  for (const line of [2, 10, 40, 90]) {
    const suspect = { file: "lines.py", firstLine: line, lastLine: line, weight: 1 };
    for (const candidate of candidates([source], [suspect])) {
      const { from, to } = candidate.edits[0] ?? { from: 0, to: 0 };
      const touched = [source.line(from), source.line(to), source.line(to + 1)];
      expect(touched.some((each) => Math.abs(each - line) <= 4)).toBe(true);
    }
  }
});

test("a hundred candidates of a file of 5,000 lines cost little", async () => {
  const one = corpus
    .slice(-3)
    .map(([, text]) => text)
    .join("\n");
  let text = one;
  while (text.split("\n").length < 5_000) text += `\n${one}`;
  const source = await syntax.read("long.ts", text);
  const before = process.cpuUsage();
  expect(all(source, 100)).toHaveLength(100);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(900);
});
