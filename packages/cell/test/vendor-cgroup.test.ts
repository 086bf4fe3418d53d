import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import {
  endGroups,
  type GroupMachine,
  groupMachine,
  groupName,
  joinGroups,
  makeGroups,
} from "../src/vendors/cgroup.ts";
import { nameProcess } from "../src/vendors/process.ts";
import { newId, until } from "./machine.ts";

const MIB = 1024 * 1024;
const limits = { ...DEFAULT_CELL_LIMITS, memoryBytes: 64 * MIB, processCount: 8 };

async function realGroups(): Promise<{ directories: readonly string[] } | string> {
  const machine = await groupMachine();
  if (!machine.ok) return machine.fault.message;
  const made = await makeGroups(groupName(newId(), 1), limits, machine.value);
  return made.ok ? made.value : made.fault.message;
}

/** A shell that waits for a line before it becomes the command. */
function held(command: string) {
  return spawn("sh", ["-c", `read go; ${command}`], { stdio: ["pipe", "ignore", "pipe"] });
}

test("memory is counted for all processes of a cell together, and more than it may have ends one", async (context) => {
  const groups = await realGroups();
  context.skip(typeof groups === "string", `${groups}`);
  if (typeof groups === "string") return;
  // Each of the two has less than the limit, and keeps it.
  const eat = "perl -e '$x = \"x\" x 40000000; sleep 600'";
  const child = held(`${eat} & ${eat} & wait`);
  expect(await joinGroups(groups, child.pid ?? 0)).toMatchObject({ ok: true });
  child.stdin?.end("go\n");
  const counted = (): string =>
    groups.directories
      .flatMap((directory) =>
        ["memory.failcnt", "memory.events"]
          .map((name) => join(directory, name))
          .filter((path) => existsSync(path))
          .map((path) => readFileSync(path, "utf8")),
      )
      .join("\n");
  await until(() => /^[1-9]|oom_kill [1-9]/m.test(counted()));
  expect(await endGroups(groups, 10_000)).toBe(true);
});

test("a daemon that left its session, its parent and its environment ends with its group", async (context) => {
  const groups = await realGroups();
  context.skip(typeof groups === "string", `${groups}`);
  if (typeof groups === "string") return;
  const place = mkdtempSync(join(tmpdir(), "dev-group-"));
  const child = held(
    `env -i /usr/bin/setsid /bin/sh -c '(echo $$ > ${place}/pid; exec sleep 600) &'`,
  );
  await joinGroups(groups, child.pid ?? 0);
  child.stdin?.end("go\n");
  await once(child, "exit");
  const pids = groups.directories.flatMap((directory) =>
    readFileSync(join(directory, "cgroup.procs"), "utf8").split("\n").filter(Boolean),
  );
  expect(pids.length).toBeGreaterThan(0);
  expect(await endGroups(groups, 10_000)).toBe(true);
  expect(await Promise.all(pids.map((pid) => nameProcess(Number(pid))))).toEqual(
    pids.map(() => undefined),
  );
  for (const directory of groups.directories) expect(existsSync(directory)).toBe(false);
  // Ending what has ended is as good.
  expect(await endGroups(groups, 10_000)).toBe(true);
  rmSync(place, { recursive: true });
});

test("no more processes are made than a cell may have", async (context) => {
  const groups = await realGroups();
  context.skip(typeof groups === "string", `${groups}`);
  if (typeof groups === "string") return;
  const child = held("i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done");
  await joinGroups(groups, child.pid ?? 0);
  child.stdin?.end("go\n");
  await once(child, "exit");
  const counts = groups.directories.map(
    (directory) => readFileSync(join(directory, "cgroup.procs"), "utf8").split("\n").length - 1,
  );
  expect(Math.max(...counts)).toBeLessThan(100);
  expect(await endGroups(groups, 10_000)).toBe(true);
});

const fake = mkdtempSync(join(tmpdir(), "dev-groups-"));
afterAll(() => rmSync(fake, { recursive: true, force: true }));

/** Directories that look as the kernel's do, and answer nothing. */
function secondHierarchy(own: string, shared: string): GroupMachine {
  mkdirSync(join(fake, own), { recursive: true });
  writeFileSync(join(fake, own, "cgroup.subtree_control"), shared);
  writeFileSync(join(fake, own, "cgroup.procs"), "");
  return {
    mountinfo: `30 23 0:26 / ${fake} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n`,
    own: `0::/${own}\n`,
  };
}

test("where there is one tree, a cell's group is in our own, with the limits by their names there", async () => {
  const machine = secondHierarchy("user.slice/dev.scope", "cpu memory pids\n");
  const id = newId();
  const made = await makeGroups(groupName(id, 1), limits, machine);
  const directory = join(fake, "user.slice/dev.scope", groupName(id, 1));
  expect(made).toEqual({ ok: true, value: { directories: [directory] } });
  expect(readFileSync(join(directory, "memory.max"), "utf8")).toBe(String(64 * MIB));
  expect(readFileSync(join(directory, "pids.max"), "utf8")).toBe("72");
});

test("controllers that are not shared out yet are asked for", async () => {
  const machine = secondHierarchy("fresh.scope", "");
  expect((await makeGroups(groupName(newId(), 1), limits, machine)).ok).toBe(true);
  expect(readFileSync(join(fake, "fresh.scope/cgroup.subtree_control"), "utf8")).toBe(
    "+memory +pids",
  );
});

test("a machine that counts neither says so, and how to mend it", async () => {
  const made = await makeGroups(groupName(newId(), 1), limits, { mountinfo: "", own: "" });
  expect(made).toMatchObject({
    ok: false,
    fault: { code: "unavailable", message: expect.stringContaining("no memory and no pids") },
  });
});

test("a group that cannot be made leaves nothing behind", async () => {
  const machine = secondHierarchy("closed.scope", "memory pids");
  const id = newId();
  mkdirSync(join(fake, "closed.scope", groupName(id, 1), "pids.max"), { recursive: true });
  const made = await makeGroups(groupName(id, 1), limits, machine);
  expect(made).toMatchObject({ ok: false, fault: { subject: "control groups" } });
});
