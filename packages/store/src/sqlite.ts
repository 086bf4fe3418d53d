import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import {
  type ActionId,
  type Fault,
  fail,
  fault,
  ok,
  type Result,
  type SessionId,
} from "@dev/protocol";
import { Kysely } from "kysely";
import type Database from "libsql";
import { forkSession, namedWorkspaces, readCheckpoints, writeCheckpoint } from "./checkpoint.ts";
import { libsqlDialect } from "./dialect.ts";
import { makeFile } from "./file.ts";
import { appendEntry, readJournal } from "./journal.ts";
import { dispatchActions, readLedger, settleActions } from "./ledger.ts";
import { APPLICATION_ID, migrate, SCHEMA_VERSION } from "./migration.ts";
import {
  attachCell,
  claimSession,
  createSession,
  listSessions,
  readSession,
  releaseSession,
} from "./record.ts";
import { noteRequests, readRequests } from "./request.ts";
import { readSave, writeSave } from "./save.ts";
import type { Db, Schema, Tx } from "./schema.ts";
import type {
  CellRecord,
  Checkpoint,
  Claim,
  Dispatch,
  Entry,
  JournalEntry,
  LedgerEntry,
  NetworkRequest,
  NewCheckpoint,
  NewSession,
  Save,
  Session,
  Settled,
  Store,
} from "./store.ts";

// Required and not imported: Node reads a CommonJS package's source twice to import it, which is a tenth
// of a short command's time.
const Libsql: typeof Database = createRequire(import.meta.url)("libsql");

/** How long SQLite itself waits for another process's lock; this process stands still meanwhile. */
const LOCK_WAIT_MS = 10;
/** After that, how long to leave this process to its other work before the next try. */
const LOCK_PAUSE_MS = 5;
/** After how many tries a lock is a `busy` fault: some 15 seconds; a write takes milliseconds. */
const LOCK_TRY_LIMIT = 1_000;

/**
 * Opens the store in a SQLite file, making it where there is none: its directory for its owner alone,
 * and the file too. `:memory:` is a store of its own that ends with `close`. Several processes may have
 * one file open. Nothing that exists is ever deleted. Faults: `newer_version`, `corrupt`, `io`, `busy`.
 */
export async function openSqlite(path: string): Promise<Result<Store>> {
  if (path !== ":memory:") {
    const made = makeFile(path);
    if (!made.ok) return made;
  }
  let database: Database.Database;
  try {
    database = new Libsql(path, { timeout: LOCK_WAIT_MS });
  } catch (error) {
    return fail(ioFault(path, error));
  }
  const prepared = await withLock(path, async () => prepare(database, path));
  if (prepared.ok) return ok(new SqliteStore(database, path));
  database.close();
  return prepared;
}

class SqliteStore implements Store {
  readonly #database: Database.Database;
  readonly #db: Db;
  readonly #path: string;

  constructor(database: Database.Database, path: string) {
    this.#database = database;
    this.#db = new Kysely<Schema>({ dialect: libsqlDialect(database) });
    this.#path = path;
  }

  create(session: NewSession, holder?: string): Promise<Result<Claim>> {
    return this.#write((tx) => createSession(tx, session, holder));
  }

  session(id: SessionId): Promise<Result<Session>> {
    return this.#read((tx) => readSession(tx, id));
  }

  sessions(limit: number, before?: SessionId): Promise<Result<readonly Session[]>> {
    return this.#read(async (tx) => ok(await listSessions(tx, limit, before)));
  }

  claim(
    id: SessionId,
    holder: string,
    isAlive: (holder: string) => boolean,
    nowMs: number,
  ): Promise<Result<Claim>> {
    return this.#write((tx) => claimSession(tx, id, holder, isAlive, nowMs));
  }

  release(claim: Claim): Promise<Result<void>> {
    return this.#write((tx) => releaseSession(tx, claim));
  }

  append(claim: Claim, entry: Entry): Promise<Result<void>> {
    return this.#write((tx) => appendEntry(tx, claim, entry));
  }

  dispatch(claim: Claim, dispatches: readonly Dispatch[]): Promise<Result<void>> {
    return this.#write((tx) => dispatchActions(tx, claim, dispatches));
  }

  settle(claim: Claim, settled: readonly Settled[]): Promise<Result<void>> {
    return this.#write((tx) => settleActions(tx, claim, settled));
  }

  save(claim: Claim, save: Save): Promise<Result<void>> {
    return this.#write((tx) => writeSave(tx, claim, save));
  }

  checkpoint(claim: Claim, checkpoint: NewCheckpoint): Promise<Result<void>> {
    return this.#write((tx) => writeCheckpoint(tx, claim, checkpoint));
  }

  checkpoints(id: SessionId): Promise<Result<readonly Checkpoint[]>> {
    return this.#read((tx) => readCheckpoints(tx, id));
  }

  fork(from: SessionId, checkpoint: number, made: NewSession): Promise<Result<void>> {
    return this.#write((tx) => forkSession(tx, from, checkpoint, made));
  }

  workspaces(): Promise<Result<readonly string[]>> {
    return this.#read(async (tx) => ok(await namedWorkspaces(tx)));
  }

  attach(claim: Claim, cell: CellRecord): Promise<Result<void>> {
    return this.#write((tx) => attachCell(tx, claim, cell));
  }

  lastSave(id: SessionId): Promise<Result<Save | null>> {
    return this.#read((tx) => readSave(tx, id));
  }

  journal(id: SessionId, after: number): Promise<Result<readonly JournalEntry[]>> {
    return this.#read((tx) => readJournal(tx, id, after));
  }

  ledger(id: SessionId, from?: ActionId): Promise<Result<readonly LedgerEntry[]>> {
    return this.#read((tx) => readLedger(tx, id, from ?? 0));
  }

  note(id: SessionId, requests: readonly NetworkRequest[]): Promise<Result<void>> {
    return this.#write((tx) => noteRequests(tx, id, requests));
  }

  requests(id: SessionId): Promise<Result<readonly NetworkRequest[]>> {
    return this.#read((tx) => readRequests(tx, id));
  }

  close(): void {
    // libsql's close leaves this to the collection of its statements, which may never come: the file
    // alone would then lack what its -wal neighbour has. A lock or a full disk in the way is no harm: the
    // next to open the file reads both.
    try {
      if (this.#path !== ":memory:") pragma(this.#database, "wal_checkpoint(truncate)");
    } catch (error) {
      if (!isSqlites(error)) throw error;
    } finally {
      this.#database.close();
    }
  }

  #write<T>(work: (tx: Tx) => Promise<Result<T>>): Promise<Result<T>> {
    return withLock(this.#path, () => transact(this.#db, "read write", work));
  }

  #read<T>(work: (tx: Tx) => Promise<Result<T>>): Promise<Result<T>> {
    return withLock(this.#path, () => transact(this.#db, "read only", work));
  }
}

function isSqlites(error: unknown): boolean {
  if (!(error instanceof Error && "code" in error)) return false;
  return typeof error.code === "string" && error.code.startsWith("SQLITE_");
}

/** Runs `work` in one transaction, which a fault or a throw undoes. */
async function transact<T>(
  db: Db,
  mode: "read only" | "read write",
  work: (tx: Tx) => Promise<Result<T>>,
): Promise<Result<T>> {
  const tx = await db.startTransaction().setAccessMode(mode).execute();
  try {
    const done = await work(tx);
    await (done.ok ? tx.commit() : tx.rollback()).execute();
    return done;
  } catch (error) {
    if (!tx.isCommitted && !tx.isRolledBack) await tx.rollback().execute();
    throw error;
  }
}

/** Tries again while another process holds the lock, and makes faults of what a disk can do to us. */
async function withLock<T>(path: string, work: () => Promise<Result<T>>): Promise<Result<T>> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const cause = sqliteCode(error);
      if (cause === "busy" && attempt < LOCK_TRY_LIMIT) {
        await pause(LOCK_PAUSE_MS);
        continue;
      }
      if (cause === "busy") {
        const mend = "end the process that writes to it without pause, and try again";
        return fail(fault("busy", "the store stays locked by another process", path, mend));
      }
      if (cause === "corrupt") return damaged(path, String((error as Error).message));
      if (cause === "io") return fail(ioFault(path, error));
      throw error;
    }
  }
}

/** Checks what the file is, and brings it to this version. */
function prepare(database: Database.Database, path: string): Result<void> {
  const version = versionOf(database, path);
  if (!version.ok) return version;
  if (path !== ":memory:" && pragma(database, "journal_mode") !== "wal") {
    pragma(database, "journal_mode = wal");
  }
  database.exec("pragma synchronous = full; pragma foreign_keys = on; pragma cell_size_check = on");
  if (version.value === SCHEMA_VERSION) return ok(undefined);
  database.exec("begin immediate");
  try {
    // Another process may have come first while this one waited for the lock.
    const current = versionOf(database, path);
    if (current.ok && current.value < SCHEMA_VERSION) migrate(database, current.value);
    database.exec(current.ok ? "commit" : "rollback");
    return current.ok ? ok(undefined) : current;
  } catch (error) {
    if (database.inTransaction) database.exec("rollback");
    throw error;
  }
}

/** The schema's version, 0 for a file with nothing in it. Faults: `newer_version`, `corrupt`. */
function versionOf(database: Database.Database, path: string): Result<number> {
  const version = Number(pragma(database, "user_version"));
  const application = Number(pragma(database, "application_id"));
  if (application === APPLICATION_ID) {
    if (version <= SCHEMA_VERSION) return ok(version);
    const message = `the store is of version ${version}; this Dev reads up to ${SCHEMA_VERSION}`;
    return fail(fault("newer_version", message, path, "install the newest Dev"));
  }
  const tables = database.prepare("select 1 from sqlite_schema limit 1").all();
  if (application === 0 && version === 0 && tables.length === 0) return ok(0);
  const mend = "name another file for the store; this one is left as it is";
  return fail(fault("corrupt", "this is another program's database", path, mend));
}

function pragma(database: Database.Database, text: string): unknown {
  const [row] = database.prepare(`pragma ${text}`).all([]);
  return Object.values(row ?? {})[0];
}

/** What a database's error means for us; null for our own bugs. */
function sqliteCode(error: unknown): "busy" | "corrupt" | "io" | null {
  if (typeof error !== "object" || error === null || !("rawCode" in error)) return null;
  // The low byte is the primary code; the rest says where it arose.
  switch (Number(error.rawCode) & 0xff) {
    case 5: // SQLITE_BUSY
      return "busy";
    case 11: // SQLITE_CORRUPT
    case 26: // SQLITE_NOTADB
      return "corrupt";
    case 3: // SQLITE_PERM
    case 8: // SQLITE_READONLY
    case 10: // SQLITE_IOERR
    case 13: // SQLITE_FULL
    case 14: // SQLITE_CANTOPEN
    case 15: // SQLITE_PROTOCOL
      return "io";
    default:
      return null;
  }
}

function damaged(path: string, why: string): Result<never> {
  const mend =
    "move the file and its -wal and -shm neighbours aside and start Dev again, or restore a backup";
  return fail(fault("corrupt", `the store cannot be read: ${why}`, path, mend));
}

function ioFault(path: string, error: unknown): Fault {
  const why = error instanceof Error ? error.message : String(error);
  return fault("io", `the store cannot be used: ${why}`, path, "check the disk and permissions");
}
