import { existsSync } from "node:fs";
import { join } from "node:path";
import { test as base, describe, expect } from "vitest";
import { type Bench, bench, fingerprint, type Project } from "./trial-notation.ts";

const LIMIT_MS = 120_000;
const REALMS = "node in realms";

function project(
  files: Record<string, string>,
  argv = ["node", "--test", "half.test.js"],
): Project {
  return { files, argv };
}

const test = (name: string, made: Project, act: (at: Bench) => Promise<void>) =>
  base(name, { timeout: LIMIT_MS }, async () => {
    await using at = await bench(made);
    const before = fingerprint(at.workspace);
    await act(at);
    expect(fingerprint(at.workspace)).toBe(before);
  });

const HALF = {
  "half.js": "exports.half = (n) => {\n  return n / 3;\n};\n",
  "half.test.js": `const assert = require("node:assert");
const test = require("node:test");
const { half } = require("./half.js");
test("half", () => {
  assert.deepStrictEqual([half(6)], [3]);
  assert.strictEqual(Math.abs(-1), 1);
});
`,
};

describe("a candidate that does harm", () => {
  const harms: readonly (readonly [string, string])[] = [
    ["overwrites a global", "Math.abs = () => 5"],
    [
      "overwrites what node lends to all",
      "require('node:assert').deepStrictEqual = () => { throw 1; }",
    ],
    [
      "changes a prototype of the host's",
      "Object.getPrototypeOf(process.nextTick).call = null; throw 1",
    ],
    ["exits", "process.exit(1)"],
    ["exits as a test runner would not", "process.reallyExit(1)"],
    ["goes to the limit of the stack", "(function f() { f(); f(); })()"],
    ["takes memory without bound", "const all = []; for (;;) all.push(new Array(100_000).fill(n))"],
    [
      "throws where nobody catches it",
      "process.nextTick(() => { throw new Error('late'); }); throw 1",
    ],
  ];
  for (const [what, code] of harms) {
    test(`that ${what} fails, and the next is as before`, project(HALF), async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("half.js", "return n / 3;", `${code};`)).toMatch(/^failed/);
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
      expect(await at.kind("half.js", "n / 3", "n / 4")).toBe("failed half");
    });
  }

  test("by writing into the tree leaves nothing for the next", project(HALF), async (at) => {
    const write = "require('node:fs').writeFileSync('data', ''); return n / 2;";
    expect(await at.kind("half.js", "return n / 3;", write)).toBe("passed");
    const look = "return require('node:fs').existsSync('data') ? 0 : n / 2;";
    expect(await at.kind("half.js", "return n / 3;", look)).toBe("passed");
    expect(existsSync(join(at.workspace, "data"))).toBe(false);
  });
});

describe("what node's own runner does is done", () => {
  test(
    "for suites, hooks, subtests, callbacks, todo, skip and promises",
    project({
      "half.js": HALF["half.js"],
      "half.test.js": `const assert = require("node:assert/strict");
const { after, afterEach, before, beforeEach, describe, it, test } = require("node:test");
const { half } = require("./half.js");
const seen = [];
before(() => seen.push("root"));
describe("suite", () => {
  before(() => seen.push("before"));
  beforeEach(() => seen.push("each"));
  afterEach(() => seen.push("done"));
  after(() => seen.push("after"));
  it("waits", async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push("waits");
  });
  it("calls back", (t, done) => setImmediate(done));
  it.skip("skips", () => assert.fail());
  it("is to do", { todo: true }, () => assert.fail());
  describe("inner", () => it("halves", () => assert.equal(half(6), 3)));
});
test("order", async (t) => {
  await t.test("sub", () => seen.push("sub"));
  assert.deepEqual(seen.filter((one) => one !== "each" && one !== "done"), ["root", "before", "waits", "after", "sub"]);
});
test("mocks", (t) => {
  const act = t.mock.fn(() => 1);
  act();
  assert.equal(act.mock.calls.length, 1);
});
`,
    }),
    async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
      expect(await at.kind("half.js", "n / 3", "n / 4")).toBe("failed suite > inner > halves");
    },
  );

  test(
    "for modules, with what they import from CommonJS, JSON and node",
    project(
      {
        "package.json": '{ "type": "module" }',
        "half.js": 'import { by } from "./by.cjs";\nexport const half = (n) => n / by - 1;\n',
        "by.cjs": "module.exports = { by: 2, other: 1 };",
        "half.test.js": `import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { half } from "./half.js";
const { type } = createRequire(import.meta.url)("./package.json");
await Promise.resolve();
test("half", async () => {
  assert.strictEqual(half(6), 3);
  assert.strictEqual(type, "module");
  assert.ok(readFileSync(new URL("./by.cjs", import.meta.url), "utf8").includes("by"));
  assert.strictEqual((await import("./by.cjs")).other, 1);
});
`,
      },
      ["node", "--test"],
    ),
    async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("half.js", "n / by - 1", "n / by")).toBe("passed");
      expect(await at.kind("half.js", "n / by - 1", "n / by + 1")).toBe("failed half");
      expect(await at.kind("half.js", "n / by - 1", "n / by -")).toBe("broken");
      expect(await at.kind("by.cjs", "by: 2", "by: 1.5")).toBe("passed");
    },
  );

  test(
    "for a program that ends with what it began",
    project(
      {
        "half.js": HALF["half.js"],
        "check.js": `const { half } = require("./half.js");
setTimeout(() => {
  if (half(6) !== 3) process.exitCode = 1;
}, 20);
process.on("exit", () => {
  if (half(0) !== 0) process.exitCode = 2;
});
`,
      },
      ["node", "check.js"],
    ),
    async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
      expect(await at.kind("half.js", "n / 3", "n / 2 + (n === 0 ? 1 : 0)")).toMatch(/^failed/);
      expect(await at.kind("half.js", "n / 3", "n / 4")).toMatch(/^failed/);
    },
  );

  test(
    "for tests that are picked by their names",
    project(HALF, ["node", "--test", "--test-name-pattern=^half$", "half.test.js"]),
    async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
    },
  );
});

describe("what a realm cannot be sure of is left to the command", () => {
  test(
    "such as a test that starts a process",
    project({
      ...HALF,
      "half.test.js": `const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const test = require("node:test");
test("half", () => {
  const code = "process.exit(require('./half.js').half(6) === 3 ? 0 : 1)";
  assert.strictEqual(spawnSync(process.execPath, ["-e", code]).status, 0);
});
`,
    }),
    async (at) => {
      expect(at.trials.name).toBe("cold");
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
    },
  );

  test(
    "such as clocks that are mocked",
    project({
      ...HALF,
      "half.test.js": `const assert = require("node:assert");
const test = require("node:test");
const { half } = require("./half.js");
test("half", (t) => {
  t.mock.timers.enable();
  assert.strictEqual(half(6), 3);
});
`,
    }),
    async (at) => {
      expect(at.trials.name).toBe("cold");
      expect(await at.kind("half.js", "n / 3", "n / 2")).toBe("passed");
    },
  );

  test(
    "such as a candidate whose change is in no script",
    project({
      "half.js":
        'exports.half = (n) => n / Number(require("fs").readFileSync("by.txt", "utf8"));\n',
      "by.txt": "3",
      "half.test.js": HALF["half.test.js"],
    }),
    async (at) => {
      expect(at.trials.name).toBe(REALMS);
      expect(await at.kind("by.txt", "3", "2")).toBe("passed");
      expect(await at.kind("by.txt", "3", "4")).toMatch(/^failed/);
    },
  );
});
