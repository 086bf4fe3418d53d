import { expect, test } from "vitest";
import { type Breach, RULES } from "./tidy.ts";
import { readTree, type Tree } from "./tree.ts";

const tree = readTree();

test.each(Object.entries(RULES))("tidy: %s", (_, rule) => {
  expect(rule(tree)).toEqual([]);
});

const long = "export const x = 1;\n".repeat(401);
const later = ["TO", "DO"].join("");
const registry = ["registry", "npmjs", "org"].join(".");
const machine = ["", "work", "main"].join("/");
const outside = ["..", "shared", "x.md"].join("/");
const mark = "test";

test.each<[string, string, string]>([
  ["a long file argues for itself", "packages/core/src/x.ts", long],
  ["a long file argues for itself", "tools/x.mjs", `// A comment that does not argue.\n${long}`],
  ["a file is named for a thing", "packages/core/src/utils.ts", ""],
  ["a file is named for a thing", "packages/core/src/string-helper.ts", ""],
  ["a file is named for a thing", "packages/core/src/common/x.ts", ""],
  ["no text names a place", "docs/x.md", `see ${machine}/x`],
  ["no text names a place", "docs/x.md", `see ${outside}`],
  ["no text names a place", "package-lock.json", `https://${registry}/x.tgz`],
  ["nothing is left for later", "packages/core/src/x.ts", `// ${later}: more`],
  ["a package has a short README", "packages/x/package.json", "{}"],
  ["a package has a short README", "packages/core/README.md", "line\n".repeat(81)],
  ["a README's example is run by a test", "packages/x/README.md", "```ts\nrun();\n```"],
  ["a README's example is run by a test", "packages/x/README.md", "no example"],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}.skip("a", () => {});`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}.skipIf(x)("a", () => {});`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}.runIf(x)("a", () => {});`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}.todo("a");`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}("a", (c) => c.skip());`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}("a", (c) => c.skip(x));`],
  ["no test runs alone", "packages/x/test/x.test.ts", `${mark}.only("a", () => {});`],
  ["no class inherits or is decorated", "packages/x/src/x.ts", "class A extends B {}"],
  ["no class inherits or is decorated", "packages/x/src/x.ts", "@sealed class A {}"],
  ["time and chance are arguments", "packages/x/src/x.ts", "const now = Date.now();"],
  ["time and chance are arguments", "packages/x/src/x.ts", "const now = new Date();"],
  ["time and chance are arguments", "packages/x/src/x.ts", "const chance = Math.random();"],
])("the rule that %s finds it in %s", (rule, path, text) => {
  expect(found(rule, path, text)).toEqual([path]);
});

test.each<[string, string, string]>([
  ["a long file argues for itself", "packages/core/src/x.ts", `// Long because y.\n${long}`],
  ["a long file argues for itself", "packages/core/test/x.test.ts", long],
  ["a file is named for a thing", "packages/core/src/commonmark.ts", ""],
  ["no text names a place", "docs/x.md", "the /workspace of a cell, homework/x"],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}("a", (c) => c.skip("why"));`],
  ["a skip carries a reason", "packages/x/test/x.test.ts", `${mark}("a", (c) => c.skip(x, "y"));`],
  ["time and chance are arguments", "packages/x/src/main.ts", "const now = Date.now();"],
  ["time and chance are arguments", "packages/x/src/x.ts", "const then = new Date(nowMs);"],
])("the rule that %s finds nothing in %s", (rule, path, text) => {
  expect(found(rule, path, text)).toEqual([]);
});

function found(rule: string, path: string, text: string): readonly string[] {
  const planted: Tree = new Map([[path, text]]);
  return (RULES[rule]?.(planted) ?? []).map((breach: Breach) => breach.split(":")[0] ?? "");
}
