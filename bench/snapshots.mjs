// A snapshot of 20,000 files, first and with one file changed, and a restore, beside what git, restic and
// borg take for the same, where they are installed; all in turn in one run, each a program of its own but
// for ours, which is at work already, as it is in a session. CPU time is what a busy machine leaves comparable.
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  directoryBlobs,
  Objects,
  restoreSnapshot,
  StatCache,
  TREE_LIMITS,
  takeSnapshot,
} from "../packages/workspace/dist/index.js";

const DIRECTORIES = Number(process.env.DIRECTORIES ?? 1000);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
/** The most that a snapshot with one file changed may take: of what restic takes, and in ms of CPU time. */
export const LIMIT_RATIO = 0.5;
export const LIMIT_MS = 150;

const scratch = mkdtempSync(join(tmpdir(), "dev-bench-snapshots-"));
const tree = join(scratch, "tree");
let fileCount = 0;
for (let nth = 0; nth < DIRECTORIES; nth++) {
  const directory = `${tree}/p${nth % 40}/q${nth % 7}/d${nth}`;
  mkdirSync(directory, { recursive: true });
  for (let file = 0; file < 20; file++) {
    const text = `file ${nth} ${file}\n`.repeat(20 + ((fileCount++ * 37) % 700));
    writeFileSync(`${directory}/file${file}.txt`, text);
  }
}

/** @typedef {{ first: number, changed: number, restored: number | null, cpuMs: number }} Figures */

/** @type {Record<string, () => Promise<Figures> | Figures>} */
const KINDS = { dev, git, restic, borg };
/** @type {Record<string, Figures>} */
const figures = {};
for (const [name, measure] of Object.entries(KINDS)) {
  const asked = name === "restic" ? "version" : "--version";
  if (name !== "dev" && spawnSync(name, [asked]).status !== 0) continue;
  figures[name] = await measure();
}
rmSync(scratch, { recursive: true, force: true });

const own = figures.dev;
if (own === undefined) throw new Error("nothing was measured");
for (const [name, { first, changed, restored, cpuMs }] of Object.entries(figures)) {
  const ratio = name === "dev" ? "" : `  ${(own.changed / changed).toFixed(2)} of it for one file`;
  const cpu = name === "dev" ? ` (${ms(cpuMs)} CPU)` : "";
  const back = restored === null ? "-" : ms(restored);
  console.log(
    `${name.padEnd(7)} first ${ms(first)}  one changed ${ms(changed)}${cpu}  restore ${back}${ratio}`,
  );
}
const limit = figures.restic === undefined ? null : figures.restic.changed * LIMIT_RATIO;
const isQuick = own.cpuMs <= LIMIT_MS && (limit === null || own.changed <= limit);
console.log(`${fileCount} files: ${isQuick ? "within" : "ABOVE"} the limits`);
process.exitCode = isQuick ? 0 : 1;

/** @returns {Promise<Figures>} */
async function dev() {
  const objects = must(await Objects.open(directoryBlobs(join(scratch, "store"))));
  const cache = new StatCache(join(scratch, "seen"));
  const looking = { limits: TREE_LIMITS, onProgress: () => undefined };
  let id = "";
  const take = async () => {
    const taken = must(await takeSnapshot(objects, tree, { ...looking, cache, nowMs: Date.now() }));
    id = taken.id;
  };
  const first = (await timed(take)).wallMs;
  await take();
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    change();
    rounds.push(await timed(take));
  }
  const out = join(scratch, "out");
  mkdirSync(out);
  const me = { holder: "bench", isAlive: () => true, cache: null };
  const restore = async () => {
    must(await restoreSnapshot(objects, /** @type {never} */ (id), out, { ...looking, ...me }));
  };
  const restored = (await timed(restore)).wallMs;
  return { first, ...middle(rounds), restored };
}

/** @returns {Figures | Promise<Figures>} */
function git() {
  const env = { GIT_DIR: join(scratch, "git"), GIT_WORK_TREE: tree };
  run("git", ["init", "-q"], env);
  return program(() => {
    run("git", ["-c", "core.compression=0", "add", "-A"], env);
    run("git", ["write-tree"], env);
  }, null);
}

/** @returns {Figures | Promise<Figures>} */
function restic() {
  const env = { RESTIC_REPOSITORY: join(scratch, "restic"), RESTIC_PASSWORD: "x" };
  run("restic", ["init", "-q"], env);
  const target = join(scratch, "restic-out");
  return program(
    () => run("restic", ["backup", "-q", tree], env),
    () => run("restic", ["restore", "-q", "latest", "--target", target], env),
  );
}

/** @returns {Figures | Promise<Figures>} */
function borg() {
  const env = { BORG_REPO: join(scratch, "borg"), BORG_BASE_DIR: join(scratch, "borg-base") };
  run("borg", ["init", "-e", "none"], env);
  let count = 0;
  return program(() => run("borg", ["create", "-C", "none", `::s${count++}`, tree], env), null);
}

/**
 * @param {() => void} take
 * @param {(() => void) | null} restore
 * @returns {Promise<Figures>}
 */
async function program(take, restore) {
  const first = (await timed(take)).wallMs;
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    change();
    rounds.push(await timed(take));
  }
  const restored = restore === null ? null : (await timed(restore)).wallMs;
  return { first, ...middle(rounds), restored };
}

function change() {
  appendFileSync(`${tree}/p1/q1/d1/file1.txt`, "x");
}

/** @param {() => unknown} work */
async function timed(work) {
  const usage = process.cpuUsage();
  const beganMs = performance.now();
  await work();
  const wallMs = performance.now() - beganMs;
  const { user, system } = process.cpuUsage(usage);
  return { wallMs, cpuMs: (user + system) / 1000 };
}

/** @param {readonly { wallMs: number, cpuMs: number }[]} rounds */
function middle(rounds) {
  const at = (/** @type {"wallMs" | "cpuMs"} */ key) =>
    rounds.map((round) => round[key]).sort((one, other) => one - other)[rounds.length >> 1] ?? 0;
  return { changed: at("wallMs"), cpuMs: at("cpuMs") };
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {Record<string, string>} env
 */
function run(command, args, env) {
  const options = { env: { ...process.env, ...env }, cwd: scratch, encoding: "utf8" };
  const { status, stderr } = spawnSync(command, args, /** @type {never} */ (options));
  if (status !== 0) throw new Error(`${command}: ${stderr}`);
}

/**
 * @template T
 * @param {{ ok: true, value: T } | { ok: false, fault: { message: string } }} result
 */
function must(result) {
  if (!result.ok) throw new Error(result.fault.message);
  return result.value;
}

/** @param {number} time */
function ms(time) {
  return `${Math.round(time)} ms`;
}
