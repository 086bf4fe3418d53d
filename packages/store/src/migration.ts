import type Database from "libsql";

/**
 * What a database of version n needs to become one of version n + 1. A migration that was released is
 * never edited: the stores it made are out there.
 */
type Migration = (database: Database.Database) => void;

const MIGRATIONS: readonly Migration[] = [begin, keepCheckpoints, addRequests];

/** The version that this code reads and writes. */
export const SCHEMA_VERSION: number = MIGRATIONS.length;

/** Marks a SQLite file as a store of ours (`PRAGMA application_id`): "DevS" in ASCII. */
export const APPLICATION_ID: number = 0x44657653;

/** Brings a database from `version` to the newest; the caller holds the write lock. */
export function migrate(database: Database.Database, version: number): void {
  for (const migration of MIGRATIONS.slice(version)) migration(database);
  database.exec(`pragma application_id = ${APPLICATION_ID}`);
  database.exec(`pragma user_version = ${SCHEMA_VERSION}`);
}

function begin(database: Database.Database): void {
  database.exec(`
    create table sessions (
      id text primary key,
      created_ms integer not null,
      directory text not null,
      vendor text not null,
      model text not null,
      config text not null,
      updated_ms integer not null,
      sequence integer not null,
      title text not null,
      state text not null,
      cell_id text,
      cell_workspace text,
      holder text,
      claimed_ms integer,
      fence integer not null
    ) strict;

    create table journal (
      session text not null references sessions (id),
      sequence integer not null check (sequence > 0),
      at_ms integer not null,
      format integer not null,
      body blob not null,
      primary key (session, sequence)
    ) strict;

    create table actions (
      session text not null,
      id integer not null,
      sequence integer not null,
      family text not null,
      format integer not null,
      body blob not null,
      primary key (session, id),
      foreign key (session, sequence) references journal (session, sequence)
    ) strict;

    create table ledger (
      session text not null,
      action integer not null,
      line integer not null,
      state text not null
        check (state in ('minted', 'refused', 'dispatched', 'completed', 'unknown')),
      at_ms integer not null,
      attempt integer not null,
      spool text not null,
      detail text not null,
      sequence integer,
      primary key (session, action, line),
      unique (session, action, state, attempt),
      foreign key (session, action) references actions (session, id),
      foreign key (session, sequence) references journal (session, sequence)
    ) strict;

    create table saves (
      session text primary key references sessions (id),
      sequence integer not null,
      at_ms integer not null,
      workspace text not null,
      snapshot blob not null
    ) strict;

    -- What was written down stays as it was written, whatever the code above it does.
    create trigger journal_stays before update on journal
      begin select raise(abort, 'the journal is append-only'); end;
    create trigger actions_stay before update on actions
      begin select raise(abort, 'actions are append-only'); end;
    create trigger ledger_stays before update on ledger
      begin select raise(abort, 'the ledger is append-only'); end;
  `);
}

/** The snapshots of a session's workspace that it can go back to. */
function keepCheckpoints(database: Database.Database): void {
  database.exec(`
    create table checkpoints (
      session text not null references sessions (id),
      number integer not null check (number > 0),
      sequence integer not null,
      at_ms integer not null,
      workspace text not null check (workspace <> ''),
      cause text not null check (cause in ('begin', 'effects', 'save', 'rewind', 'import')),
      primary key (session, number)
    ) strict;
  `);
}

function addRequests(database: Database.Database): void {
  database.exec(`
    create table requests (
      session text not null references sessions (id),
      line integer not null,
      action integer,
      at_ms integer not null,
      duration_ms integer not null,
      host text not null,
      port integer not null,
      method text not null,
      path text not null,
      status integer not null,
      up_bytes integer not null,
      down_bytes integer not null,
      verdict text not null check (verdict in ('allowed', 'refused', 'failed')),
      rule text not null,
      reason text not null,
      primary key (session, line)
    ) strict;

    create trigger requests_stay before update on requests
      begin select raise(abort, 'requests are append-only'); end;
  `);
}
