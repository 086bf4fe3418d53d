import { writeFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Counts a run's tests into the file that `DEV_TALLY` names, with the reason of each skip. */
export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const path = process.env.DEV_TALLY;
    if (path === undefined) return;
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (state: string) => tests.filter((test) => test.result().state === state);
    const skipped = inState("skipped").map((test) => ({ name: titleOf(test), reason: why(test) }));
    const passed = inState("passed").length;
    // What is neither has failed or was cut off; so has a file or a suite that could not be run.
    const failed = tests.length - passed - skipped.length + broken(modules) + unhandled.length;
    writeFileSync(path, JSON.stringify({ passed, failed, skipped }));
  }
}

function broken(modules: readonly TestModule[]): number {
  const suites = modules.flatMap((module) => [module, ...module.children.allSuites()]);
  return suites.filter((suite) => suite.errors().length > 0).length;
}

function titleOf(test: TestCase): string {
  return `${test.module.relativeModuleId}: ${test.fullName}`;
}

function why(test: TestCase): string {
  const result = test.result();
  return (result.state === "skipped" && result.note) || "no reason given";
}
