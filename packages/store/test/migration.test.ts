import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { openSqlite, type Store } from "@dev/store";
import Database from "libsql";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  action,
  dead,
  dispatched,
  driven,
  entry,
  fresh,
  MODEL,
  must,
  named,
  QUESTION,
  RAN,
  REFUSED,
  ran,
  replied,
  SAVE,
  settled,
  turn,
  UNKNOWN,
  USAGE,
} from "./notation.ts";

// A store as each released version of the schema left it. They are made once and never again: what this
// test reads is what is out there. A new version is added by DEV_STORE_FIXTURE=write, in a run of this
// file alone; a version that exists is left as it is.
const fixtures = fileURLToPath(new URL("fixture/", import.meta.url));
const VERSIONS = [1, 2, 3];

let directory = "";
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "store-"));
  if (process.env.DEV_STORE_FIXTURE === "write") await writeFixture();
});
afterAll(() => rm(directory, { recursive: true }));

test("every version that was ever written has a fixture", async () => {
  const path = join(directory, "newest.db");
  must(await openSqlite(path)).close();
  const database = new Database(path);
  const [row] = database.prepare("pragma user_version").all([]) as { user_version: number }[];
  database.close();
  expect(VERSIONS).toEqual(Array.from({ length: row?.user_version ?? 0 }, (_, n) => n + 1));
  expect((await readdir(fixtures)).sort()).toEqual(VERSIONS.map((n) => `version-${n}.db.gz`));
});

test.each(VERSIONS)("a store of version %i is read, and goes on", async (version) => {
  const path = join(directory, `${version}.db`);
  await writeFile(path, gunzipSync(await readFile(join(fixtures, `version-${version}.db.gz`))));
  const store = must(await openSqlite(path));
  await expectStory(store);
  expect(must(await store.checkpoints(named(1)))).toEqual(checkpointsOf(version));
  const claim = must(await store.claim(named(1), "two", dead, 9));
  must(await store.append(claim, entry(5, turn(2), [action(7)])));
  must(await store.dispatch(claim, [dispatched(6), dispatched(7)]));
  expect(must(await store.ledger(named(1)))).toHaveLength(7);
  store.close();
});

/** One session with a line of every kind; what it holds never changes. */
async function tellStory(store: Store): Promise<void> {
  const claim = await driven(store);
  const minted = [action(1, MODEL), action(2), action(3), action(4), action(5, SAVE)];
  const more = action(6, QUESTION);
  must(await store.append(claim, entry(0, turn(1, "Größe\nmore"), minted)));
  must(await store.dispatch(claim, [dispatched(1, 1, "")]));
  must(await store.dispatch(claim, [dispatched(1, 2, ""), dispatched(2), dispatched(4)]));
  must(await store.append(claim, entry(1, replied(1))));
  must(await store.append(claim, entry(2, ran(2), [more])));
  must(await store.append(claim, entry(3, ran(3, REFUSED))));
  must(await store.append(claim, entry(4, ran(4, UNKNOWN))));
  must(await store.settle(claim, [settled(4)]));
  must(await store.attach(claim, { id: "c_1", workspace: "/w" }));
  const snapshot = new Uint8Array([0, 1, 255]);
  must(await store.save(claim, { snapshot, workspace: "w", sequence: 4, atMs: 7 }));
  must(await store.create(fresh(2)));
}

/** The checkpoints that a store of this version has after `tellStory`. */
function checkpointsOf(version: number): readonly unknown[] {
  if (version < 2) return [];
  return [{ number: 1, workspace: "w", sequence: 4, atMs: 7, cause: "save" }];
}

async function expectStory(store: Store): Promise<void> {
  const [second, first] = must(await store.sessions(10));
  expect(second).toMatchObject({ ...fresh(2), state: "new", sequence: 0, cell: null });
  expect(first).toEqual({
    ...fresh(1),
    updatedMs: 1_004,
    sequence: 5,
    title: "Größe",
    state: "active",
    cell: { id: "c_1", workspace: "/w" },
    holder: "one",
  });
  const events = must(await store.journal(named(1), 0)).map((one) => one.event);
  const ends = [replied(1), ran(2), ran(3, REFUSED), ran(4, UNKNOWN)];
  expect(events).toEqual([turn(1, "Größe\nmore"), ...ends]);
  const ledger = must(await store.ledger(named(1)));
  expect(ledger.map((life) => life.action)).toEqual([
    action(1, MODEL),
    action(2),
    action(3),
    action(4),
    action(5, SAVE),
    action(6, QUESTION),
  ]);
  const states = ledger.map((life) => life.lines.map((line) => line.state).join(" "));
  expect(states).toEqual([
    "minted dispatched dispatched completed",
    "minted dispatched completed",
    "minted refused",
    "minted dispatched unknown completed",
    "minted",
    "minted",
  ]);
  expect(ledger[0]?.lines.at(-1)).toMatchObject({ attempt: 2, usage: USAGE, outcome: null });
  expect(ledger[1]?.lines.at(-1)).toMatchObject({ spool: "spool-1", outcome: RAN, usage: null });
  const save = { snapshot: new Uint8Array([0, 1, 255]), workspace: "w", sequence: 4, atMs: 7 };
  expect(must(await store.lastSave(named(1)))).toEqual(save);
}

async function writeFixture(): Promise<void> {
  const path = join(directory, "fixture.db");
  const store = must(await openSqlite(path));
  await tellStory(store);
  store.close();
  await mkdir(fixtures, { recursive: true });
  const name = join(fixtures, `version-${VERSIONS.at(-1)}.db.gz`);
  await writeFile(name, gzipSync(await readFile(path), { level: 9 }), { flag: "wx" });
}
