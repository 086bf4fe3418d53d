import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { CellLimits } from "../vendor.ts";
import type { ProcessName } from "./process.ts";

/*
 * Control groups: what the kernel counts for all the processes of a cell together, where a process's own
 * limits count each of them alone. Both hierarchies are used, the first (one tree a controller) and the
 * second (one tree); which of them a machine has, its own files say.
 */

/** Where the kernel says what it has. */
export type GroupMachine = {
  /** proc_pid_mountinfo(5) of this process. */
  readonly mountinfo: string;
  /** proc_pid_cgroup(5) of this process. */
  readonly own: string;
};

/** A cell's groups: a directory in each tree that takes part. */
export type Groups = { readonly directories: readonly string[] };

/** How much the agent and the sandbox's own processes add to what the commands may have, in threads. */
const OWN_THREAD_COUNT = 64;
/** How often a group that is being ended is looked at. */
const GROUP_POLL_MS = 10;

/** What this machine has; fault `unavailable` where there is no /proc that says it. */
export async function groupMachine(): Promise<Result<GroupMachine>> {
  try {
    const [mountinfo, own] = await Promise.all([
      readFile("/proc/self/mountinfo", "utf8"),
      readFile("/proc/self/cgroup", "utf8"),
    ]);
    return ok({ mountinfo, own });
  } catch (error) {
    return fail(fault("unavailable", `control groups: ${wordsOf(error)}`, "/proc/self"));
  }
}

/** The groups of one start of a cell; none where this machine counts nothing together, or not for us. */
export async function groupsOf(
  id: CellId,
  generation: number,
  limits: CellLimits,
): Promise<readonly string[]> {
  const machine = await groupMachine();
  const made = machine.ok
    ? await makeGroups(groupName(id, generation), limits, machine.value)
    : machine;
  return made.ok ? made.value.directories : [];
}

/** Of one start only: the end of the one before it may still be on its way. */
export function groupName(id: CellId, generation: number): string {
  return `dev-${id}.${generation}`;
}

/** Puts these processes in the groups. Fault: `unavailable`. */
export async function joinAll(
  directories: readonly string[],
  names: readonly ProcessName[],
): Promise<Result<undefined>> {
  for (const { pid } of names) {
    const joined = await joinGroups({ directories }, pid);
    if (!joined.ok) return joined;
  }
  return ok(undefined);
}

/**
 * Makes groups of that name and sets their limits. It is all or nothing: where memory or processes cannot be
 * counted, nothing is left, and the fault (`unavailable`) says why, and how to have them.
 */
export async function makeGroups(
  name: string,
  limits: CellLimits,
  machine: GroupMachine,
): Promise<Result<Groups>> {
  const trees = treesOf(machine);
  const made: string[] = [];
  const stop = async (why: string): Promise<Result<Groups>> => {
    await Promise.all(made.map((directory) => rmdir(directory).catch(() => undefined)));
    return fail(noGroups(why));
  };
  const missing = (["memory", "pids"] as const).filter((name) => trees[name] === undefined);
  if (missing.length > 0)
    return stop(`this machine counts no ${missing.join(" and no ")} by group`);
  for (const [parent, settings] of settingsOf(trees, limits)) {
    const directory = join(parent, name);
    try {
      if (trees.memory?.version === 2) await shareOut(parent);
      await mkdir(directory, { recursive: true });
      made.push(directory);
      for (const [file, value] of settings) await writeFile(join(directory, file), value);
    } catch (error) {
      return stop(wordsOf(error));
    }
  }
  return ok({ directories: made });
}

/** Puts a process, with all that it starts from now on, in a cell's groups. */
export async function joinGroups(groups: Groups, pid: number): Promise<Result<undefined>> {
  try {
    for (const directory of groups.directories) {
      await writeFile(join(directory, "cgroup.procs"), String(pid));
    }
    return ok(undefined);
  } catch (error) {
    return fail(noGroups(wordsOf(error)));
  }
}

/**
 * Kills every process in a cell's groups, wherever it went, and removes them. Whether they were gone
 * within the limit; groups that are not there are gone.
 */
export async function endGroups(groups: Groups, limitMs: number): Promise<boolean> {
  for (let waitedMs = 0; ; waitedMs += GROUP_POLL_MS) {
    const left = await Promise.all(groups.directories.map(endGroup));
    if (left.every((isLeft) => !isLeft)) return true;
    if (waitedMs >= limitMs) return false;
    await delay(GROUP_POLL_MS);
  }
}

/** Whether something of it is left. */
async function endGroup(directory: string): Promise<boolean> {
  // Nothing is forked any more while it is being ended; only one of the trees counts processes.
  await writeFile(join(directory, "pids.max"), "0", { flag: "r+" }).catch(() => undefined);
  for (const pid of await pidsIn(directory)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended between the look and the kill, which is what was wanted.
    }
  }
  return rmdir(directory).then(
    () => false,
    (error: unknown) => codeOf(error) !== "ENOENT",
  );
}

async function pidsIn(directory: string): Promise<readonly number[]> {
  const text = await readFile(join(directory, "cgroup.procs"), "utf8").catch(() => "");
  // 0 is a process of another namespace, and a signal to it would be one to our own group.
  return text
    .split("\n")
    .map(Number)
    .filter((pid) => pid > 1);
}

/**
 * In the second hierarchy a group hands its controllers down only while no process is in it itself: ours
 * then go to a group below, beside those of the cells.
 */
async function shareOut(parent: string): Promise<void> {
  const file = join(parent, "cgroup.subtree_control");
  const shared = (await readFile(file, "utf8")).trim().split(" ");
  if (CONTROLLERS.every((name) => shared.includes(name))) return;
  const wanted = CONTROLLERS.map((name) => `+${name}`).join(" ");
  try {
    await writeFile(file, wanted);
  } catch (error) {
    if (codeOf(error) !== "EBUSY") throw error;
    const leaf = join(parent, DRIVERS);
    await mkdir(leaf, { recursive: true });
    for (const pid of await pidsIn(parent)) {
      await writeFile(join(leaf, "cgroup.procs"), String(pid));
    }
    await writeFile(file, wanted);
  }
}

/** The group of this process and those beside it, where they had to make room. */
const DRIVERS = "dev-drivers";

type Controller = "memory" | "pids";
type Tree = { readonly version: 1 | 2; readonly directory: string };
type Trees = Readonly<Partial<Record<Controller, Tree>>>;

/** The directory in which a cell's group is made, of each controller that counts something. */
function treesOf({ mountinfo, own }: GroupMachine): Trees {
  const trees: Partial<Record<Controller, Tree>> = {};
  const mounts = mountsOf(mountinfo);
  for (const line of own.split("\n")) {
    const [, names, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined) continue;
    const version = names === "" ? 2 : 1;
    for (const name of version === 2
      ? CONTROLLERS
      : CONTROLLERS.filter((one) => isIn(one, names))) {
      const mount = mounts.find((each) =>
        version === 2
          ? each.kind === "cgroup2"
          : each.kind === "cgroup" && isIn(name, each.options),
      );
      // A controller is in one hierarchy only, and the first that has it is the one.
      if (mount === undefined || trees[name] !== undefined) continue;
      const below = path.startsWith(mount.root) ? path.slice(mount.root.length) : path;
      const directory = join(mount.at, below);
      const isBelow = version === 2 && basename(directory) === DRIVERS;
      trees[name] = { version, directory: isBelow ? dirname(directory) : directory };
    }
  }
  return trees;
}

const CONTROLLERS: readonly Controller[] = ["memory", "pids"];

function isIn(name: string, list: string): boolean {
  return list.split(",").includes(name);
}

type MountLine = {
  readonly root: string;
  readonly at: string;
  readonly kind: string;
  readonly options: string;
};

function mountsOf(mountinfo: string): readonly MountLine[] {
  return mountinfo.split("\n").flatMap((line) => {
    const words = line.split(" ");
    const dash = words.indexOf("-");
    const [root = "", at = ""] = words.slice(3);
    const [kind, , options = ""] = words.slice(dash + 1);
    if (dash < 0 || kind === undefined || !kind.startsWith("cgroup")) return [];
    return [{ root: root === "/" ? "" : root, at, kind, options }];
  });
}

type Setting = readonly [file: string, value: string];

/** By directory, what is written into the files of a group there. */
function settingsOf(trees: Trees, limits: CellLimits): ReadonlyMap<string, readonly Setting[]> {
  const settings = new Map<string, Setting[]>();
  const put = (controller: Controller, first: Setting, second: Setting): void => {
    const tree = trees[controller];
    if (tree === undefined) return;
    const list = settings.get(tree.directory) ?? [];
    settings.set(tree.directory, [...list, tree.version === 1 ? first : second]);
  };
  const bytes = String(limits.memoryBytes);
  put("memory", ["memory.limit_in_bytes", bytes], ["memory.max", bytes]);
  const count = String(limits.processCount + OWN_THREAD_COUNT);
  put("pids", ["pids.max", count], ["pids.max", count]);
  return settings;
}

function noGroups(why: string): Fault {
  return fault(
    "unavailable",
    `a cell's memory and processes are not counted together: ${why}`,
    "control groups",
    "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes dev …",
  );
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
