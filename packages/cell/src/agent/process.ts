import { readdirSync, readFileSync } from "node:fs";
import { errnoOf } from "./errno.ts";

/** One process, as /proc tells of it. */
type Row = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly isDead: boolean;
};

/** How often a sweep looks again for what was forked meanwhile. */
const SWEEP_ROUNDS = 20;

/** Sends a signal to a whole process group; false when there is none any more. */
export function killGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch (error) {
    if (errnoOf(error) === "ESRCH") return false;
    // A process in it that belongs to someone else: the others were signalled.
    if (errnoOf(error) === "EPERM") return true;
    throw error;
  }
}

/** Whether a process of the group still runs; one that nobody has waited for yet does not. */
export function isGroupAlive(group: number): boolean {
  if (!killGroup(group, 0)) return false;
  if (process.platform !== "linux") return true;
  return readTable().some((row) => row.group === group && !row.isDead);
}

/**
 * Kills what left its process group: every process that has `marker` in its environment (`NAME=value`,
 * or a beginning of it), and every descendant of `roots`. A daemon that was forked twice and cleared
 * its environment is not found; only a cell with processes of its own ends that one.
 */
export function sweep(marker: string, roots: readonly number[]): void {
  if (process.platform !== "linux") return;
  for (let round = 0; round < SWEEP_ROUNDS; round++) {
    const found = findProcesses(marker, roots);
    if (found.length === 0) return;
    for (const pid of found) killOne(pid);
  }
}

function findProcesses(marker: string, roots: readonly number[]): readonly number[] {
  const rows = readTable();
  const wanted = new Set(roots);
  // A child can have a lower number than its parent: so until nothing more is found.
  for (let size = -1; size !== wanted.size; ) {
    size = wanted.size;
    for (const row of rows) if (wanted.has(row.parent)) wanted.add(row.pid);
  }
  for (const root of roots) wanted.delete(root);
  return rows
    .filter((row) => !row.isDead && row.pid !== process.pid)
    .filter((row) => wanted.has(row.pid) || isMarked(row.pid, marker))
    .map((row) => row.pid);
}

function readTable(): readonly Row[] {
  const rows: Row[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readOf(Number(name), "stat");
    // `pid (any name at all) state parent group …`
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, parent, group] = fields;
    if (state === undefined || parent === undefined || group === undefined) continue;
    rows.push({
      pid: Number(name),
      parent: Number(parent),
      group: Number(group),
      isDead: state === "Z" || state === "X",
    });
  }
  return rows;
}

function isMarked(pid: number, marker: string): boolean {
  return `\0${readOf(pid, "environ")}`.includes(`\0${marker}`);
}

/** Nothing, when the process is gone or is not ours to look at. */
function readOf(pid: number, file: "stat" | "environ"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return "";
  }
}

function killOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // It has ended meanwhile, or is not ours.
    if (errnoOf(error) === null) throw error;
  }
}
