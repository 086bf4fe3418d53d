import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { invocationOf, runnerOf } from "../src/report/invocation.ts";
import { wordsOf } from "../src/report/shell-words.ts";

let directory = "";
const files: Readonly<Record<string, string>> = {
  "package.json": JSON.stringify({
    scripts: {
      test: "NODE_ENV=test mocha --exit test/*.js",
      unit: "vitest run --dir src",
      all: "npm run lint && npm run unit",
      lint: "eslint .",
      build: "tsc",
      looped: "npm run looped",
      pretested: "jest",
      prepretested: "tsc",
    },
  }),
  "pkg/package.json": JSON.stringify({ scripts: { test: "jest -c jest.config.js" } }),
  Makefile: "CC := cc\n\ntest:\n\t@python3 -m pytest -q tests\n\ncheck: build\n\tgo test ./...\n",
  "node_modules/.bin/vitest": "",
  "node_modules/.bin/jest": "",
};

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "report-"));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
});
afterAll(() => rmSync(directory, { recursive: true }));

const split = (line: string): readonly string[] => line.split(" ");

test.each([
  ["pytest -q", "pytest"],
  ["python3.12 -X dev -m pytest tests", "pytest"],
  ["/usr/bin/python -m unittest discover", "unittest"],
  ["python check.py -m pytest", "unknown"],
  ["uv run pytest", "pytest"],
  ["env A=1 timeout 30 pytest", "pytest"],
  ["node --test", "node-test"],
  ["node --import tsx --test src", "node-test"],
  ["node check.js --verbose", "unknown"],
  ["node node_modules/.bin/jest --ci", "jest"],
  ["node --max-old-space-size=99 ./node_modules/vitest/vitest.mjs run", "vitest"],
  ["npx vitest run", "vitest"],
  ["npx --yes mocha", "mocha"],
  ["pnpm exec jest", "jest"],
  ["yarn jest", "jest"],
  ["npm test", "mocha"],
  ["npm run unit", "vitest"],
  ["npm run -s all", "vitest"],
  ["npm run looped", "unknown"],
  ["npm run missing", "unknown"],
  ["npm run build", "unknown"],
  ["make test", "pytest"],
  ["make", "pytest"],
  ["make check", "go"],
  ["go test ./...", "go"],
  ["go run .", "unknown"],
  ["cargo test --workspace", "cargo"],
  ["mvn -q test", "junit"],
  ["./gradlew test", "junit"],
  ["javac Main.java", "unknown"],
  ["", "unknown"],
])("%s is of %s", (line, runner) => {
  expect(runnerOf({ argv: split(line), cwd: "." }, directory)).toBe(runner);
});

test.each([
  ["cd pkg && npm test", "jest"],
  ["set -e; python3 -m pytest -q 'a b'", "pytest"],
  ["pytest $ARGS > out.txt", "pytest"],
  ["rm -rf out && javac *.java && java Main", "unknown"],
  ["npm run build && node --test", "node-test"],
])("the shell's %s is of %s", (line, runner) => {
  expect(runnerOf({ argv: ["sh", "-c", line], cwd: "." }, directory)).toBe(runner);
});

test("a script is unfolded to the call of the runner, where it is installed", () => {
  expect(invocationOf({ argv: split("npm run unit -- --bail=1"), cwd: "." }, directory)).toEqual({
    runner: "vitest",
    head: ["./node_modules/.bin/vitest"],
    args: ["run", "--dir", "src", "--bail=1"],
    cwd: ".",
  });
  const nested = ["bash", "-lc", "cd pkg && A=1 npm test"];
  expect(invocationOf({ argv: nested, cwd: "." }, directory)).toEqual({
    runner: "jest",
    head: ["env", "A=1", "../node_modules/.bin/jest"],
    args: ["-c", "jest.config.js"],
    cwd: "pkg",
  });
});

test.each([
  ["npm", "run", "all"],
  ["npm", "run", "pretested"],
  ["make", "check"],
  ["sh", "-c", "pytest $ARGS"],
  ["sh", "-c", "export A=1; pytest"],
  ["sh", "-c", "tsc && node --test"],
  ["sh", "-c", "cd .. && pytest"],
])("%s %s %s does more than to call its runner", (...argv) => {
  expect(invocationOf({ argv, cwd: "." }, directory)).toBeNull();
});

test("words are parted as a shell parts them", () => {
  expect(wordsOf(`a 'b c' "d \\"e" f\\ g && h|i;j\nk`).map((it) => it.words)).toEqual([
    ["a", "b c", 'd "e', "f g"],
    ["h"],
    ["i"],
    ["j"],
    ["k"],
  ]);
  expect(wordsOf('a "$b"; c *.js; d >e; f').map((it) => it.plain)).toEqual([
    false,
    false,
    false,
    true,
  ]);
});
