import type { Failure, Output, Report } from "./report.ts";
import { transcriptOf } from "./transcript.ts";

const PYTEST_USAGE = 4;
const PYTEST_NOTHING = 5;

/** What runners, interpreters and build tools say where they find nothing to run: whole lines. */
const SAYINGS: readonly RegExp[] = [
  // node, node --test, python, javac, java
  /^Could not find '.+'$/,
  /^Error: Cannot find module '.+'$/,
  /^.*python[\d.]*: can't open file '.+': \[Errno 2\].*$/,
  /^error: file not found: .+$/,
  /^Error: Could not find or load main class \S+$/,
  // vitest, jest, mocha
  /^\s*No test files found, exiting with code 1$/,
  /^No tests found, exiting with code 1$/,
  /^Error: No test files found(: .*)?$/,
  // npm, pnpm, yarn, make
  /^npm (?:error|ERR!) Missing script: .+$/,
  /^npm (?:error|ERR!) enoent Could not read package\.json: .+$/i,
  /^\s*ERR_PNPM_NO_SCRIPT.*$/,
  /^(?:error Command|Usage Error: Couldn't find a script named) "\S+"(?: not found)?\.$/,
  /^g?make: \*\*\* No rule to make target '[^']+'\.\s+Stop\.$/,
  /^g?make: \*\*\* No targets specified and no makefile found\.\s+Stop\.$/,
  // go, cargo
  /^no packages to test$/,
  /^stat .+: directory not found$/,
  /^no Go files in .+$/,
  /^no required module provides package \S+; to add it:$/,
  /^pattern \S+: .*does not contain main module.*$/,
  /^error: could not find `Cargo\.toml` in .+$/,
  /^error: no (?:test|example|bin|bench|library) targets? (?:named .+|found.*)$/,
  /^error: package ID specification .+ did not match any packages$/,
];

/**
 * Why a command that failed had nothing to run: what it names is not there, or has no test in it. Null
 * for any other failure: one in a file of the workspace, such as an import that fails, is to be mended.
 */
export function nothingRun(output: Output, report: Report): string | null {
  const { end } = output;
  if (end.kind !== "exit" || end.code === 0) return null;
  const { failures, passedCount, runner } = report;
  if ((passedCount ?? 0) > 0) return null;
  if (failures.some(({ frames }) => frames.length > 0)) return null;
  const { lines, stderr } = transcriptOf(output);
  if (runner === "pytest") return nothingOfPytest(end.code, [...stderr, ...lines]);
  if (runner === "unittest") return nothingOfUnittest(failures, lines);
  const at = lines.findIndex((line) => SAYINGS.some((saying) => saying.test(line)));
  const said = lines[at];
  if (said === undefined) return null;
  // A module that a file of the workspace asks for is that file's to mend.
  const isRequired = said.includes("Cannot find module") && !lines.some(isEntry);
  return isRequired ? null : said.replace(/^\s*(?:Error: )?/, "");
}

/** Node's own words for a module that nobody asked for but the command. */
function isEntry(line: string): boolean {
  return /^\s*requireStack: \[\]$/.test(line);
}

function nothingOfPytest(code: number, lines: readonly string[]): string | null {
  const said = lines.find((line) => /^ERROR: (?:file or directory )?not found: /.test(line));
  if (code === PYTEST_USAGE && said !== undefined) {
    // A test is not found either in a file that could not be imported.
    const isBroken = lines.some((line) => /^E {3}|^_+ ERROR collecting/.test(line));
    return isBroken ? null : said.replace(/^ERROR: /, "");
  }
  const usage = lines.find((line) => /^(?:ERROR|.*: error): .*(?:unrecognized|usage)/.test(line));
  if (code === PYTEST_USAGE && usage !== undefined) return usage;
  return code === PYTEST_NOTHING ? "pytest found no test to run" : null;
}

function nothingOfUnittest(failures: readonly Failure[], lines: readonly string[]): string | null {
  if (lines.some((line) => /^Ran 0 tests in /.test(line))) return "unittest found no test to run";
  // A module that the tests import is one to mend; one of the test's own name was only given wrong.
  const isNamed = ({ kind, message, test }: Failure): boolean => {
    const missing = /^ModuleNotFoundError: No module named '([^']+)'/m.exec(message)?.[1];
    const isModule = missing !== undefined && (test === missing || test.startsWith(`${missing}.`));
    return kind === "load" && (isModule || /module '\S+' has no attribute '\w+'$/.test(message));
  };
  const [first] = failures;
  if (first === undefined || !failures.every(isNamed)) return null;
  return first.message.split("\n").at(-1) ?? null;
}
