/*
 * Preloaded into a `dev` process: the agent that it puts into cells is then the one that the test made.
 */
import Module from "node:module";

/** @type {{ _resolveFilename: (request: string, ...rest: unknown[]) => string }} */
const loader = /** @type {any} */ (Module);
const resolve = loader._resolveFilename;
loader._resolveFilename = function (request, ...rest) {
  const agent = process.env.CRASH_AGENT;
  if (request === "@dev/cell/agent" && agent) return agent;
  return resolve.call(this, request, ...rest);
};
