import { fail, fault, ok, type Result, type SessionId } from "@dev/protocol";
import type { Selectable } from "kysely";
import type { Db, SessionTable, Tx } from "./schema.ts";
import type { CellRecord, Claim, NewSession, Session } from "./store.ts";

/** Writes a new session's row, claimed by its maker where one is named. Fault: `exists`. */
export async function createSession(
  tx: Tx,
  session: NewSession,
  holder: string | undefined,
): Promise<Result<Claim>> {
  const row = await sessionRow(tx, session.id);
  if (row !== undefined) return fail(fault("exists", "this session exists already", session.id));
  await tx
    .insertInto("sessions")
    .values({
      id: session.id,
      created_ms: session.createdMs,
      directory: session.directory,
      vendor: session.vendor,
      model: session.model,
      config: session.config,
      updated_ms: session.createdMs,
      sequence: 0,
      title: "",
      state: "new",
      cell_id: null,
      cell_workspace: null,
      holder: holder ?? null,
      claimed_ms: holder === undefined ? null : session.createdMs,
      fence: 0,
    })
    .execute();
  return ok({ session: session.id, fence: 0 });
}

export async function readSession(db: Db, id: SessionId): Promise<Result<Session>> {
  const row = await sessionRow(db, id);
  return row === undefined ? unknownSession(id) : ok(sessionOf(row));
}

export async function listSessions(
  db: Db,
  limit: number,
  before: SessionId | undefined,
): Promise<readonly Session[]> {
  // A session's id begins with the time it was made at.
  const newest = db.selectFrom("sessions").selectAll().orderBy("id", "desc").limit(limit);
  const rows = await (before === undefined ? newest : newest.where("id", "<", before)).execute();
  return rows.map(sessionOf);
}

/** Gives the session a driver. Faults: `unknown_id`, `in_use`. */
export async function claimSession(
  tx: Tx,
  id: SessionId,
  holder: string,
  isAlive: (holder: string) => boolean,
  nowMs: number,
): Promise<Result<Claim>> {
  const row = await sessionRow(tx, id);
  if (row === undefined) return unknownSession(id);
  if (row.holder !== null && row.holder !== holder && isAlive(row.holder)) {
    const since = new Date(row.claimed_ms ?? 0).toISOString();
    const message = `another process has driven this session since ${since}: ${row.holder}`;
    return fail(fault("in_use", message, id, "use it there, or end that process"));
  }
  const fence = row.fence + 1;
  await tx
    .updateTable("sessions")
    .set({ holder, fence, claimed_ms: nowMs })
    .where("id", "=", id)
    .execute();
  return ok({ session: id, fence });
}

export async function releaseSession(tx: Tx, claim: Claim): Promise<Result<void>> {
  await tx
    .updateTable("sessions")
    .set({ holder: null, claimed_ms: null })
    .where("id", "=", claim.session)
    .where("fence", "=", claim.fence)
    .execute();
  return ok(undefined);
}

/** Remembers the session's cell. Faults: as `held`. */
export async function attachCell(tx: Tx, claim: Claim, cell: CellRecord): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  await tx
    .updateTable("sessions")
    .set({ cell_id: cell.id, cell_workspace: cell.workspace })
    .where("id", "=", claim.session)
    .execute();
  return ok(undefined);
}

/**
 * The session's row, if the claim still stands; read in the transaction that writes under it, so that
 * no other driver can come between. Faults: `unknown_id`, `fenced`.
 */
export async function held(tx: Tx, claim: Claim): Promise<Result<Selectable<SessionTable>>> {
  const row = await sessionRow(tx, claim.session);
  if (row === undefined) return unknownSession(claim.session);
  if (row.fence !== claim.fence || row.holder === null) return fenced(claim.session);
  return ok(row);
}

export function fenced(id: SessionId): Result<never> {
  const message = "another process has taken this session over";
  return fail(fault("fenced", message, id, "resume the session to take it back"));
}

export function unknownSession(id: SessionId): Result<never> {
  return fail(fault("unknown_id", "there is no such session", id, "`dev sessions` lists them"));
}

export function sessionRow(db: Db, id: SessionId): Promise<Selectable<SessionTable> | undefined> {
  return db.selectFrom("sessions").selectAll().where("id", "=", id).executeTakeFirst();
}

function sessionOf(row: Selectable<SessionTable>): Session {
  const cell =
    row.cell_id === null ? null : { id: row.cell_id, workspace: row.cell_workspace ?? "" };
  return {
    id: row.id as SessionId,
    createdMs: row.created_ms,
    directory: row.directory,
    vendor: row.vendor,
    model: row.model,
    config: row.config,
    updatedMs: row.updated_ms,
    sequence: row.sequence,
    title: row.title,
    state: row.state,
    cell,
    holder: row.holder,
  };
}
