import { fail, fault, ok, type Result, type SessionId } from "@dev/protocol";
import { sql } from "kysely";
import { createSession, held, sessionRow, unknownSession } from "./record.ts";
import type { Db, Tx } from "./schema.ts";
import type { Checkpoint, Claim, NewCheckpoint, NewSession } from "./store.ts";

/** Checkpoints that a session keeps; the oldest but one go, so that the first can always be gone back to. */
export const CHECKPOINT_LIMIT = 512;

/**
 * Names a snapshot of the session's workspace. The newest one is not named twice in a row: a save of it
 * moves its checkpoint on to where the journal is now, so that a fork has the whole turn. Faults: as `held`.
 */
export async function writeCheckpoint(
  tx: Tx,
  claim: Claim,
  { workspace, sequence, atMs, cause }: NewCheckpoint,
): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  if (sequence > row.value.sequence) {
    throw new Error(`${claim.session}: a checkpoint at ${sequence} is ahead of the journal`);
  }
  const { session } = claim;
  const last = await tx
    .selectFrom("checkpoints")
    .select(["number", "workspace", "cause"])
    .where("session", "=", session)
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
  const isFirst = last?.cause === "begin" || last?.cause === "import";
  if (last?.workspace === workspace && !(cause === "save" && isFirst)) {
    if (cause !== "save") return ok(undefined);
    await tx
      .updateTable("checkpoints")
      .set({ sequence, at_ms: atMs, cause })
      .where("session", "=", session)
      .where("number", "=", last.number)
      .execute();
    return ok(undefined);
  }
  const number = (last?.number ?? 0) + 1;
  await tx
    .insertInto("checkpoints")
    .values({ session, number, sequence, at_ms: atMs, workspace, cause })
    .execute();
  await tx
    .deleteFrom("checkpoints")
    .where("session", "=", session)
    .where("number", ">", 1)
    .where("number", "<=", number - CHECKPOINT_LIMIT)
    .execute();
  return ok(undefined);
}

/** A session's checkpoints, the oldest first. Fault: `unknown_id`. */
export async function readCheckpoints(
  db: Db,
  id: SessionId,
): Promise<Result<readonly Checkpoint[]>> {
  if ((await sessionRow(db, id)) === undefined) return unknownSession(id);
  const rows = await db
    .selectFrom("checkpoints")
    .selectAll()
    .where("session", "=", id)
    .orderBy("number")
    .execute();
  return ok(
    rows.map(({ number, sequence, at_ms, workspace, cause }) => {
      return { number, sequence, atMs: at_ms, workspace, cause };
    }),
  );
}

/** Every snapshot id that some session names. */
export async function namedWorkspaces(db: Db): Promise<readonly string[]> {
  const checkpoints = await db.selectFrom("checkpoints").select("workspace").distinct().execute();
  const saves = await db.selectFrom("saves").select("workspace").distinct().execute();
  const names = [...checkpoints, ...saves].map(({ workspace }) => workspace);
  return [...new Set(names)].filter((name) => name !== "");
}

/**
 * Makes a session that has all that another had up to a checkpoint: its journal, its actions with their lives
 * so far, and its checkpoints. Faults: `unknown_id`, `exists`, `not_found` for the checkpoint.
 */
export async function forkSession(
  tx: Tx,
  from: SessionId,
  number: number,
  made: NewSession,
): Promise<Result<void>> {
  const parent = await sessionRow(tx, from);
  if (parent === undefined) return unknownSession(from);
  const checkpoint = await tx
    .selectFrom("checkpoints")
    .select("sequence")
    .where("session", "=", from)
    .where("number", "=", number)
    .executeTakeFirst();
  if (checkpoint === undefined) {
    return fail(fault("not_found", `the session has no checkpoint ${number}`, from));
  }
  const created = await createSession(tx, made, undefined);
  if (!created.ok) return created;
  const { sequence } = checkpoint;
  const to = made.id;
  await copyRows(tx, from, to, sequence);
  await sql`insert into checkpoints (session, number, sequence, at_ms, workspace, cause)
    select ${to}, number, sequence, at_ms, workspace, cause from checkpoints
    where session = ${from} and number <= ${number}`.execute(tx);
  // Where its turn had not ended, the fork goes on with it.
  const ended = (await hasOpen(tx, to)) ? "active" : parent.state;
  const state = sequence === 0 ? "new" : ended;
  await tx
    .updateTable("sessions")
    .set({ sequence, title: sequence === 0 ? "" : parent.title, state })
    .where("id", "=", to)
    .execute();
  return ok(undefined);
}

async function copyRows(tx: Tx, from: string, to: string, sequence: number): Promise<void> {
  await sql`insert into journal (session, sequence, at_ms, format, body)
    select ${to}, sequence, at_ms, format, body from journal
    where session = ${from} and sequence <= ${sequence}`.execute(tx);
  await sql`insert into actions (session, id, sequence, family, format, body)
    select ${to}, id, sequence, family, format, body from actions
    where session = ${from} and sequence <= ${sequence}`.execute(tx);
  // What ended after the checkpoint had not ended at it; a dispatch, and the end of what nobody waits for,
  // belong to no entry of the journal.
  await sql`insert into ledger (session, action, line, state, at_ms, attempt, spool, detail, sequence)
    select ${to}, l.action, l.line, l.state, l.at_ms, l.attempt, l.spool, l.detail, l.sequence
    from ledger l join actions a on a.session = l.session and a.id = l.action
    where l.session = ${from} and a.sequence <= ${sequence}
      and (l.sequence <= ${sequence}
        or (l.sequence is null
          and (l.state in ('minted', 'dispatched') or a.family = 'none')))`.execute(tx);
}

/** Whether an action has no end yet. */
async function hasOpen(tx: Tx, session: string): Promise<boolean> {
  const open = await tx
    .selectFrom("actions as a")
    .where("a.session", "=", session)
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom("ledger as l")
            .select("l.line")
            .whereRef("l.session", "=", "a.session")
            .whereRef("l.action", "=", "a.id")
            .where("l.state", "in", ["completed", "unknown", "refused"]),
        ),
      ),
    )
    .select("a.id")
    .limit(1)
    .executeTakeFirst();
  return open !== undefined;
}
