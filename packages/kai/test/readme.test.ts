import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { example } from "./example.ts";
import { plainShell } from "./shell.ts";

test("the README's example does what it says", async () => {
  const root = await realpath(await mkdtemp(join(tmpdir(), "kai-readme-")));
  try {
    const [directory, scratch] = [join(root, "tree"), join(root, "scratch")];
    for (const path of [directory, scratch]) await mkdir(path);
    await writeFile(join(directory, "sum.js"), "exports.sum = (a, b) => a - b;\n");
    await writeFile(
      join(directory, "sum.test.js"),
      `const assert = require("node:assert");
const { sum } = require("./sum.js");
require("node:test")("sums", () => {
  assert.equal(sum(2, 3), 5);
  assert.equal(sum(0, 4), 4);
  assert.equal(sum(7, 0), 7);
  assert.equal(sum(-3, 9), 6);
});
`,
    );
    expect(await example(directory, scratch, plainShell())).toBe("verified");
    expect(await readFile(join(directory, "sum.js"), "utf8")).toMatch(/a \+ b|a - -b/);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}, 120_000);

test("the README's example is the one that is tested", async () => {
  const here = new URL(".", import.meta.url);
  const readme = await readFile(new URL("../README.md", here), "utf8");
  expect(readme).toContain(await readFile(new URL("example.ts", here), "utf8"));
});
