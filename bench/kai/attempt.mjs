// One attempt: `dev fix` on a fresh copy of a case, and then everything that it says is held to what is.
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as passed } from "node:timers/promises";
import { inCopy, snapshot } from "./case.mjs";
import { alive, killed, plainEnv, run } from "./shell.mjs";

/** For what checks an outcome; the outcome itself has its own limit. */
const CHECK_DEADLINE_MS = 120_000;
/** How long what was killed may take to be gone. */
const GONE_MS = 3_000;

/**
 * `how`: `dev`, the words that start the command; `limitS`; `isGit`, to make the copy a repository;
 * `kill`, null or `{ afterMs, signal }`; `visible`, which of the case's commands is shown.
 */
export function attempted(one, how) {
  return inCopy(one.tree, async (place, home) => {
    const command = how.visible === "all" ? one.wide : one.command;
    if (how.isGit) repository(place);
    const before = snapshot(place);
    const mark = `KAI_BENCH=${randomUUID()}`;
    const ran = await fix({ command, place, home, mark, how });
    const after = snapshot(place);
    const left = await remains(mark, join(home, "tmp"));
    const changed = differences(before, after);
    const verdict = await judged({
      one,
      command,
      changed,
      place,
      ran,
      isKilled: how.kill !== null,
    });
    const litter = await litterOf(one, command, changed.added);
    return {
      id: one.id,
      kind: one.kind,
      exit: ran.end.kind === "exit" ? ran.end.code : ran.end.kind,
      killed: how.kill !== null,
      ms: Math.round(ran.endMs),
      ...told(ran.stdout),
      ...verdict,
      leftovers: [...left, ...verdict.spoiled, ...litter.leftovers],
      litterCount: litter.count,
      stderr: ran.stderr.slice(-2_000),
    };
  });
}

function repository(place) {
  const git = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"];
  for (const args of [
    ["init", "-q"],
    ["add", "-A"],
    ["commit", "-q", "-m", "case"],
  ]) {
    const { status, stderr } = spawnSync("git", [...git, ...args], {
      cwd: place,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`git ${args[0]}: ${stderr}`);
  }
}

async function fix({ command, place, home, mark, how }) {
  for (const name of ["dev", "tmp"]) mkdirSync(join(home, name), { recursive: true });
  const [name, value] = mark.split("=");
  const env = {
    ...plainEnv(),
    [name]: value,
    DEV_HOME: join(home, "dev"),
    TMPDIR: join(home, "tmp"),
  };
  const options = ["--no-model", "--json", "--timeout", String(how.limitS), "-C", place];
  const argv = [...how.dev, "fix", ...options, "--", ...command];
  const deadlineMs = how.limitS * 1_000 + CHECK_DEADLINE_MS;
  return run(argv, home, deadlineMs, env, { keeps: true, kill: how.kill });
}

/** Processes and files outside of the tree that are still there a moment after the end. */
async function remains(mark, tmp) {
  const until = performance.now() + GONE_MS;
  let left = [];
  do {
    const processes = alive(mark).map((pid) => `process ${pid}`);
    left = [...processes, ...readdirSync(tmp).map((name) => `temporary ${name}`)];
    if (left.length > 0) await passed(100);
  } while (left.length > 0 && performance.now() < until);
  for (const pid of alive(mark)) killed(pid, "SIGKILL");
  return left;
}

function differences(before, after) {
  const isIn = (path) => path !== ".git" && !path.startsWith(".git/");
  return {
    changed: [...after.keys()].filter(
      (path) => isIn(path) && before.has(path) && before.get(path) !== after.get(path),
    ),
    added: [...after.keys()].filter((path) => isIn(path) && !before.has(path)),
    gone: [...before.keys()].filter((path) => isIn(path) && !after.has(path)),
    after,
  };
}

/**
 * What is said is run again, cold, in copies of the tree as it was, with the files that are now others
 * and nothing else. A tree that was not fixed has no such file; where the command was killed, it may
 * have done its work before.
 */
async function judged({ one, command, changed, place, ran, isKilled }) {
  const isVerified = ran.end.kind === "exit" && ran.end.code === 0;
  const files = [...changed.changed];
  const spoiled = changed.gone.map((path) => `gone ${path}`);
  if (files.length === 0) {
    const confirmed = isVerified ? await passes(one, command, [], place) : null;
    return { verified: isVerified, confirmed, wide: confirmed, spoiled };
  }
  const confirmed = await passes(one, command, files, place);
  const wide = one.wide === null ? confirmed : await passes(one, one.wide, files, place);
  const isLeft = !isVerified && !(isKilled && confirmed);
  return {
    verified: isVerified,
    confirmed: isVerified ? confirmed : null,
    wide: isVerified ? wide : null,
    spoiled: isLeft ? [...spoiled, ...files.map((path) => `changed ${path}`)] : spoiled,
  };
}

function passes(one, command, files, place) {
  return inCopy(one.tree, async (clean) => {
    for (const file of files) cpSync(join(place, file), join(clean, file), { dereference: false });
    const { end } = await run(command, clean, CHECK_DEADLINE_MS);
    return end.kind === "exit" && end.code === 0;
  });
}

/** New files that the command itself makes when a person runs it are not Kai's; all others are. */
async function litterOf(one, command, added) {
  if (added.length === 0) return { count: 0, leftovers: [] };
  const own = await inCopy(one.tree, async (clean) => {
    await run(command, clean, CHECK_DEADLINE_MS);
    return new Set(snapshot(clean).keys());
  });
  const leftovers = added.filter((path) => !own.has(path)).map((path) => `new ${path}`);
  return { count: added.length - leftovers.length, leftovers };
}

/** What the command says of itself in its last line: `{ operator, triedCount, firstMs }`, each if it does. */
function told(stdout) {
  for (const line of stdout.trimEnd().split("\n").toReversed()) {
    if (!line.startsWith("{")) continue;
    try {
      const { operator = null, triedCount = null, firstMs = null } = JSON.parse(line);
      return { operator, triedCount, firstMs };
    } catch {
      // A line that only looks like an object.
    }
  }
  return { operator: null, triedCount: null, firstMs: null };
}
