import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The repository's folder, with a slash at its end. */
export const root = fileURLToPath(new URL("..", import.meta.url));

const bin = `${root}node_modules/.bin/`;

/** What a build runs, in order: a name and a command line. */
export const BUILD = /** @type {const} */ ([
  ["compile", [`${bin}tsc`, "-b", "packages/cli", "sim"]],
  ["seal", [process.execPath, "tools/seal.mjs"]],
  ["bundle", [`${bin}rolldown`, "-c", "--logLevel", "warn"]],
  ["warm up", [process.execPath, "tools/warm.mjs"]],
]);

/** What else is checked of a build. */
export const CHECKS = /** @type {const} */ ([
  ["types of the tests", [`${bin}tsc`, "-p", "tsconfig.test.json"]],
  ["lint and format", [`${bin}biome`, "check", "--error-on-warnings", "."]],
  ["nothing unused", [`${bin}knip`, "--no-progress"]],
  ["packages as published", [process.execPath, "tools/publish.mjs"]],
]);

/** After this long a person wants to know what they are waiting for. */
const PATIENCE_MS = 1000;

/**
 * Runs a command and answers whether it succeeded. A step that is quick and good says nothing, a
 * slow one its name and how long it took, and one that fails all that the command printed.
 *
 * @param {string} name
 * @param {readonly string[]} argv
 * @param {Record<string, string>} [env] added to this process's own
 * @returns {Promise<boolean>}
 */
export async function step(name, [command = "", ...args], env = {}) {
  const began = Date.now();
  let isNamed = false;
  const sayName = () => {
    isNamed = true;
    process.stdout.write(`${name} ... `);
  };
  const timer = setTimeout(sayName, PATIENCE_MS);
  const { status, output } = await ended(command, args, env);
  clearTimeout(timer);
  const seconds = `${((Date.now() - began) / 1000).toFixed(1)} s`;
  if (status === 0) {
    if (isNamed) process.stdout.write(`${seconds}\n`);
    return true;
  }
  if (!isNamed) sayName();
  process.stdout.write(`FAILED after ${seconds}\n${output}\n`);
  return false;
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {Record<string, string>} env
 * @returns {Promise<{ status: number | null, output: string }>}
 */
function ended(command, args, env) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    }
    child.on("error", (error) => resolve({ status: null, output: String(error) }));
    child.on("close", (status) => resolve({ status, output }));
  });
}
