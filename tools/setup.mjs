// Installs what is missing and says nothing where nothing is. It runs before anything is installed,
// and on a Node.js that may be too old: plain JavaScript, and no dependency.
import { existsSync, readFileSync } from "node:fs";
import { root, step } from "./step.mjs";

/** The commands needed on Linux, and the package that has each: its name is the same everywhere. */
const COMMANDS = { bwrap: "bubblewrap", git: "git" };

/** The package managers that a person's machine may have, best first. */
const MANAGERS = [
  { command: "apt-get", install: "apt-get update && apt-get install -y --no-install-recommends" },
  { command: "dnf", install: "dnf install -y" },
  { command: "pacman", install: "pacman -S --needed --noconfirm" },
  { command: "apk", install: "apk add" },
  { command: "zypper", install: "zypper install -y" },
];

checkNode();
await installPackages();
await installModules();

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  stop(`Dev needs Node.js 20.19 or later; this is ${process.version}: https://nodejs.org`);
}

async function installPackages() {
  const needed = process.platform === "linux" ? COMMANDS : { git: COMMANDS.git };
  const missing = Object.entries(needed)
    .filter(([command]) => !onPath(command))
    .map(([, name]) => name);
  if (missing.length === 0) return;
  const names = missing.join(" ");
  const manager = MANAGERS.find(({ command }) => onPath(command));
  if (!manager) stop(`Install ${names}, then run this again.`);
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || manager.command !== "apt-get") {
    stop(`Dev needs ${names}. Run this, then run make again:\n\n  ${asRoot(manager, names)}\n`);
  }
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const argv = ["sh", "-c", `${manager.install} ${names}`];
  if (!(await step(`install ${names}`, argv, env))) process.exit(1);
}

/** One command to paste, for someone who is not root. */
function asRoot(/** @type {{ install: string }} */ manager, /** @type {string} */ names) {
  return `${manager.install} ${names}`.replace(/^|(?<=&& )/g, "sudo ");
}

/** Runs `npm ci` unless what npm says it installed is what the lock file names. */
async function installModules() {
  const wanted = packagesOf("package-lock.json");
  const found = packagesOf("node_modules/.package-lock.json");
  const isInstalled = Object.entries(wanted).every(([path, { version, integrity, optional }]) => {
    if (!path.startsWith("node_modules/")) return true;
    const have = found[path];
    // An optional package is for another platform, or it is there.
    if (!have) return optional === true;
    return have.version === version && have.integrity === integrity;
  });
  if (isInstalled) return;
  if (!(await step("install npm packages", ["npm", "ci", "--ignore-scripts"]))) process.exit(1);
}

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean }} Installed
 * @param {string} path
 * @returns {Record<string, Installed>}
 */
function packagesOf(path) {
  const file = `${root}${path}`;
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).packages : {};
}

/** @param {string} command */
function onPath(command) {
  const folders = (process.env.PATH ?? "").split(":");
  return folders.some((folder) => folder !== "" && existsSync(`${folder}/${command}`));
}

/**
 * @param {string} why
 * @returns {never}
 */
function stop(why) {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}
