import type { Base } from "./open.ts";
import type { Answer } from "./worker.ts";

/**
 * Whether a worker's answer on the unchanged files is what the command said of them: it fails, and with
 * the same tests, or it does not end. A runner may name the file or the suite of a test in one place and not in another, and
 * names a suite that failed because of a test in it; so one name matches another that holds its words.
 */
export function agreement(base: Base, namesTests: boolean): (answer: Answer) => boolean {
  const given = names(base.failingTests);
  return ({ kind, failed, ranCount }) => {
    if (base.isTimeout) return kind === "timeout";
    if (kind !== "failed") return false;
    if (!namesTests || given.length === 0) return true;
    if (base.testCount !== null && ranCount !== 0 && ranCount !== base.testCount) return false;
    const got = names(failed);
    const match = (one: string, other: string) => one.includes(other) || other.includes(one);
    return (
      given.every((name) => got.some((other) => match(name, other))) &&
      got.every((name) => given.some((other) => match(name, other)))
    );
  };
}

/** The words of each name, between spaces, however a runner separates them. */
function names(tests: readonly string[]): readonly string[] {
  const all = tests.map((test) => test.split(/(?:\s|::|>|›)+/).filter((word) => word !== ""));
  return all.filter((words) => words.length > 0).map((words) => ` ${words.join(" ")} `);
}
