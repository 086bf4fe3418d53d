/*
 * Preloaded into a `dev` process: it dies at the moment at which it has started a cell's first process,
 * and knows nothing of it yet.
 */
import { syncBuiltinESMExports } from "node:module";

const childProcess = process.getBuiltinModule("node:child_process");
const { spawn } = childProcess;
childProcess.spawn = (/** @type {Parameters<typeof spawn>} */ ...given) => {
  spawn(...given);
  process.kill(process.pid, "SIGKILL");
  throw new Error("it lives on");
};
syncBuiltinESMExports();
