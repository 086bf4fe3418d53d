import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CellId } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  endMarked,
  isAlive,
  killProcess,
  nameProcess,
  reportedStartOf,
  waitForEnd,
} from "../src/vendors/process.ts";
import {
  type CellRecord,
  createRecord,
  directoryOf,
  emptyDirectory,
  readRecord,
  removeCell,
  writeRecord,
} from "../src/vendors/record.ts";
import { newId, temporary } from "./machine.ts";

const NEVER = new AbortController().signal;

function recordOf(id: CellId, rest: Partial<CellRecord> = {}): CellRecord {
  return {
    version: 1,
    id,
    vendor: "local",
    generation: 0,
    groups: [],
    boundary: null,
    running: { kind: "none" },
    ...rest,
  };
}

test("a record whose groups are another cell's is no record, for what is in a group is killed", async () => {
  const home = temporary();
  const id = newId();
  const record = { ...recordOf(id), groups: [`/sys/fs/cgroup/pids/dev-${newId()}.1`] };
  expect(await createRecord(home, record)).toMatchObject({ ok: true });
  expect(await readRecord(home, id, "local")).toMatchObject({ fault: { code: "corrupt" } });
});

test("a record is read as it was written, by its own vendor and no other", async () => {
  const home = temporary();
  const id = newId();
  const name = { pid: 4711, started: "12" };
  const record = recordOf(id, { running: { kind: "started", agent: name, root: name } });
  expect(await createRecord(home, recordOf(id))).toMatchObject({ ok: true });
  expect(await writeRecord(home, record)).toMatchObject({ ok: true });
  expect(await readRecord(home, id, "local")).toEqual({ ok: true, value: record });
  expect(await readRecord(home, id, "other")).toMatchObject({ fault: { code: "corrupt" } });
  expect(await readRecord(home, newId(), "local")).toEqual({ ok: true, value: undefined });
});

test("a cell that is made twice is made once", async () => {
  const home = temporary();
  const id = newId();
  await createRecord(home, recordOf(id));
  await writeRecord(home, recordOf(id, { generation: 7 }));
  expect(await createRecord(home, recordOf(id))).toMatchObject({ fault: { code: "exists" } });
  expect(await readRecord(home, id, "local")).toMatchObject({ value: { generation: 7 } });
});

test("any text at all in a record's place is a fault, and never a process to kill", async () => {
  const home = temporary();
  const id = newId();
  await createRecord(home, recordOf(id));
  const whole = JSON.stringify(recordOf(id));
  const json = fc.json();
  const cut = fc.integer({ min: 0, max: whole.length - 1 }).map((at) => whole.slice(0, at));
  const low = fc.integer({ max: 1 }).map((pid) => {
    const name = { pid, started: "1" };
    return JSON.stringify(recordOf(id, { running: { kind: "started", agent: name, root: name } }));
  });
  await fc.assert(
    fc.asyncProperty(fc.oneof(json, cut, low), async (text) => {
      writeFileSync(directoryOf(home, id).record, text);
      expect(await readRecord(home, id, "local")).toMatchObject({ fault: { code: "corrupt" } });
    }),
    { numRuns: 60 },
  );
});

test("what is no cell id names no directory", () => {
  for (const text of ["", ".", "..", "../c_x", "/etc", "c_"]) {
    expect(() => directoryOf("/home", text as CellId)).toThrow("not a cell id");
  }
});

test("removing a cell follows no link out of it, and needs no permission inside it", async () => {
  const home = temporary();
  const outside = temporary();
  writeFileSync(join(outside, "precious"), "");
  const id = newId();
  await createRecord(home, recordOf(id));
  const { scratch, path } = directoryOf(home, id);
  symlinkSync(outside, join(scratch, "link"));
  mkdirSync(join(scratch, "closed", "deeper"), { recursive: true });
  chmodSync(join(scratch, "closed", "deeper"), 0o500);
  chmodSync(join(scratch, "closed"), 0o500);
  expect(await emptyDirectory(scratch, 0o700)).toMatchObject({ ok: true });
  expect(readdirSync(scratch)).toEqual([]);
  symlinkSync(outside, join(scratch, "link"));
  expect(await removeCell(home, id)).toMatchObject({ ok: true });
  expect(existsSync(path)).toBe(false);
  expect(existsSync(join(outside, "precious"))).toBe(true);
});

test("a process is told from a later one with its pid", async () => {
  const child = spawn("sleep", ["600"]);
  const name = await nameProcess(child.pid ?? 0);
  if (name === undefined) throw new Error("no such process");
  const impostor = { ...name, started: `${name.started}0` };
  await killProcess(impostor);
  expect([await isAlive(name), await isAlive(impostor)]).toEqual([true, false]);
  await killProcess(name);
  expect(await waitForEnd(name, 10_000, NEVER)).toBe(true);
  expect(await isAlive(name)).toBe(false);
});

test("a wait for a process that goes on ends at its limit, and when it is given up", async () => {
  const child = spawn("sleep", ["600"]);
  const name = await nameProcess(child.pid ?? 0);
  if (name === undefined) throw new Error("no such process");
  expect(await waitForEnd(name, 0, NEVER)).toBe(false);
  expect(await waitForEnd(name, 600_000, AbortSignal.timeout(50))).toBe(false);
  child.kill("SIGKILL");
});

test("where there is no /proc, a process's start is what ps says", async () => {
  const child = spawn("sleep", ["600"]);
  const started = await reportedStartOf(child.pid ?? 0);
  expect(started).toMatch(/\d\d:\d\d:\d\d/);
  expect(await reportedStartOf(child.pid ?? 0)).toBe(started);
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
  expect(await reportedStartOf(child.pid ?? 0)).toBe(undefined);
});

test("a marked daemon is found wherever it went, and nothing else is", async () => {
  const entry = `DEV_CELL=${newId()}`;
  const [name = "", value = ""] = entry.split("=");
  const bystander = spawn("sleep", ["600"], {
    env: { PATH: process.env.PATH, [name]: `${value}x` },
  });
  const script = "setsid sh -c 'setsid sleep 600 & echo $!; exit' < /dev/null";
  const parent = spawn("sh", ["-c", script], { env: { PATH: process.env.PATH, [name]: value } });
  const [line] = await new Promise<string[]>((resolve) => {
    parent.stdout.on("data", (chunk) => resolve(String(chunk).split("\n")));
  });
  const daemon = await nameProcess(Number(line));
  if (daemon === undefined) throw new Error("no daemon");
  expect(await endMarked(entry, 10_000)).toBe(true);
  expect(await isAlive(daemon)).toBe(false);
  expect(bystander.exitCode ?? bystander.signalCode).toBe(null);
  bystander.kill("SIGKILL");
});
