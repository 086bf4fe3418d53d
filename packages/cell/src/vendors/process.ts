import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

/**
 * One process for ever. A pid alone is used again by the next process; with the moment that it was
 * started at (in the platform's own notation, only ever compared) it is not.
 */
export type ProcessName = { readonly pid: number; readonly started: string };

/** How often a process that should end is looked at. */
const PROCESS_POLL_MS = 20;
/** How many looks in a row find nothing where there is nothing. */
const EMPTY_LOOKS = 2;
/** How many processes of one machine are looked through. */
const PROCESS_LIMIT = 100_000;

/** The name of the process that has this pid now; undefined when there is none, or only its corpse. */
export async function nameProcess(pid: number): Promise<ProcessName | undefined> {
  const started = process.platform === "linux" ? await startOf(pid) : await reportedStartOf(pid);
  return started === undefined ? undefined : { pid, started };
}

export async function isAlive(name: ProcessName): Promise<boolean> {
  return (await nameProcess(name.pid))?.started === name.started;
}

/** Kills that process, and never another one that got its pid. */
export async function killProcess(name: ProcessName): Promise<void> {
  if (await isAlive(name)) send(name.pid);
}

/** Whether the process had ended before the limit, or the signal, was reached. */
export async function waitForEnd(
  name: ProcessName,
  limitMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += PROCESS_POLL_MS) {
    if (!(await isAlive(name))) return true;
    if (waitedMs >= limitMs || signal.aborted) return false;
    // An abort ends the pause, and the next look decides.
    await delay(PROCESS_POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/**
 * Kills every process whose environment has this entry (`NAME=value`), and whether all of them were gone
 * within the limit. The environment is what a daemon keeps when it leaves its session and its parent;
 * one that clears it is not found. Linux only: elsewhere nothing is found.
 */
export function endMarked(entry: string, limitMs: number): Promise<boolean> {
  return endFound((pid) => hasEntry(pid, entry), limitMs);
}

/**
 * The same for every process of a program whose name begins so, and that has this word among its
 * arguments: what a runtime starts beside a container has none of our variables.
 */
export function endRuntimes(program: string, word: string, limitMs: number): Promise<boolean> {
  return endFound(async (pid) => {
    const text = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
    const [path = "", ...words] = text.split("\0");
    return basename(path).startsWith(program) && words.includes(word);
  }, limitMs);
}

type Found = (pid: number) => Promise<boolean>;

async function endFound(isOne: Found, limitMs: number): Promise<boolean> {
  for (let waitedMs = 0, emptyCount = 0; ; waitedMs += PROCESS_POLL_MS) {
    // Again and again: one that was just being forked had not been listed, and who forked it may have
    // ended before it was looked at. So finding nothing once says little.
    const found = await find(isOne);
    emptyCount = found.length === 0 ? emptyCount + 1 : 0;
    if (emptyCount === EMPTY_LOOKS) return true;
    if (emptyCount > 0) continue;
    if (waitedMs >= limitMs) return false;
    for (const pid of found) send(pid);
    await delay(PROCESS_POLL_MS);
  }
}

/** Whether this word is somewhere in the process's variables or arguments. Linux only. */
export async function isMarked(pid: number, word: string): Promise<boolean> {
  for (const name of ["environ", "cmdline"]) {
    const text = await readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "");
    if (text.includes(word)) return true;
  }
  return false;
}

async function find(isOne: Found): Promise<readonly number[]> {
  if (process.platform !== "linux") return [];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: number[] = [];
  for (const pid of pids.slice(0, PROCESS_LIMIT)) {
    if (pid !== process.pid && (await isOne(pid))) found.push(pid);
  }
  return found;
}

async function hasEntry(pid: number, entry: string): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/environ`, "latin1")).split("\0").includes(entry);
  } catch {
    // It is another person's, or it has just ended: not ours to kill either way.
    return false;
  }
}

function send(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended between the look and the kill, which is what was wanted.
  }
}

/** Field 22 of proc_pid_stat(5), counted after the program's name, which may itself hold spaces. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie does nothing; in a container without an init nobody ever collects it.
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** For systems without /proc. */
export async function reportedStartOf(pid: number): Promise<string | undefined> {
  try {
    const shown = await run("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
    });
    const [state = "", ...words] = shown.stdout.trim().split(/\s+/);
    return state === "" || state.startsWith("Z") ? undefined : words.join(" ");
  } catch {
    return undefined;
  }
}

const run = promisify(execFile);
