import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { posix } from "node:path";
import { promisify } from "node:util";
import { CALL_OP, EVENT, OP } from "@dev/protocol";
import { expect, test, vi } from "vitest";
import { filled } from "./reference/page.ts";
import { shapeNames } from "./reference/protocol.ts";
import { sourcesOf, variantsOf } from "./reference/source.ts";
import { referencePages, writeReference } from "./reference.ts";
import { filesOf, planted, ROOT, readTree } from "./tree.ts";

if (process.env.UPDATE_GOLDEN === "1") writeReference();
const tree = readTree();
const pages = referencePages(tree);

test.each([...pages])("%s is what the sources say (UPDATE_GOLDEN=1 writes it)", (path, text) => {
  expect(tree.get(path)).toBe(text);
});

test("a page follows its sources: docs, fields and words", () => {
  const path = "packages/protocol/src/event.ts";
  const changed = (tree.get(path) ?? "").replace("A prompt. An empty one", "A planted one");
  const text = referencePages(planted(tree, path, changed)).get("docs/reference/protocol.md");
  expect(text).toContain("A planted one adds no message");
});

test("every type that an event or an action may hold has its place, with each of its kinds", () => {
  const text = pages.get("docs/reference/protocol.md") ?? "";
  const headings = [...text.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading);
  const split = ["Event", "Op", "CallOp"];
  expect(shapeNames().filter((name) => !split.includes(name) && !headings.includes(name))).toEqual(
    [],
  );
  const kinds = [
    ...[...EVENT.byKind.keys()].map((kind) => `Event ${kind}`),
    ...[...OP.byKind.keys()].map((kind) => `Op ${kind}`),
    ...[...CALL_OP.byKind.keys()]
      .filter((kind) => !OP.byKind.has(kind))
      .map((kind) => `Call ${kind}`),
  ];
  const told = headings.flatMap((heading = "") => {
    const [title, ...words] = heading.split(/[ ,]+/);
    return words.map((word) => `${title} ${word.replaceAll("`", "")}`);
  });
  expect(kinds.filter((kind) => !told.includes(kind))).toEqual([]);
});

test("every kind of a union is found in its type, wherever that is declared", () => {
  const sources = sourcesOf(tree, "protocol");
  const kinds = variantsOf(sources, "CallOp").flatMap((variant) => variant.kinds);
  expect(new Set(kinds)).toEqual(new Set(CALL_OP.byKind.keys()));
});

test("a part without a place, and a place without a part, are found", () => {
  const page = "<!-- generated: a -->\nold\n<!-- end -->\n";
  expect(filled(page, { a: () => "new" })).toContain("\nnew\n");
  expect(() => filled(page, {})).toThrow("nothing generates a");
  expect(() => filled(page, { a: () => "", b: () => "" })).toThrow("no place for b");
});

test("every test that a page names is there", () => {
  const named = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(/"([^"\n]+)" in \[[^\]]+\]\(([^)]+)\)/g)].map(([, title = "", to = ""]) => ({
      title,
      file: posix.join(posix.dirname(path), to),
    })),
  );
  expect(named.length).toBeGreaterThan(8);
  expect(named.filter(({ title, file }) => !tree.get(file)?.includes(`"${title}"`))).toEqual([]);
});

/** A program that a page shows, as a file that can be run, and what the page says that it prints. */
type Example = { readonly name: string; readonly path: string; readonly prints: string };

const EXAMPLES = `${ROOT}.cache/examples/`;
const examples: Example[] = filesOf(tree, /^docs\/.*\.md$/).flatMap(([path, text]) => {
  const found = text.matchAll(/```ts\n([\s\S]*?)```(?:\s*It prints:\s*```text\n([\s\S]*?)```)?/g);
  return [...found].map(([, code = "", prints = ""], index) => {
    const name = `${posix.basename(path, ".md")}-${index + 1}`;
    mkdirSync(EXAMPLES, { recursive: true });
    writeFileSync(`${EXAMPLES}${name}.ts`, code);
    return { name, path: `${EXAMPLES}${name}.ts`, prints };
  });
});

test.each(examples)("the example $name prints what its page says", async ({ path, prints }) => {
  const lines: string[] = [];
  const spy = vi.spyOn(console, "log").mockImplementation((line) => lines.push(String(line)));
  await import(path).finally(() => spy.mockRestore());
  expect(`${lines.join("\n")}\n`).toBe(prints);
});

test("the examples are of the types that they use, which a wrong one is not", async () => {
  expect(examples.length).toBeGreaterThan(2);
  writeFileSync(`${EXAMPLES}wrong.ts`, 'export const wrong: number = "text";');
  const config = {
    extends: "../../tsconfig.test.json",
    compilerOptions: { customConditions: ["source"], incremental: false, noEmit: true },
    files: [...examples.map(({ path }) => path), `${EXAMPLES}wrong.ts`],
    include: [],
    references: [],
  };
  writeFileSync(`${EXAMPLES}tsconfig.json`, JSON.stringify(config));
  const args = ["-p", `${EXAMPLES}tsconfig.json`];
  const run = promisify(execFile)(`${ROOT}node_modules/.bin/tsc`, args, { cwd: ROOT });
  const said: string = await run.then(
    ({ stdout }) => stdout,
    (error) => String(error.stdout),
  );
  // What is wrong in a package is for the compiler's own run to say.
  const found = said.split("\n").filter((line) => line.startsWith(".cache/examples"));
  expect(found).toHaveLength(1);
  expect(found[0]).toContain("wrong.ts(1,14)");
});
