// Runs every check and test, and ends in one line that counts them: a check counts as one test. All
// of them run, so that one failure does not hide the next.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { BUILD, CHECKS, root, step } from "./step.mjs";

const tallyPath = `${root}.cache/tally.json`;

mkdirSync(`${root}.cache`, { recursive: true });
let passed = 0;
let failed = 0;
for (const [name, argv] of [...BUILD, ...CHECKS]) {
  if (await step(name, argv)) passed += 1;
  else failed += 1;
}
const tests = runTests();
passed += tests.passed;
failed += tests.failed;
for (const { name, reason } of tests.skipped) {
  process.stdout.write(`skipped: ${name}: ${reason}\n`);
}
const skipped = tests.skipped.length === 0 ? "" : `, ${tests.skipped.length} skipped`;
process.stdout.write(`${passed} passed, ${failed} failed${skipped}\n`);
process.exitCode = failed === 0 ? 0 : 1;

/**
 * @typedef {{ passed: number, failed: number, skipped: { name: string, reason: string }[] }} Tally
 * @returns {Tally}
 */
function runTests() {
  rmSync(tallyPath, { force: true });
  const args = ["run", "--reporter=dot", "--reporter=./tools/tally.ts"];
  const ended = spawnSync(`${root}node_modules/.bin/vitest`, args, {
    cwd: root,
    env: { ...process.env, DEV_TALLY: tallyPath },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const tally = readTally();
  // A run that died, or failed in a way that no test shows, is a failure of its own.
  const isExplained = ended.status === 0 || (ended.status === 1 && tally.failed > 0);
  return isExplained && tally.passed > 0 ? tally : { ...tally, failed: tally.failed + 1 };
}

/** @returns {Tally} */
function readTally() {
  try {
    return JSON.parse(readFileSync(tallyPath, "utf8"));
  } catch {
    process.stdout.write("the tests ended before they were counted\n");
    return { passed: 0, failed: 0, skipped: [] };
  }
}
