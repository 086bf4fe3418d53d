import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { runnerOf } from "../src/report/invocation.ts";
import { nothingRun } from "../src/report/nothing.ts";
import { readReport } from "../src/report/reading.ts";
import type { Output } from "../src/report/report.ts";
import { workspaceOf } from "../src/report/workspace.ts";
import { goldens } from "./golden.ts";

type Files = Readonly<Record<string, string>>;

const has = (program: string, ...args: readonly string[]): boolean =>
  spawnSync(program, args, { stdio: "ignore" }).status === 0;

/** What a command says of a tree: why it had nothing to run, or null for a failure to mend. */
function said(files: Files, argv: readonly string[]): string | null {
  const directory = mkdtempSync(join(tmpdir(), "kai-nothing-"));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true });
      writeFileSync(join(directory, path), text);
    }
    const [program = "", ...args] = argv;
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined, NO_COLOR: "1" };
    const ran = spawnSync(program, args, { cwd: directory, env, encoding: "utf8" });
    expect(ran.status, ran.stdout + ran.stderr).toBeGreaterThan(0);
    const output: Output = {
      stdout: ran.stdout,
      stderr: ran.stderr,
      end: { kind: "exit", code: ran.status ?? 0 },
    };
    const command = { argv, cwd: "." };
    const workspace = workspaceOf(directory, Object.keys(files));
    return nothingRun(output, readReport(runnerOf(command, directory), command, output, workspace));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const PACKAGE = { "package.json": '{"name":"a","scripts":{"t":"true"}}' };
const GO = { "go.mod": "module a\n\ngo 1.20\n" };
const CARGO = {
  "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n',
  "src/lib.rs": "pub fn a() {}\n",
};
const PYTHON = { "test_a.py": "def test_a():\n    assert True\n" };
const PYTEST = ["python3", "-m", "pytest"];

const NOTHING: readonly (readonly [Files, readonly string[]])[] = [
  [{}, ["node", "--test", "missing.js"]],
  [{}, ["node", "missing.js"]],
  [{}, ["python3", "missing.py"]],
  [{}, ["python3", "-m", "unittest", "missing"]],
  [PYTHON, ["python3", "-m", "unittest", "test_a.Missing"]],
  [{}, [...PYTEST, "missing.py"]],
  [PYTHON, [...PYTEST, "test_a.py::test_missing"]],
  [PYTHON, [...PYTEST, "-k", "missing"]],
  [{ "a.py": "" }, PYTEST],
  [PYTHON, [...PYTEST, "--no-such-option"]],
  [{}, ["javac", "Missing.java"]],
  [{}, ["sh", "-c", "javac Missing.java && java Missing"]],
  [{}, ["java", "Missing"]],
  [PACKAGE, ["npm", "run", "missing"]],
  [PACKAGE, ["npm", "test"]],
  [{}, ["npm", "test"]],
  [{ Makefile: "a:\n\ttrue\n" }, ["make", "missing"]],
  [{}, ["make"]],
  [GO, ["go", "test", "./..."]],
  [GO, ["go", "test", "./missing"]],
  [GO, ["go", "test"]],
  [{}, ["go", "test", "./..."]],
  [{}, ["cargo", "test", "--offline"]],
  [CARGO, ["cargo", "test", "--offline", "--test", "missing"]],
  [CARGO, ["cargo", "test", "--offline", "-p", "missing"]],
];

/** What a command needs to be tried at all. */
function needs([program = "", ...args]: readonly string[]): boolean {
  if (args[1] === "pytest") return has("python3", "-m", "pytest", "--version");
  if (args.join(" ").includes("java")) return has("java", "-version");
  return has(program, program === "go" ? "version" : program === "java" ? "-version" : "--version");
}

test.for(NOTHING)("with %o, %j has nothing to run, and says what", ([files, argv], context) => {
  context.skip(!needs(argv), "the tool is not here");
  expect(said(files, argv)).not.toBeNull();
});

const LOADS: readonly (readonly [string, Files, readonly string[]])[] = [
  [
    "an import that is not there",
    { "a.test.js": 'require("./a.js");\n' },
    ["node", "--test", "a.test.js"],
  ],
  ["the same, run plainly", { "a.js": 'require("./b.js");\n' }, ["node", "a.js"]],
  [
    "a file that does not parse",
    { "a.js": "exports.a = (;\n", "a.test.js": 'require("./a.js");\n' },
    ["node", "--test", "a.test.js"],
  ],
  [
    "a module that the code imports",
    { "a.py": "import missing\n", "test_a.py": "import a\n" },
    ["python3", "-m", "unittest", "test_a"],
  ],
  [
    "a name that the code lacks",
    { "a.py": "b = 1\n", "test_a.py": "from a import c\ndef test_a():\n    pass\n" },
    PYTEST,
  ],
  [
    "a test of a file that cannot be imported",
    { "a.py": "b = (\n", "test_a.py": "import a\ndef test_a():\n    pass\n" },
    [...PYTEST, "test_a.py::test_a"],
  ],
  [
    "a conftest that cannot be imported",
    { "a.py": "b = (\n", "conftest.py": "import a\n", ...PYTHON },
    PYTEST,
  ],
  ["a class that does not compile", { "A.java": "class A { int b }\n" }, ["javac", "A.java"]],
  [
    "a package that does not compile",
    { ...GO, "a.go": "package a\n\nfunc A() int { return b }\n", "a_test.go": "package a\n" },
    ["go", "test", "./..."],
  ],
  [
    "an import of the code that no module has",
    { ...GO, "a.go": 'package a\n\nimport "b/c"\n\nvar _ = c.D\n', "a_test.go": "package a\n" },
    ["go", "test", "./..."],
  ],
];

test.for(LOADS)("%s is a failure to mend", ([, files, argv], context) => {
  context.skip(!needs(argv), "the tool is not here");
  expect(said(files, argv)).toBeNull();
});

test("no failure that was recorded of a runner is taken for a command with nothing to run", () => {
  let count = 0;
  for (const { directory, files, runs } of goldens) {
    const workspace = workspaceOf(directory, Object.keys(files));
    for (const { command, output, expected } of runs) {
      const report = readReport(runnerOf(command, directory), command, output, workspace);
      if (expected.failures.length === 0) continue;
      count += 1;
      expect(nothingRun(output, report), command.argv.join(" ")).toBeNull();
    }
  }
  expect(count).toBeGreaterThan(50);
});
