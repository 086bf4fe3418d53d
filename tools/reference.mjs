// Writes the generated parts of the reference from the sources as they are, by the test that compares
// them: so that both read the sources in the same way.
import { spawnSync } from "node:child_process";
import { root } from "./step.mjs";

const args = ["run", "tools/reference.test.ts", "-t", "is what the sources say"];
const ended = spawnSync(`${root}node_modules/.bin/vitest`, args, {
  cwd: root,
  env: { ...process.env, UPDATE_GOLDEN: "1" },
  stdio: "inherit",
});
process.exitCode = ended.status ?? 1;
