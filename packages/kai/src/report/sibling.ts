import { posix } from "node:path";
import type { Workspace } from "./workspace.ts";

/** The test files that are named after some files, such as `test_calc.py` after `calc.py`. */
export function siblings(touched: readonly string[], workspace: Workspace): readonly string[] {
  const found = new Set<string>();
  for (const file of touched) {
    const stem = stemOf(file);
    if (isTest(file)) found.add(file);
    for (const other of stem === "" ? [] : workspace.files) {
      if (isTest(other) && suffixOf(other) === suffixOf(file) && testedBy(other) === stem) {
        found.add(other);
      }
    }
  }
  return [...found].sort().slice(0, siblingLimit);
}

export const siblingLimit = 50;

const marks = /^test_|^Test(?=[A-Z])|(?:[._-](?:test|tests|spec)|_test|Tests?|IT)$/;

/** Whether a file holds tests, as its name says. */
export function isTest(file: string): boolean {
  const name = posix.basename(file).replace(/\.\w+$/, "");
  return marks.test(name) || /(?:^|\/)(?:__tests__)\//.test(file);
}

function testedBy(file: string): string {
  return stemOf(file).replace(marks, "");
}

function stemOf(file: string): string {
  return posix.basename(file).replace(/\.\w+$/, "");
}

/** A test in TypeScript may be of a module in JavaScript. */
function suffixOf(file: string): string {
  return posix.extname(file).replace(/^\.[cm]?[jt]sx?$/, ".js");
}
