import { spawnSync } from "node:child_process";
import type { Project } from "./trial-notation.ts";

/** A project of some runner's, and candidates for it of which each becomes something else. */
export type Sample = Project & {
  /** What the trials call themselves. */
  readonly name: string;
  /** A program that it needs. */
  readonly needs: readonly string[];
  readonly file: string;
  /** The faulty text, and what may stand in its place. */
  readonly fault: string;
  readonly right: string;
  readonly wrong: string;
  readonly broken: string;
  readonly hanging: string;
  /** What is said of the wrong one. */
  readonly failure: string;
};

const PYTHON = {
  files: {
    "clamp.py": "def clamp(x, low, high):\n    return max(low, min(x, low))\n",
    "test_clamp.py": `from clamp import clamp

def test_below():
    assert clamp(1, 2, 5) == 2

def test_inside():
    assert clamp(3, 2, 5) == 3
`,
  },
  needs: ["python3", "-m", "pytest", "--version"],
  file: "clamp.py",
  fault: "max(low, min(x, low))",
  right: "max(low, min(x, high))",
  // It fails in one test, so that it is no matter which of them runs first.
  wrong: "max(low, min(x, low - 1))",
  broken: "max(low, min(x, low",
  failure: "failed test_clamp.py::test_inside",
  base: { failingTests: ["test_clamp.py::test_inside"], testCount: 2 },
};

const NODE_FILE = `exports.clamp = (x, low, high) => {
  return Math.max(low, Math.min(x, low));
};
`;
const NODE = {
  needs: ["node", "--version"],
  file: "clamp.js",
  fault: "return Math.max(low, Math.min(x, low));",
  right: "return Math.max(low, Math.min(x, high));",
  wrong: "return Math.max(high, Math.min(x, low));",
  broken: "return Math.max(low, Math.min(x, low);",
  hanging: "for (;;) {}",
};
const CHECK = `const assert = require("node:assert");
const { clamp } = require("./clamp.js");
assert.strictEqual(clamp(1, 2, 5), 2);
assert.strictEqual(clamp(3, 2, 5), 3);
`;

const SAMPLES: readonly Sample[] = [
  {
    ...PYTHON,
    name: "pytest forked after collecting",
    argv: ["python3", "-m", "pytest", "-q"],
    hanging: "[x for _ in iter(int, 1)]",
  },
  {
    ...PYTHON,
    name: "pytest forked",
    // A table made at load is no function, so that no candidate can be put in its place.
    files: {
      ...PYTHON.files,
      "clamp.py": "import clamp_table\nfrom clamp_table import *\n",
      "clamp_table.py":
        "TABLE = {(x, l, h): max(l, min(x, l)) for x, l, h in [(1, 2, 5), (3, 2, 5)]}\n\n\ndef clamp(*given):\n    return TABLE[given]\n",
      "conftest.py":
        "from clamp_table import clamp\nclamp.__code__ = clamp.__code__.replace(co_name='other')\n",
    },
    file: "clamp_table.py",
    fault: "max(l, min(x, l))",
    right: "max(l, min(x, h))",
    wrong: "max(l, min(x, l - 1))",
    broken: "max(l, min(x, l)",
    hanging: "[x for _ in iter(int, 1)]",
    argv: ["timeout", "60", "python3", "-m", "pytest", "-q"],
  },
  {
    ...NODE,
    name: "node in realms",
    files: {
      "clamp.js": NODE_FILE,
      "clamp.test.js": `const assert = require("node:assert");
const { test } = require("node:test");
const { clamp } = require("./clamp.js");
test("below", () => assert.strictEqual(clamp(1, 2, 5), 2));
test("inside", () => assert.strictEqual(clamp(3, 2, 5), 3));
`,
    },
    argv: ["node", "--test", "clamp.test.js"],
    failure: "failed below",
    base: { failingTests: ["inside"], testCount: 2 },
  },
  {
    ...NODE,
    name: "node in realms",
    files: { "clamp.js": NODE_FILE, "check.js": CHECK },
    argv: ["node", "check.js"],
    failure: "failed check.js",
  },
  {
    ...NODE,
    name: "cold",
    files: { "clamp.js": NODE_FILE, "check.js": CHECK },
    argv: ["node", "--stack-size=900", "check.js"],
    failure: "failed",
  },
  {
    name: "java in one machine",
    needs: ["javac", "-version"],
    files: {
      "Clamp.java":
        "class Clamp {\n  static int clamp(int x, int low, int high) {\n    return Math.max(low, Math.min(x, low));\n  }\n}\n",
      "Main.java": `public class Main {
  public static void main(String[] args) {
    if (Clamp.clamp(1, 2, 5) != 2) throw new AssertionError("below");
    if (Clamp.clamp(3, 2, 5) != 3) System.exit(3);
  }
}
`,
    },
    argv: ["sh", "-c", "rm -rf out && javac -d out Clamp.java Main.java && java -cp out Main"],
    file: "Clamp.java",
    fault: "return Math.max(low, Math.min(x, low));",
    right: "return Math.max(low, Math.min(x, high));",
    wrong: "return Math.max(high, Math.min(x, low));",
    broken: "return Math.max(low, Math.min(x, low);",
    hanging: "for (;;) {}",
    failure: "failed",
  },
];

/** Every kind of trials, with whether its program is here. */
export const KINDS: readonly (Sample & { readonly isHere: boolean })[] = SAMPLES.map((sample) => {
  const [program = "", ...rest] = sample.needs;
  return { ...sample, isHere: spawnSync(program, rest).status === 0 };
});
