import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Coverage, type Covered, cover, ochiai } from "../src/locate/coverage.ts";
import type { Report, Runner } from "../src/report/report.ts";
import { plainShell } from "./shell.ts";

let root = "";
let home = "";
const never: AbortSignal = new AbortController().signal;

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "kai coverage-")));
  root = join(home, "tree");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function tree(files: Readonly<Record<string, string>>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
}

type Ask = {
  readonly failing?: string;
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
};

function run(runner: Runner, argv: readonly string[], ask: Ask = {}): Promise<Covered> {
  const { failing = null, deadlineMs = 30_000, signal = never } = ask;
  const failure = {
    test: "a test",
    file: failing,
    kind: "assertion",
    message: "",
    frames: [],
  } as const;
  const report: Report = { runner, failures: [failure], passedCount: null, failedCount: null };
  const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "" };
  const scratch = join(home, "scratch");
  const command = { argv, cwd: "." };
  const run = { shell: plainShell(), command, report, root, scratch, env, deadlineMs };
  return cover({ ...run, inWorker: null }, signal);
}

function told(covered: Covered): Coverage {
  if (covered.kind === "none") throw new Error(covered.why);
  expect(readdirSync(home)).toEqual(["tree"]);
  return covered.coverage;
}

/** A file's lines as `line: failing/passing`. */
function lines(coverage: Coverage, file: string): readonly string[] {
  return [...(coverage.files.get(file) ?? [])]
    .toSorted(([a], [b]) => a - b)
    .map(([line, { failing, passing }]) => `${line}: ${failing}/${passing}`);
}

function has(program: string, ...args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore", cwd: tmpdir() });
    return true;
  } catch {
    return false;
  }
}

/** The one that is found, and of those that pyenv keeps the oldest and newest with each way to look. */
function pythons(): readonly (readonly string[])[] {
  const kept = has("pyenv", "--version")
    ? execFileSync("pyenv", ["versions", "--bare"], { encoding: "utf8" }).split("\n")
    : [];
  const found = ["3.8", "3.12", "3.13"].map(
    (minor) => kept.find((version) => version.startsWith(`${minor}.`)) ?? `${minor}.0`,
  );
  return [["python3"], ...found.map((version) => [`PYENV_VERSION=${version}`, "python3"])];
}

const PYTHON = {
  "lib.py": [
    "LIMIT = 3", // 1
    "", // 2
    "def low(x):", // 3
    "    if x > LIMIT:", // 4
    "        return x", // 5
    "    return 0", // 6
    "", // 7
    "class Box:", // 8
    "    size = 2", // 9
    "    def grow(self):", // 10
    "        return [n for n in range(self.size)]", // 11
    "",
  ].join("\n"),
};
const PYTHON_LINES = ["4: 1/1", "5: 1/0", "6: 0/1", "11: 1/0"];

const unittest = {
  ...PYTHON,
  "test_lib.py": [
    "import unittest",
    "from lib import Box, low",
    "class T(unittest.TestCase):",
    "    def test_high(self):",
    "        Box().grow()",
    "        self.assertEqual(low(4), 0)",
    "    def test_low(self):",
    "        self.assertEqual(low(1), 0)",
    "    @unittest.skip('not now')",
    "    def test_not(self):",
    "        low(9)",
    "",
  ].join("\n"),
};

describe("coverage of Python", { timeout: 60_000 }, () => {
  test("tells failing and passing tests apart under pytest", async (context) => {
    context.skip(!has("python3", "-c", "import pytest"), "pytest is not there");
    tree({
      ...PYTHON,
      "test_lib.py": [
        "import pytest",
        "from lib import Box, low",
        "def test_high():",
        "    Box().grow()",
        "    assert low(4) == 0",
        "def test_low():",
        "    assert low(1) == 0",
        "@pytest.mark.skip",
        "def test_not():",
        "    low(9)",
        "@pytest.mark.xfail",
        "def test_known():",
        "    assert low(8) == 0",
        "",
      ].join("\n"),
    });
    const coverage = told(await run("pytest", ["python3", "-m", "pytest", "-q"]));
    expect(coverage).toMatchObject({ grain: "test", failingCount: 1, passingCount: 1 });
    expect(lines(coverage, "lib.py")).toEqual(PYTHON_LINES);
  });

  test.for(pythons())("tells them apart under unittest, with $0", async (python, context) => {
    context.skip(!has("env", ...python, "-c", "pass"), "it is not there");
    tree(unittest);
    const coverage = told(await run("unittest", ["env", ...python, "-m", "unittest", "-q"]));
    expect(coverage).toMatchObject({ grain: "test", failingCount: 1, passingCount: 1 });
    expect(lines(coverage, "lib.py").map((line) => line.replace(/^11: .*/, "11: 1/0"))).toEqual(
      PYTHON_LINES,
    );
  });

  test("interrupts a test that does not end, and counts what it ran", async () => {
    tree({
      "lib.py": "def spin(n):\n    while n:\n        n += 1\n    return n\n",
      "test_lib.py": unittest["test_lib.py"]
        .replace("from lib import Box, low", "from lib import spin")
        .replace("Box().grow()", "spin(1)")
        .replace("low(1)", "spin(0)"),
    });
    const covered = await run("unittest", ["python3", "-m", "unittest"], { deadlineMs: 4_000 });
    const coverage = told(covered);
    expect(coverage).toMatchObject({ failingCount: 1, passingCount: 1 });
    expect(lines(coverage, "lib.py")).toEqual(["2: 1/1", "3: 1/0", "4: 0/1"]);
  });

  test("takes a script with no runner as one run", async () => {
    tree({ ...PYTHON, "check.py": "from lib import low\nassert low(4) == 0\n" });
    const coverage = told(await run("unknown", ["python3", "check.py"], { failing: "check.py" }));
    expect(coverage).toMatchObject({ grain: "process", failingCount: 1, passingCount: 0 });
    expect(lines(coverage, "lib.py")).toEqual(["4: 1/0", "5: 1/0"]);
  });
});

const NODE = {
  "lib.js": [
    "const LIMIT = 3;", // 1
    "function low(x) {", // 2
    "  if (x > LIMIT) {", // 3
    "    return x;", // 4
    "  }", // 5
    "  return 0;", // 6
    "}", // 7
    "const unused = () => {", // 8
    "  return 1;", // 9
    "};", // 10
    "module.exports = { low, unused };", // 11
    "",
  ].join("\n"),
};
const NODE_LINES = ["2: 1/1", "3: 1/1", "4: 1/0", "6: 0/1"];

describe("coverage of node", { timeout: 60_000 }, () => {
  test("tells failing and passing tests apart under node:test, nested ones too", async () => {
    tree({
      ...NODE,
      "lib.test.js": [
        "const test = require('node:test');",
        "const assert = require('node:assert');",
        "const { low } = require('./lib.js');",
        "test('low', () => assert.equal(low(1), 0));",
        "test('outer', async (t) => {",
        "  await t.test('high', () => assert.equal(low(4), 0));",
        "});",
        "",
      ].join("\n"),
    });
    const coverage = told(await run("node-test", ["node", "--test", "lib.test.js"]));
    expect(coverage).toMatchObject({ grain: "test", failingCount: 2, passingCount: 1 });
    // The outer test failed by its part, and ran what that did.
    expect(lines(coverage, "lib.js")).toEqual(NODE_LINES.map((line) => line.replace("1/", "2/")));
  });

  test("tells the processes of test files apart, and what they start is of no test", async () => {
    tree({
      ...NODE,
      "tool.js": "const { unused } = require('./lib.js');\nunused();\n",
      "a.test.js": [
        "const { execFileSync } = require('node:child_process');",
        "const { low } = require('./lib.js');",
        "require('node:test')('a', () => {",
        "  execFileSync(process.execPath, ['tool.js']);",
        "  if (low(4) !== 0) throw new Error('high');",
        "});",
        "",
      ].join("\n"),
      "b.test.js": "require('node:test')('b', () => require('./lib.js').low(1));\n",
    });
    const coverage = told(await run("node-test", ["node", "--test", "a.test.js", "b.test.js"]));
    expect(coverage).toMatchObject({ grain: "test", failingCount: 1, passingCount: 1 });
    expect(lines(coverage, "lib.js")).toEqual(NODE_LINES);
  });

  test("follows the source map that a script ends with", async () => {
    const mappings = "AAEA;AACA;AACA";
    const map = { version: 3, sources: ["lib.ts"], names: [], mappings };
    const inline = Buffer.from(JSON.stringify(map)).toString("base64");
    tree({
      "lib.ts": "// a type\n// another\nexport function one() {\n  return 1;\n}\n",
      "lib.js": [
        "exports.one = function () {",
        "  return 1;",
        "};",
        `//# sourceMappingURL=data:application/json;base64,${inline}`,
        "",
      ].join("\n"),
      "check.js": "if (require('./lib.js').one() !== 2) process.exit(1);\n",
    });
    const coverage = told(await run("unknown", ["node", "check.js"]));
    expect(coverage).toMatchObject({ grain: "process", failingCount: 1 });
    expect(lines(coverage, "lib.ts")).toEqual(["3: 1/0", "4: 1/0"]);
  });
});

describe("coverage that cannot be taken", { timeout: 60_000 }, () => {
  test("is none, with a reason, and leaves nothing", async () => {
    tree({ "a.sh": "exit 1\n" });
    expect(await run("go", ["true"])).toEqual({ kind: "none", why: "no coverage is taken of go" });
    const silent = await run("unknown", ["sh", "a.sh"]);
    expect(silent).toEqual({ kind: "none", why: "no process said what it ran" });
    expect(readdirSync(home)).toEqual(["tree"]);
  });

  test("is none after the deadline, and the process is gone", async () => {
    tree({
      "spin.js": "require('node:fs').writeFileSync('pid', String(process.pid)); for (;;) {}\n",
    });
    const late = await run("unknown", ["node", "spin.js"], { deadlineMs: 2_000 });
    expect(late).toEqual({ kind: "none", why: "the run with a probe took too long" });
    const pid = Number(execFileSync("cat", [join(root, "pid")], { encoding: "utf8" }));
    expect(() => process.kill(pid, 0)).toThrow();
  });

  test("rejects when it is aborted", async () => {
    tree({ "spin.js": "for (;;) {}\n" });
    const signal = AbortSignal.timeout(300);
    await expect(run("unknown", ["node", "spin.js"], { signal })).rejects.toThrow();
    expect(readdirSync(home)).toEqual(["tree"]);
  });
});

test("Ochiai's coefficient is 1 for what all failing tests and no other ran", () => {
  const coverage: Coverage = { grain: "test", failingCount: 2, passingCount: 4, files: new Map() };
  expect(ochiai({ failing: 2, passing: 0 }, coverage)).toBe(1);
  expect(ochiai({ failing: 0, passing: 4 }, coverage)).toBe(0);
  expect(ochiai({ failing: 1, passing: 1 }, coverage)).toBe(0.5);
});
