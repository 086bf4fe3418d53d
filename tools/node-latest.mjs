// Runs a script of this repository on the newest Node.js, which npm's own package of it brings.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = `${root}.cache/node-latest`;
const name = `node-${process.platform}-${process.arch}`;

mkdirSync(folder, { recursive: true });
// A manifest of its own, so that npm does not take the folder for a part of the workspace.
writeFileSync(`${folder}/package.json`, '{ "private": true }\n');
const install = ["install", "--ignore-scripts", "--no-audit", "--no-fund", `${name}@latest`];
run("npm", install, process.env, "ignore");
const bin = `${folder}/node_modules/${name}/bin`;
run(`${bin}/node`, ["--version"], process.env, "inherit");
const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH ?? ""}` };
run(
  `${bin}/node`,
  process.argv.slice(2).map((path) => `${root}${path}`),
  env,
  "inherit",
);

/**
 * @param {string} command
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @param {"ignore" | "inherit"} stdout
 */
function run(command, args, env, stdout) {
  const stdio = /** @type {const} */ (["ignore", stdout, "inherit"]);
  const ended = spawnSync(command, args, { cwd: folder, env, stdio: [...stdio] });
  if (ended.status !== 0) process.exit(ended.status ?? 1);
}
