import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Behaviours, behaviours } from "../src/behaviour.ts";
import { differing } from "../src/compare.ts";
import { takeTree } from "../src/copy.ts";
import type { Candidate } from "../src/index.ts";
import { openSyntax } from "../src/syntax/syntax.ts";
import { programsIn } from "../src/trial/open.ts";
import { plainShell } from "./shell.ts";

const NEVER = new AbortController().signal;
const LIMIT_MS = 120_000;

type Case = {
  readonly file: string;
  readonly text: string;
  readonly tests: Readonly<Record<string, string>>;
  readonly argv: readonly string[];
  /** What is put in place of `old`, one text for each candidate. */
  readonly old: string;
  readonly news: readonly string[];
  /** What has to answer for the case to be tried. */
  readonly needs: readonly [string, ...string[]];
};

const PYTHON: Case = {
  file: "scale.py",
  text: "def scale(items, by):\n    return [item - by for item in items]\n",
  tests: {
    "test_scale.py":
      "from scale import scale\n\n\ndef test_scale():\n    assert scale([2, 0], 2) == [4, 2]\n    assert scale([], 1) == []\n",
  },
  argv: ["python3", "-m", "pytest", "-q"],
  old: "item - by",
  news: ["item + by", "by + item", "item + 2"],
  needs: ["python3", "-m", "pytest", "--version"],
};

const CASES: Readonly<Record<string, Case>> = {
  "Python under pytest": PYTHON,
  "JavaScript under node": {
    file: "scale.js",
    text: "exports.scale = (items, by) => items.map((item) => item - by);\n",
    tests: {
      "scale.test.js": `const assert = require("node:assert");
const { scale } = require("./scale.js");
require("node:test")("scales", () => assert.deepEqual(scale([2, 0], 2), [4, 2]));
`,
    },
    argv: ["node", "--test"],
    old: "item - by",
    news: ["item + by", "by + item", "item + 2"],
    needs: ["node", "--version"],
  },
  "a module of JavaScript's": {
    file: "scale.mjs",
    text: "export function scale(items, by) {\n  return items.map((item) => item - by);\n}\n",
    tests: {
      "scale.test.mjs": `import assert from "node:assert";
import { test } from "node:test";
import { scale } from "./scale.mjs";
test("scales", () => assert.deepEqual(scale([2, 0], 2), [4, 2]));
`,
    },
    argv: ["node", "--test"],
    old: "item - by",
    news: ["item + by", "by + item", "item + 2"],
    needs: ["node", "--version"],
  },
  "plain Java": {
    file: "Scale.java",
    text: `import java.util.*;
class Scale {
  static List<Integer> scale(List<Integer> items, int by) {
    List<Integer> made = new ArrayList<>();
    for (int item : items) made.add(item - by);
    return made;
  }
}
`,
    tests: {
      "Main.java": `import java.util.*;
class Main {
  public static void main(String[] args) {
    if (!Scale.scale(List.of(2, 0), 2).equals(List.of(4, 2))) throw new AssertionError();
  }
}
`,
    },
    argv: ["sh", "-c", "javac -d out Scale.java Main.java && java -cp out Main"],
    old: "item - by",
    news: ["item + by", "by + item", "item + 2"],
    needs: ["javac", "-version"],
  },
};

async function known(given: Case): Promise<Behaviours | null> {
  const { file, text, tests, argv, old, news } = given;
  const root = await realpath(await mkdtemp(join(tmpdir(), "kai-behaviour-")));
  const syntax = await openSyntax();
  try {
    const [directory, scratch] = [join(root, "tree"), join(root, "scratch")];
    for (const path of [directory, scratch]) await mkdir(path);
    for (const [path, its] of Object.entries({ ...tests, [file]: text })) {
      await writeFile(join(directory, path), its);
    }
    const tree = await takeTree(directory, join(scratch, "ground"), false, NEVER);
    if (!tree.ok) throw new Error(tree.fault.message);
    const from = text.indexOf(old);
    const candidates = news.map((put): Candidate => {
      const edits = [{ file, from, to: from + old.length, text: put }];
      return { edits, operator: "test", site: { file, line: 1, function: null }, weight: 1 };
    });
    const { PATH = "", HOME = "" } = process.env;
    return await behaviours(
      candidates,
      {
        shell: plainShell(),
        tree: tree.value,
        place: join(scratch, "compare"),
        programs: await programsIn(scratch),
        command: { argv, cwd: "." },
        env: { PATH, HOME, LANG: "C.UTF-8" },
        sources: [await syntax.read(file, text)],
        baseMs: 10_000,
        nowMs: () => performance.now(),
      },
      NEVER,
    );
  } finally {
    syntax.close();
    await rm(root, { recursive: true, force: true });
  }
}

test.for(Object.entries(CASES))(
  "what candidates do is told apart in %s",
  { timeout: LIMIT_MS },
  async ([name, given], { skip }) => {
    const [program, ...rest] = given.needs;
    skip(spawnSync(program, rest).status !== 0, `${name} is not on this machine`);
    const found = await known(given);
    const [plus = [], turned = [], two = []] = found?.outcomes ?? [];
    expect(found?.inputs.length).toBeGreaterThan(20);
    expect(differing(plus, turned)).toBe(0);
    expect(differing(plus, two)).toBeGreaterThan(0.1);
    // On what the tests themselves ask, all do the same.
    expect(plus[0]).toMatch(/^v/);
    expect(two[0]).toBe(plus[0]);
  },
);

test("a candidate that does not end on some input is said not to, and is not waited for", {
  timeout: LIMIT_MS,
}, async () => {
  const text = `exports.count = (n) => {
  let left = n;
  while (left > 0) left -= 2;
  return left;
};
`;
  const found = await known({
    ...PYTHON,
    file: "count.js",
    text,
    tests: {
      "count.test.js": `const assert = require("node:assert");
require("node:test")("counts", () => assert.equal(require("./count.js").count(4), 0));
`,
    },
    argv: ["node", "--test"],
    old: "left > 0",
    news: ["left > 0", "left !== 0"],
  });
  const [ends = [], hangs = []] = found?.outcomes ?? [];
  expect(ends).not.toContain("t");
  expect(hangs).toContain("t");
  expect(differing(ends, hangs)).toBeGreaterThan(0);
});
