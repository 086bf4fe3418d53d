import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openSqlite, type Store } from "@dev/store";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { must, named } from "./notation.ts";

let directory = "";
let program = "";
let path = "";
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "store-"));
  program = join(directory, "writer.mjs");
  // The program finds the native database where this package does.
  await symlink(
    fileURLToPath(new URL("../../../node_modules", import.meta.url)),
    join(directory, "node_modules"),
  );
  const bundle = await rolldown({
    input: fileURLToPath(new URL("writer.ts", import.meta.url)),
    platform: "node",
    external: ["libsql"],
    resolve: { conditionNames: ["source", "import", "default"] },
  });
  await bundle.write({ file: program });
  await bundle.close();
});
beforeEach(() => {
  path = join(directory, `${count++}.db`);
});
afterAll(() => rm(directory, { recursive: true }));

test("a driver killed at any moment leaves whole entries, and all it had been told of", async () => {
  let told = 0;
  for (const lines of [1, 2, 7, 20, 41]) {
    told = Math.max(told, await killedAfter(lines));
    const store = must(await openSqlite(path));
    const { sequence } = must(await store.session(named(1)));
    expect(sequence).toBeGreaterThanOrEqual(told);
    await agree(store, sequence);
    store.close();
  }
  expect(told).toBeGreaterThan(0);
});

test("two processes write to two sessions of one new file at once", async () => {
  const rounds = 150;
  const writers = [1, 2].map((n) => writer(n, rounds));
  const exits = await Promise.all(writers.map(exitOf));
  expect(exits).toEqual(["", ""]);
  const store = must(await openSqlite(path));
  for (const n of [1, 2]) {
    expect(must(await store.session(named(n))).sequence).toBe(2 * rounds);
    expect(must(await store.journal(named(n), 0))).toHaveLength(2 * rounds);
  }
  store.close();
});

test("of two processes that drive one session the older stops, and nothing is written twice", async () => {
  const first = writer(1, 100_000);
  await lineOf(first);
  const second = exitOf(writer(1, 20));
  expect(await exitOf(first)).toContain("fenced");
  expect(await second).toBe("");
  const store = must(await openSqlite(path));
  await agree(store, must(await store.session(named(1))).sequence);
  store.close();
});

/** The journal, the actions and the ledger tell one story. */
async function agree(store: Store, sequence: number): Promise<void> {
  const entries = must(await store.journal(named(1), 0));
  expect(entries.map((one) => one.sequence)).toEqual(
    Array.from({ length: sequence }, (_, index) => index + 1),
  );
  const ledger = must(await store.ledger(named(1)));
  const ends = new Set<number>();
  let prompts = 0;
  for (const { event } of entries) {
    if (event.kind === "turn") prompts++;
    if (event.kind === "exec") ends.add(event.id);
  }
  expect(ledger).toHaveLength(2 * prompts);
  for (const { action, lines } of ledger) {
    const states = lines.map((line) => line.state);
    expect(states).toEqual(["minted", "dispatched", "completed"].slice(0, states.length));
    expect(states.length === 3).toBe(ends.has(action.id));
    // Both actions of a prompt are dispatched in one write.
    const twin = ledger.find((life) => life.action.id === (action.id ^ 1));
    if (states.length === 1 && twin !== undefined) expect(twin.lines.length).toBe(1);
  }
}

function writer(n: number, rounds: number): ChildProcess {
  return spawn(process.execPath, [program, path, String(n), String(rounds)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Kills a driver of session 1 once it has said that many lines; the last sequence it said. */
async function killedAfter(lines: number): Promise<number> {
  const child = writer(1, 100_000);
  const ended = once(child, "exit");
  let said = 0;
  let last = 0;
  if (child.stdout === null) throw new Error("no output");
  for await (const line of createInterface({ input: child.stdout })) {
    last = Number(line);
    if (++said === lines) child.kill("SIGKILL");
  }
  expect(await ended).toEqual([null, "SIGKILL"]);
  return last;
}

async function lineOf(child: ChildProcess): Promise<void> {
  if (child.stdout !== null) await once(child.stdout, "data");
}

/** What a process wrote to its stderr; empty when it ended well. */
async function exitOf(child: ChildProcess): Promise<string> {
  let text = "";
  child.stdout?.resume();
  child.stderr?.on("data", (chunk) => {
    text += String(chunk);
  });
  const [code] = await once(child, "close");
  return code === 0 ? text : `${text}\nended with ${code}`;
}
