import {
  type Action,
  type Event,
  fail,
  familyOf,
  fault,
  ok,
  type Result,
  type SessionId,
} from "@dev/protocol";
import type { Insertable } from "kysely";
import { actionBody, eventBody, readEvent } from "./body.ts";
import { beginActions, type End, endAction, mintLines } from "./ledger.ts";
import { fenced, held, sessionRow, unknownSession } from "./record.ts";
import type { ActionTable, Db, Tx } from "./schema.ts";
import type { Claim, Entry, JournalEntry } from "./store.ts";
import { titleOf } from "./title.ts";

/** Rows of one insert: each has five parameters or more, and SQLite takes 32,766. */
const BATCH_COUNT = 1_000;

/**
 * Writes an accepted event: its journal entry, the line that ends the action it answers, the actions it
 * minted, and what the session's row says. Faults: as
 * `held`, `fenced` for an unexpected sequence, and `too_large`.
 */
export async function appendEntry(tx: Tx, claim: Claim, entry: Entry): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  if (row.value.sequence !== entry.expect) return fenced(claim.session);
  const sequence = entry.expect + 1;
  const event = eventBody(entry.event);
  if (!event.ok) return event;
  const actions = actionRows(claim.session, sequence, entry.minted);
  if (!actions.ok) return actions;
  await tx
    .insertInto("journal")
    .values({ session: claim.session, sequence, at_ms: entry.atMs, ...event.value })
    .execute();
  const end = endOf(entry.event);
  if (end !== null) await endAction(tx, claim.session, { ...end, sequence, atMs: entry.atMs });
  await mint(tx, actions.value, entry.atMs);
  if (entry.dispatches !== undefined) await beginActions(tx, claim.session, entry.dispatches);
  await tx
    .updateTable("sessions")
    .set({
      sequence,
      state: entry.state,
      updated_ms: entry.atMs,
      title: row.value.title || promptTitle(entry.event),
    })
    .where("id", "=", claim.session)
    .execute();
  return ok(undefined);
}

/** Entries after `after`. Faults: `unknown_id`, `corrupt` for a gap or a damaged entry, `newer_version`. */
export async function readJournal(
  db: Db,
  id: SessionId,
  after: number,
): Promise<Result<readonly JournalEntry[]>> {
  const session = await sessionRow(db, id);
  if (session === undefined) return unknownSession(id);
  const rows = await db
    .selectFrom("journal")
    .select(["sequence", "at_ms", "format", "body"])
    .where("session", "=", id)
    .where("sequence", ">", after)
    .orderBy("sequence")
    .execute();
  const entries: JournalEntry[] = [];
  for (const row of rows) {
    const where = `session ${id}, entry ${row.sequence}`;
    if (row.sequence !== after + entries.length + 1) return gap(id, after + entries.length + 1);
    const event = readEvent(row, where);
    if (!event.ok) return event;
    entries.push({ sequence: row.sequence, event: event.value, atMs: row.at_ms });
  }
  const last = after + entries.length;
  return last < session.sequence ? gap(id, last + 1) : ok(entries);
}

function actionRows(
  session: SessionId,
  sequence: number,
  minted: readonly Action[],
): Result<readonly Insertable<ActionTable>[]> {
  const rows: Insertable<ActionTable>[] = [];
  for (const action of minted) {
    const body = actionBody(action);
    if (!body.ok) return body;
    rows.push({ session, id: action.id, sequence, family: familyOf(action.op), ...body.value });
  }
  return ok(rows);
}

async function mint(
  tx: Tx,
  actions: readonly Insertable<ActionTable>[],
  atMs: number,
): Promise<void> {
  for (let from = 0; from < actions.length; from += BATCH_COUNT) {
    const batch = actions.slice(from, from + BATCH_COUNT);
    await tx.insertInto("actions").values(batch).execute();
    await tx.insertInto("ledger").values(mintLines(batch, atMs)).execute();
  }
}

/** How an event ends the action it answers; null for an event that answers none. */
function endOf(event: Event): Omit<End, "sequence" | "atMs"> | null {
  switch (event.kind) {
    case "turn":
    case "timer":
    case "steer":
    case "cancel":
      return null;
    case "reply":
      return { id: event.id, family: "reply", state: "completed", detail: "" };
    case "model": {
      const { answer } = event;
      const detail = answer.kind === "failed" ? answer.fault.message : "";
      return { id: event.id, family: "model", state: "completed", detail };
    }
    default: {
      const { id, kind: family, outcome } = event;
      if (outcome.kind === "unknown") {
        return { id, family, state: "unknown", detail: outcome.known };
      }
      if (outcome.kind === "refused") {
        return { id, family, state: "refused", detail: `${outcome.rule}: ${outcome.reason}` };
      }
      const detail = outcome.kind === "failed" ? outcome.fault.message : "";
      return { id, family, state: "completed", detail };
    }
  }
}

function promptTitle(event: Event): string {
  return event.kind === "turn" ? titleOf(event.prompt) : "";
}

function gap(id: SessionId, sequence: number): Result<never> {
  return fail(
    fault(
      "corrupt",
      `the journal has no entry ${sequence}`,
      `session ${id}`,
      "restore the store from a backup",
    ),
  );
}
