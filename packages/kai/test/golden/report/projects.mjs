// Tiny projects with known faults, and by hand what their runs must be read as: Python, JavaScript.
// A failure is [test, file, kind, a part of the message, frames as "file:line function"].

const calcPy = `def add(a, b):
    return a - b


def ratio(a, b):
    return a / b
`;

const words = "tests/test_calc.py::test_words[a - b]";
const ofNothing = "tests/test_calc.py::TestRatio::test_of_nothing";
const pytestFailures = [
  [
    "tests/test_calc.py::test_adds[1-2-3]",
    "tests/test_calc.py",
    "assertion",
    "assert -1 == 3",
    ["tests/test_calc.py:12 test_adds"],
  ],
  [
    words,
    "tests/test_calc.py",
    "assertion",
    "'a - b' == 'a-b'",
    ["tests/test_calc.py:17 test_words"],
  ],
  [
    ofNothing,
    "tests/test_calc.py",
    "error",
    "ZeroDivisionError: division by zero",
    ["pkg/calc.py:6 ratio", "tests/test_calc.py:22 test_of_nothing"],
  ],
];
/** The summary clips its messages to the width of the terminal. */
const summarized = ["assert -1 == 3", "AssertionError: assert", "ZeroDivisionError: di"].map(
  (part, at) => [...pytestFailures[at].slice(0, 3), part, []],
);
/** The same from a directory that is then the root. */
const below = pytestFailures.map((it) => [it[0].replace("tests/", ""), ...it.slice(1)]);
const pytest = (...args) => ["python3", "-m", "pytest", ...args];

const pytestProject = {
  name: "pytest",
  tools: ["pytest-7", "pytest-8", "pytest-9"],
  files: {
    "pkg/__init__.py": "",
    "pkg/calc.py": calcPy,
    "tests/test_calc.py": `import pytest

from pkg.calc import add, ratio


def test_keeps_zero():
    assert add(0, 0) == 0


@pytest.mark.parametrize("a,b,sum", [(1, 2, 3), (2, 0, 2)])
def test_adds(a, b, sum):
    assert add(a, b) == sum


@pytest.mark.parametrize("text", ["a - b"])
def test_words(text):
    assert text == "a-b"


class TestRatio:
    def test_of_nothing(self):
        assert ratio(1, 0) == 0
`,
  },
  expected: { runner: "pytest", passed: 2, failed: 3, failures: pytestFailures },
  runs: [
    { name: "plain", argv: pytest() },
    { name: "quiet", argv: pytest("-q") },
    { name: "verbose", argv: pytest("-v", "tests") },
    { name: "coloured", argv: pytest("--color=yes") },
    {
      name: "first",
      argv: pytest("-x", "-q"),
      expected: { passed: 1, failed: 1, failures: pytestFailures.slice(0, 1) },
    },
    { name: "short", argv: pytest("-q", "--tb=short") },
    { name: "native", argv: pytest("-q", "--tb=native") },
    {
      name: "line",
      argv: pytest("-q", "--tb=line"),
      expected: {
        failures: pytestFailures.map((it) => [...it.slice(0, 4), [it[4][0].replace(/ .*/, " ")]]),
      },
    },
    { name: "no traceback", argv: pytest("-q", "--tb=no"), expected: { failures: summarized } },
    {
      name: "no summary",
      argv: pytest("-q", "--no-summary"),
      tools: ["pytest-8"],
      expected: { failures: [["", null, "error", "3 failed, 2 passed", []]] },
    },
    { name: "no summary lines", argv: pytest("-q", "-rN") },
    { name: "passed ones too", argv: pytest("-rA") },
    { name: "locals", argv: pytest("-q", "--showlocals") },
    {
      name: "below",
      argv: pytest("-q"),
      cwd: "tests",
      env: { PYTHONPATH: ".." },
      expected: { failures: below },
    },
    { name: "distributed", argv: pytest("-n", "2"), tools: ["pytest-8"] },
    { name: "distributed verbose", argv: pytest("-v", "-n", "2"), tools: ["pytest-8"] },
    {
      name: "junit",
      argv: ["sh", "-c", "python3 -m pytest -q --junitxml=out.xml >/dev/null; cat out.xml; exit 1"],
    },
  ],
};

const pytestFixtures = {
  name: "pytest-fixture",
  tools: ["pytest-7", "pytest-9"],
  files: {
    "test_store.py": `import pytest


def opened(name):
    raise RuntimeError(f"no store {name}")


@pytest.fixture
def store():
    return opened("left")


@pytest.fixture
def closing():
    yield 1
    raise ValueError("closed twice")


def test_reads(store, capsys):
    assert store


def test_closes(closing):
    print("said here")
    assert closing == 1


def test_prints():
    print("FAILED test_store.py::test_fake - said by the test")
    print("= 3 failed =")
    try:
        opened("right")
    except RuntimeError as fault:
        raise AssertionError("could not open") from fault
`,
  },
  expected: {
    runner: "pytest",
    passed: 1,
    failed: 3,
    failures: [
      [
        "test_store.py::test_reads",
        "test_store.py",
        "error",
        "no store left",
        ["test_store.py:5 opened", "test_store.py:10 store"],
      ],
      [
        "test_store.py::test_closes",
        "test_store.py",
        "error",
        "closed twice",
        ["test_store.py:16 closing"],
      ],
      [
        "test_store.py::test_prints",
        "test_store.py",
        "assertion",
        "could not open",
        ["test_store.py:34 test_prints", "test_store.py:5 opened", "test_store.py:32 test_prints"],
      ],
    ],
  },
  runs: [
    { name: "plain", argv: pytest() },
    { name: "short", argv: pytest("--tb=short", "-q") },
  ],
};

const pytestBroken = {
  name: "pytest-broken",
  tools: ["pytest-7", "pytest-8", "pytest-9"],
  files: {
    "calc.py": "def add(a, b)\n    return a - b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_adds():\n    assert add(1, 2) == 3\n",
    "test_gone.py": "import sys\nfrom nowhere_at_all import add\n",
    "test_well.py": "def test_well():\n    pass\n",
  },
  expected: {
    runner: "pytest",
    passed: 0,
    failed: 2,
    failures: [
      ["test_calc.py", "test_calc.py", "load", "SyntaxError", ["calc.py:1 ", "test_calc.py:1 "]],
      [
        "test_gone.py",
        "test_gone.py",
        "load",
        "No module named 'nowhere_at_all'",
        ["test_gone.py:2 "],
      ],
    ],
  },
  runs: [
    { name: "plain", argv: pytest() },
    { name: "quiet", argv: pytest("-q") },
  ],
};

const unittestFailures = [
  [
    "test_calc.CalcTest.test_adds",
    "test_calc.py",
    "assertion",
    "-1 != 3",
    ["test_calc.py:11 test_adds"],
  ],
  [
    "test_calc.CalcTest.test_of_nothing",
    "test_calc.py",
    "error",
    "ZeroDivisionError: division by zero",
    ["calc.py:6 ratio", "test_calc.py:15 test_of_nothing"],
  ],
];

const unittestProject = {
  name: "unittest",
  tools: ["python-3.9", "python-3.13"],
  files: {
    "calc.py": calcPy,
    "test_calc.py": `import unittest

from calc import add, ratio


class CalcTest(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    def test_adds(self):
        self.assertEqual(add(1, 2), 3)

    def test_of_nothing(self):
        """Nothing divides anything."""
        self.assertEqual(ratio(1, 0), 0)


if __name__ == "__main__":
    unittest.main()
`,
  },
  expected: { runner: "unittest", passed: 1, failed: 2, failures: unittestFailures },
  runs: [
    { name: "plain", argv: ["python3", "-m", "unittest"] },
    { name: "verbose", argv: ["python3", "-m", "unittest", "-v", "test_calc"] },
    { name: "discover", argv: ["python3", "-m", "unittest", "discover"] },
    {
      name: "file",
      argv: ["python3", "test_calc.py"],
      expected: {
        failures: unittestFailures.map((it) => [
          it[0].replace("test_calc", "__main__"),
          ...it.slice(1),
        ]),
      },
    },
    {
      name: "first",
      argv: ["python3", "-m", "unittest", "-f", "test_calc"],
      expected: { passed: 0, failed: 1, failures: unittestFailures.slice(0, 1) },
    },
  ],
};

const unittestBroken = {
  name: "unittest-broken",
  tools: ["python-3.9", "python-3.13"],
  files: { "test_calc.py": "import unittest\nfrom nowhere_at_all import add\n" },
  expected: {
    runner: "unittest",
    passed: 0,
    failed: 1,
    failures: [
      [
        "test_calc",
        "test_calc.py",
        "load",
        "No module named 'nowhere_at_all'",
        ["test_calc.py:2 "],
      ],
    ],
  },
  runs: [{ name: "discover", argv: ["python3", "-m", "unittest", "discover"] }],
};

const calcJs = (exported) => `${exported ? "export " : ""}function add(a, b) {
  return a - b;
}

${exported ? "export " : ""}function first(list) {
  return list[0].name;
}
${exported ? "" : "\nmodule.exports = { add, first };\n"}`;

/** The same tests for the four runners of JavaScript: `head` is their first three lines. */
const testJs = (head, equal) => `${head}

describe("calc", () => {
  it("keeps zero", () => {
    ${equal("add(0, 0)", "0")};
  });

  it("adds", () => {
    ${equal("add(1, 2)", "3")};
  });

  describe("of lists", () => {
    it("names the first", () => {
      ${equal("first([])", '"ann"')};
    });
  });
});

it("a - b > (c)", async () => {
  await null;
  ${equal("add(2, 1)", "4")};
});
`;

const jsFailures = (join, file, parts, frames) => [
  [`calc${join}adds`, file, "assertion", parts[0], frames[0]],
  [
    `calc${join}of lists${join}names the first`,
    file,
    "error",
    "Cannot read properties of undefined (reading 'name')",
    frames[1],
  ],
  ["a - b > (c)", file, "assertion", parts[1], frames[2]],
];

const strict = (a, b) => `assert.strictEqual(${a}, ${b})`;
const toBe = (a, b) => `expect(${a}).toBe(${b})`;
const nodeFile = "test/calc.test.mjs";
const nodeFailures = jsFailures(
  " > ",
  nodeFile,
  ["-1 !== 3", "1 !== 4"],
  [[`${nodeFile}:11 `], ["src/calc.mjs:6 first", `${nodeFile}:16 `], [`${nodeFile}:23 `]],
);
const nodeTest = {
  name: "node-test",
  tools: ["system", "node-22", "node-24"],
  files: {
    "src/calc.mjs": calcJs(true),
    [nodeFile]: testJs(
      'import assert from "node:assert";\nimport { describe, it } from "node:test";\nimport { add, first } from "../src/calc.mjs";',
      strict,
    ),
  },
  expected: { runner: "node-test", passed: 1, failed: 3, failures: nodeFailures },
  runs: [
    { name: "plain", argv: ["node", "--test"] },
    { name: "spec", argv: ["node", "--test", "--test-reporter=spec", nodeFile] },
    {
      name: "coloured",
      argv: ["node", "--test", "--test-reporter=spec", nodeFile],
      env: { FORCE_COLOR: "1" },
    },
    { name: "tap", argv: ["node", "--test", "--test-reporter=tap", nodeFile] },
    {
      name: "dot",
      argv: ["node", "--test", "--test-reporter=dot", nodeFile],
      // It names no suites.
      expected: {
        passed: null,
        failed: null,
        failures: nodeFailures.map((it) => [
          it[0].replace(/^calc > (?:of lists > )?/, ""),
          ...it.slice(1),
        ]),
      },
    },
    {
      name: "junit",
      argv: ["node", "--test", "--test-reporter=junit", nodeFile],
    },
    { name: "by itself", argv: ["node", nodeFile] },
  ],
};

const nodeBroken = {
  name: "node-test-broken",
  tools: ["system", "node-24"],
  files: {
    "calc.mjs": "export function add(a, b) {\n  return a - ;\n}\n",
    "calc.test.mjs":
      'import { test } from "node:test";\nimport { add } from "./calc.mjs";\n\ntest("adds", () => add(1, 2));\n',
  },
  expected: {
    runner: "node-test",
    passed: 0,
    failed: 1,
    failures: [
      [
        "calc.test.mjs",
        "calc.test.mjs",
        "load",
        "SyntaxError: Unexpected token ';'",
        ["calc.mjs:2 "],
      ],
    ],
  },
  runs: [
    { name: "spec", argv: ["node", "--test", "--test-reporter=spec", "calc.test.mjs"] },
    { name: "tap", argv: ["node", "--test", "--test-reporter=tap", "calc.test.mjs"] },
  ],
};

const vitestFile = "test/calc.test.ts";
const vitestFailures = jsFailures(
  " > ",
  vitestFile,
  ["expected -1 to be 3", "expected 1 to be 4"],
  [[`${vitestFile}:11 `], ["src/calc.ts:6 first", `${vitestFile}:16 `], [`${vitestFile}:23 `]],
);
const vitest = {
  name: "vitest",
  tools: ["vitest-2", "vitest-3", "vitest-4"],
  files: {
    "package.json": '{ "type": "module", "scripts": { "test": "vitest run" } }\n',
    "src/calc.ts": calcJs(true),
    [vitestFile]: testJs(
      'import { describe, expect, it } from "vitest";\n\nimport { add, first } from "../src/calc.ts";',
      toBe,
    ),
  },
  expected: { runner: "vitest", passed: 1, failed: 3, failures: vitestFailures },
  runs: [
    { name: "plain", argv: ["npx", "vitest", "run"] },
    { name: "verbose", argv: ["npx", "vitest", "run", "--reporter=verbose"] },
    { name: "coloured", argv: ["npx", "vitest", "run"], env: { FORCE_COLOR: "1" } },
    { name: "dot", argv: ["npx", "vitest", "run", "--reporter=dot"] },
    { name: "script", argv: ["npm", "test"] },
    {
      name: "tap",
      argv: ["npx", "vitest", "run", "--reporter=tap"],
      // It tells one place of a failure.
      expected: {
        failures: vitestFailures.map((it) => [...it.slice(0, 4), [it[4][0].replace("first", "")]]),
      },
    },
    {
      name: "junit",
      argv: ["npx", "vitest", "run", "--reporter=junit"],
    },
  ],
};

const vitestBroken = {
  name: "vitest-broken",
  tools: ["vitest-2", "vitest-4"],
  files: {
    "package.json": '{ "type": "module" }\n',
    "calc.js": "export function add(a, b) {\n  return a - ;\n}\n",
    "calc.test.js":
      'import { expect, it } from "vitest";\nimport { add } from "./calc.js";\n\nit("adds", () => expect(add(1, 2)).toBe(3));\n',
    "well.test.js": 'import { it } from "vitest";\n\nit("is well", () => {});\n',
  },
  expected: {
    runner: "vitest",
    passed: 1,
    failed: 1,
    failures: [["calc.test.js", "calc.test.js", "load", "rror", ["calc.js:2 "]]],
  },
  runs: [
    { name: "plain", argv: ["npx", "vitest", "run"], tools: ["vitest-4"] },
    {
      name: "nowhere",
      argv: ["npx", "vitest", "run"],
      tools: ["vitest-2"],
      // Its error says no place.
      expected: {
        failures: [["calc.test.js", "calc.test.js", "load", "Expression expected", []]],
      },
    },
  ],
};

const jestFile = "test/calc.test.js";
const jestHead = (assert) =>
  `${assert ? 'const assert = require("node:assert");' : "// The runner's own expect."}\n\nconst { add, first } = require("../src/calc.js");`;
const jestFrames = [
  [`${jestFile}:11 `],
  ["src/calc.js:6 ", `${jestFile}:16 `],
  [`${jestFile}:23 `],
];
const jest = {
  name: "jest",
  tools: ["jest-29", "jest-30"],
  files: {
    "package.json": '{ "scripts": { "test": "jest" }, "jest": {} }\n',
    "src/calc.js": calcJs(false),
    [jestFile]: testJs(jestHead(false), toBe),
  },
  expected: {
    runner: "jest",
    passed: 1,
    failed: 3,
    failures: jsFailures(" › ", jestFile, ["Received: -1", "Received: 1"], jestFrames),
  },
  runs: [
    { name: "plain", argv: ["npx", "jest"] },
    { name: "verbose", argv: ["npx", "jest", "--verbose"] },
    { name: "coloured", argv: ["npx", "jest", "--colors"] },
    { name: "script", argv: ["npm", "test", "--silent"] },
    { name: "ci", argv: ["npx", "jest", "--ci", "--runInBand"], env: { CI: "true" } },
  ],
};

const jestBroken = {
  name: "jest-broken",
  tools: ["jest-29", "jest-30"],
  files: {
    "package.json": '{ "jest": {} }\n',
    "calc.js": "module.exports.add = function add(a, b) {\n  return a - ;\n};\n",
    "calc.test.js":
      'const { add } = require("./calc.js");\n\nit("adds", () => expect(add(1, 2)).toBe(3));\n',
    "gone.test.js":
      'const { add } = require("./gone.js");\n\nit("adds", () => expect(add(1, 2)).toBe(3));\n',
  },
  expected: {
    runner: "jest",
    passed: 0,
    failed: 2,
    failures: [
      ["calc.test.js", "calc.test.js", "load", "SyntaxError", ["calc.js:2 ", "calc.test.js:1 "]],
      [
        "gone.test.js",
        "gone.test.js",
        "load",
        "Cannot find module './gone.js'",
        ["gone.test.js:1 "],
      ],
    ],
  },
  runs: [{ name: "plain", argv: ["npx", "jest", "--runInBand"] }],
};

const mochaFailures = jsFailures(
  " ",
  jestFile,
  ["-1 !== 3", "1 !== 4"],
  [[`${jestFile}:11 `], ["src/calc.js:6 first", `${jestFile}:16 `], [`${jestFile}:23 `]],
);
const mocha = {
  name: "mocha",
  tools: ["mocha-10", "mocha-11"],
  files: { "src/calc.js": calcJs(false), [jestFile]: testJs(jestHead(true), strict) },
  expected: {
    runner: "mocha",
    passed: 1,
    failed: 3,
    failures: [mochaFailures[2], mochaFailures[0], mochaFailures[1]],
  },
  runs: [
    { name: "plain", argv: ["npx", "mocha"] },
    { name: "coloured", argv: ["npx", "mocha", "--color", jestFile] },
    { name: "dot", argv: ["npx", "mocha", "--reporter", "dot"] },
    { name: "tap", argv: ["npx", "mocha", "--reporter", "tap"] },
    { name: "junit", argv: ["npx", "mocha", "--reporter", "xunit"] },
    {
      name: "first",
      argv: ["npx", "mocha", "--bail"],
      expected: { passed: 0, failed: 1, failures: [mochaFailures[2]] },
    },
  ],
};

export const projects = [
  pytestProject,
  pytestFixtures,
  pytestBroken,
  unittestProject,
  unittestBroken,
  nodeTest,
  nodeBroken,
  vitest,
  vitestBroken,
  jest,
  jestBroken,
  mocha,
];
