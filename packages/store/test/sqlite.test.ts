import { chmod, mkdtemp, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite, type Store } from "@dev/store";
import Database from "libsql";
import { afterEach, beforeEach, expect, test } from "vitest";
import { storeContract } from "./contract.ts";
import { action, driven, entry, fresh, must, named, turn } from "./notation.ts";

storeContract("memory", async () => {
  // A store in memory is its own; a second driver in the process shares it.
  const store = must(await openSqlite(":memory:"));
  return { open: async () => store, close: async () => store.close() };
});

storeContract("a SQLite file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "store-"));
  const opened: Store[] = [];
  return {
    open: async () => {
      const store = must(await openSqlite(join(directory, "dev.db")));
      opened.push(store);
      return store;
    },
    close: async () => {
      for (const store of opened) store.close();
      await rm(directory, { recursive: true });
    },
  };
});

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "store-"));
});
afterEach(() => rm(directory, { recursive: true }));

test("a new store is its owner's alone", async () => {
  const path = join(directory, "new", "deep", "dev.db");
  const store = must(await openSqlite(path));
  must(await store.create(fresh()));
  const mode = async (name: string) => ((await stat(name)).mode & 0o777).toString(8);
  expect(await mode(path)).toBe("600");
  expect(await mode(`${path}-wal`)).toBe("600");
  expect(await mode(join(directory, "new", "deep"))).toBe("700");
  store.close();
});

test("what was written is there when the store is opened again", async () => {
  const path = join(directory, "dev.db");
  const store = must(await openSqlite(path));
  must(await store.append(await driven(store), entry(0, turn(1), [action(1)])));
  store.close();
  const again = must(await openSqlite(path));
  expect(must(await again.journal(named(1), 0))).toHaveLength(1);
  expect(must(await again.ledger(named(1)))).toHaveLength(1);
  again.close();
});

test("a store of a newer version is refused and left as it is", async () => {
  const path = join(directory, "dev.db");
  must(await openSqlite(path)).close();
  edit(path, "pragma user_version = 99");
  const before = await readFile(path);
  const opened = await openSqlite(path);
  expect(opened).toMatchObject({ ok: false, fault: { code: "newer_version", subject: path } });
  expect(await readFile(path)).toEqual(before);
});

test("a file that is no database, or another program's, is refused and left as it is", async () => {
  const text = join(directory, "notes.txt");
  await writeFile(text, "dear diary\n".repeat(1_000));
  const other = join(directory, "other.db");
  edit(other, "create table songs (name text)");
  for (const path of [text, other]) {
    const before = await readFile(path);
    const opened = await openSqlite(path);
    expect(opened).toMatchObject({ ok: false, fault: { code: "corrupt", subject: path } });
    expect(opened.ok ? "" : opened.fault.mend).not.toBe("");
    expect(await readFile(path)).toEqual(before);
  }
});

test("a store that lost its second half says so", async () => {
  const path = join(directory, "dev.db");
  const store = must(await openSqlite(path));
  const claim = await driven(store);
  for (let n = 0; n < 50; n++)
    must(await store.append(claim, entry(n, turn(n + 1, "x".repeat(999)))));
  store.close();
  await truncate(path, Math.floor((await stat(path)).size / 2));
  const opened = await openSqlite(path);
  const read = opened.ok ? await opened.value.journal(named(1), 0) : opened;
  expect(read).toMatchObject({ ok: false, fault: { code: "corrupt" } });
  if (opened.ok) opened.value.close();
});

test("a journal with a hole, or with an entry in a later format, is not guessed past", async () => {
  const path = join(directory, "dev.db");
  const store = must(await openSqlite(path));
  const claim = await driven(store);
  for (let n = 0; n < 3; n++) must(await store.append(claim, entry(n, turn(n + 1))));
  edit(path, "drop trigger journal_stays; update journal set format = 7 where sequence = 3");
  const read = () => store.journal(named(1), 0);
  expect(await read()).toMatchObject({ ok: false, fault: { code: "newer_version" } });
  edit(path, "update journal set format = 1, body = x'00ff' where sequence = 3");
  expect(await read()).toMatchObject({ ok: false, fault: { code: "corrupt" } });
  edit(path, "delete from journal where sequence = 3");
  expect(await read()).toMatchObject({ ok: false, fault: { code: "corrupt" } });
  edit(path, "delete from journal where sequence = 1");
  expect(await read()).toMatchObject({ ok: false, fault: { code: "corrupt" } });
  store.close();
});

test("what was written down cannot be rewritten", async () => {
  const path = join(directory, "dev.db");
  const store = must(await openSqlite(path));
  must(await store.append(await driven(store), entry(0, turn(1), [action(1)])));
  for (const table of ["journal", "actions", "ledger"]) {
    expect(() => edit(path, `update ${table} set session = session`)).toThrow(/append-only/);
  }
  store.close();
});

test("a directory that cannot be made is a fault that names the path", async () => {
  const file = join(directory, "file");
  await writeFile(file, "");
  const opened = await openSqlite(join(file, "dev.db"));
  expect(opened).toMatchObject({ ok: false, fault: { code: "io", subject: join(file, "dev.db") } });
});

test("a store that may not be written is a fault", async (context) => {
  context.skip(process.getuid?.() === 0, "root may write any file");
  const path = join(directory, "dev.db");
  must(await openSqlite(path)).close();
  await chmod(path, 0o400);
  const opened = await openSqlite(path);
  expect(opened).toMatchObject({ ok: false, fault: { code: "io" } });
});

function edit(path: string, text: string): void {
  const database = new Database(path, { timeout: 1_000 });
  try {
    database.exec(text);
  } finally {
    database.close();
  }
}
