/*
 * Preloaded into a `dev` process: the agent that it puts into cells is then the one that the test made.
 * Node asks the hook in this same file, on a thread of its own.
 */
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

if (isMainThread) register(import.meta.url);

/** @type {import("node:module").ResolveHook} */
export async function resolve(specifier, context, next) {
  const agent = process.env.CRASH_AGENT;
  if (specifier === "@dev/cell/agent" && agent) return { url: agent, shortCircuit: true };
  return next(specifier, context);
}
