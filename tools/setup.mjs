// Installs what is missing and says nothing where nothing is. It runs before anything is installed,
// and on a Node.js that may be too old: plain JavaScript, and no dependency.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
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

/** Exits with 1 where it has no pytest, without loading it. */
const HAS_PYTEST = "import importlib.util as u, sys; sys.exit(u.find_spec('pytest') is None)";

/** What other kinds of cell are tested with, and the package that has each. */
const RUNTIMES = { runc: "runc", podman: "podman" };

/**
 * The gVisor that is tested with: distributions have older ones. Go builds it, and has checked that the
 * module is the one with this sum.
 */
const GVISOR = {
  module: "gvisor.dev/gvisor",
  version: "v0.0.0-20260224225140-573d5e7127a8",
  sum: "h1:Zy8IV/+FMLxy6j6p87vk/vQGKcdnbprwjTxc8UiUtsA=",
};

checkNode();
await installPackages();
await installRunners();
await installRuntimes();
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

/** What tests of other languages run. Without it they are skipped and say so, so nothing stops here. */
async function installRunners() {
  const isRoot = process.getuid?.() === 0;
  const apt = MANAGERS.find(({ command }) => command === "apt-get");
  if (process.platform !== "linux" || !isRoot || !apt || !onPath("apt-get")) return;
  const missing = onPath("javac") ? [] : ["default-jdk-headless"];
  const python = onPath("python3");
  if (python && spawnSync("python3", ["-c", HAS_PYTEST]).status === 1) {
    // A Python that is not the system's does not see the system's packages.
    if (python === "/usr/bin/python3") missing.push("python3-pytest");
    else await step("install pytest", ["python3", "-m", "pip", "install", "-q", "pytest"]);
  }
  if (missing.length === 0) return;
  const names = missing.join(" ");
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  await step(`install ${names}, for tests`, ["sh", "-c", `${apt.install} ${names}`], env);
}

/** What other kinds of cell are tested with; where it cannot be had, their tests say so. */
async function installRuntimes() {
  const isRoot = process.getuid?.() === 0;
  if (process.platform !== "linux" || !isRoot) return;
  const apt = MANAGERS.find(({ command }) => command === "apt-get");
  const missing = Object.entries(RUNTIMES)
    .filter(([command]) => !onPath(command))
    .map(([, name]) => name);
  if (missing.length > 0 && apt && onPath("apt-get")) {
    const names = missing.join(" ");
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    await step(`install ${names}, for tests`, ["sh", "-c", `${apt.install} ${names}`], env);
  }
  await installGvisor();
}

/** Builds it once for a machine, and copies it into this checkout. */
async function installGvisor() {
  const wanted = `${root}.cache/bin/runsc-${GVISOR.version}`;
  if (existsSync(wanted) || !onPath("go")) return;
  const caches = process.env.XDG_CACHE_HOME || `${homedir()}/.cache`;
  const built = `${caches}/dev-setup/${GVISOR.version}`;
  if (!existsSync(`${built}/runsc`)) {
    const asked = ["mod", "download", "-json", `${GVISOR.module}@${GVISOR.version}`];
    const told = spawnSync("go", asked, { cwd: tmpdir(), encoding: "utf8" });
    const { Sum: sum } = told.status === 0 ? JSON.parse(told.stdout) : {};
    if (sum !== GVISOR.sum) {
      process.stderr.write(`gVisor is not built: the module's sum is ${sum}: ${told.stderr}\n`);
      return;
    }
    const env = { GOBIN: built, CGO_ENABLED: "0", GOFLAGS: "" };
    const target = `${GVISOR.module}/runsc@${GVISOR.version}`;
    const argv = ["go", "install", "-trimpath", "-ldflags=-s -w", target];
    if (!(await step("build gVisor's runsc, for tests", argv, env))) return;
  }
  mkdirSync(`${root}.cache/bin`, { recursive: true });
  copyFileSync(`${built}/runsc`, `${wanted}.new`);
  renameSync(`${wanted}.new`, wanted);
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

/** The file that a command is, or undefined. @param {string} command */
function onPath(command) {
  const folders = (process.env.PATH ?? "").split(":").filter((folder) => folder !== "");
  return folders.map((folder) => `${folder}/${command}`).find((path) => existsSync(path));
}

/**
 * @param {string} why
 * @returns {never}
 */
function stop(why) {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}
