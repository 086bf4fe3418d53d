import { afterAll, beforeAll, expect, test } from "vitest";
import { within } from "../../src/syntax/piece.ts";
import { openSyntax, type Syntax } from "../../src/syntax/syntax.ts";

let syntax: Syntax;
beforeAll(async () => {
  syntax = await openSyntax();
});
afterAll(() => syntax.close());

const files: readonly (readonly [file: string, text: string, functions: readonly string[]])[] = [
  [
    "a.py",
    "class A:\n    @b\n    def f(self, x):\n        def g():\n            pass\n        return g\n\n\nh = lambda x: x\n",
    ["A.f 3-6 2", "A.f.g 4-5 0", "h 9-9 1"],
  ],
  [
    "a.js",
    "class A {\n  f(x) {\n    return x;\n  }\n}\nconst g = (a, b) => a;\nexports.h = function () {};\ndescribe('x', () => {});\n",
    ["A.f 2-4 1", "g 6-6 2", "exports.h 7-7 0"],
  ],
  [
    "a.ts",
    "export function f<T>(a: T): T {\n  return a;\n}\nexport class A {\n  private g(a?: number): void {}\n}\n",
    ["f 1-3 1", "A.g 5-5 1"],
  ],
  ["a.tsx", "const F = () => <p>{1 + 1}</p>;\n", ["F 1-1 0"]],
  [
    "a.java",
    "class A {\n  A() {}\n  int f(int a, int b) {\n    return a;\n  }\n  class B {\n    void g() {}\n  }\n}\n",
    ["A.A 2-2 0", "A.f 3-5 2", "A.B.g 7-7 0"],
  ],
  [
    "a.go",
    "package p\n\nfunc (t *T) f(a int) int {\n\treturn a\n}\n\nfunc g() {}\n",
    ["f 3-5 1", "g 7-7 0"],
  ],
  [
    "a.rs",
    "impl A {\n    fn f(&self) -> i32 {\n        1\n    }\n}\nfn g() {}\n",
    ["A.f 2-4 1", "g 6-6 0"],
  ],
];

test.each(files)(
  "the functions of %s are found, with their classes and lines",
  async (file, text, functions) => {
    const source = await syntax.read(file, text);
    expect(
      source.functions.map(
        (site) => `${site.qualified} ${site.firstLine}-${site.lastLine} ${site.parameterCount}`,
      ),
    ).toEqual(functions);
  },
);

test("a place is in the innermost function that holds it", async () => {
  const text = "def f():\n    def g():\n        pass\n    return g\n\n\nx = 1\n";
  const source = await syntax.read("a.py", text);
  expect(source.functionAt(text.indexOf("pass"))?.qualified).toBe("f.g");
  expect(source.functionAt(text.indexOf("return"))?.qualified).toBe("f");
  expect(source.functionAt(text.indexOf("x = 1"))).toBeNull();
});

test("places count as JavaScript counts, whatever stands before them", async () => {
  const text = 'def f(a):\n    s = "é 漢 🙂"\n    return a + 1\n';
  const source = await syntax.read("a.py", text);
  const binary = [...within(source.root)].find((piece) => piece.kind === "binary");
  expect(binary && text.slice(binary.from, binary.to)).toBe("a + 1");
  expect(source.line(binary?.from ?? 0)).toBe(3);
});

test("a text that was read gives the same source, and another text another", async () => {
  const first = await syntax.read("a.py", "x = 1\n");
  expect(await syntax.read("a.py", "x = 1\n")).toBe(first);
  expect(await syntax.read("a.py", "x = 2\n")).not.toBe(first);
});

test("a language without a grammar is read as tokens: calls, conditions and operators", async () => {
  const text = 'int f(int a) { /* < */ if (a < 1) { return g(a, "(") + 2; } }\n';
  const source = await syntax.read("a.c", text);
  expect(source.language).toBe("other");
  expect(source.functions).toEqual([]);
  const found = [...within(source.root)];
  const texts = (kind: string) =>
    found.filter((piece) => piece.kind === kind).map((piece) => text.slice(piece.from, piece.to));
  expect(texts("binary")).toContain("a < 1");
  expect(texts("call")).toEqual(["f(int a)", 'g(a, "(")']);
  expect(texts("if")).toEqual(["if (a < 1)"]);
});

test.each(files)(
  "edits of %s that break it are told from those that do not",
  async (file, text) => {
    const source = await syntax.read(file, text);
    for (const site of source.functions) {
      const judge = source.judge(site.piece);
      const end = site.to;
      expect(judge.parses([])).toBe(true);
      expect(judge.parses([{ from: end - 1, to: end, text: "((" }])).toBe(false);
      judge.close();
    }
  },
);

test("a file of no known name, with brackets that do not close, is read all the same", async () => {
  const source = await syntax.read("README", "it's (not\n] code } 'at all\n");
  expect(source.language).toBe("other");
  expect([...within(source.root)].length).toBeGreaterThan(1);
});
