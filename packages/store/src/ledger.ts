import {
  type ActionId,
  type Event,
  type Family,
  type Outcome,
  ok,
  type Result,
  type SessionId,
  type Usage,
} from "@dev/protocol";
import type { Insertable, Selectable } from "kysely";
import { readAction, readEvent } from "./body.ts";
import { held, sessionRow, unknownSession } from "./record.ts";
import type { ActionTable, Db, LedgerTable, Tx } from "./schema.ts";
import type { Claim, Dispatch, LedgerEntry, LedgerLine, LedgerState, Settled } from "./store.ts";

/** The end of an action that an event is: one write with the journal's entry of that sequence. */
export type End = {
  readonly id: ActionId;
  readonly family: Family;
  readonly state: "refused" | "completed" | "unknown";
  readonly detail: string;
  readonly sequence: number;
  readonly atMs: number;
};

type LastLine = {
  readonly family: string;
  readonly line: number;
  readonly state: LedgerState;
  readonly attempt: number;
  readonly spool: string;
};

/** The first line of each action's life. */
export function mintLines(
  actions: readonly Insertable<ActionTable>[],
  atMs: number,
): readonly Insertable<LedgerTable>[] {
  return actions.map(({ session, id, sequence }) => ({
    session,
    action: id,
    line: 0,
    state: "minted",
    at_ms: atMs,
    attempt: 0,
    spool: "",
    detail: "",
    sequence,
  }));
}

/** Writes that effects may begin. Faults: as `held`. */
export async function dispatchActions(
  tx: Tx,
  claim: Claim,
  dispatches: readonly Dispatch[],
): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  await beginActions(tx, claim.session, dispatches);
  return ok(undefined);
}

/** Writes that actions may begin; the caller has checked the claim. */
export async function beginActions(
  tx: Tx,
  session: SessionId,
  dispatches: readonly Dispatch[],
): Promise<void> {
  for (const { id, attempt, spool, atMs } of dispatches) {
    const last = await lastLine(tx, session, id);
    const first = last.state === "minted" && attempt === 1;
    // A model call may be tried again, because asking twice changes nothing but the bill.
    const again =
      last.family === "model" && last.state === "dispatched" && attempt === last.attempt + 1;
    if (!first && !again) illegal(session, id, last, `dispatched, attempt ${attempt}`);
    const next = { state: "dispatched", attempt, spool, detail: "", sequence: null } as const;
    await addLine(tx, session, id, last.line + 1, atMs, next);
  }
}

/** Ends actions with what is no event of the core's. Faults: as `held`. */
export async function settleActions(
  tx: Tx,
  claim: Claim,
  settled: readonly Settled[],
): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  for (const { id, state, detail, atMs } of settled) {
    const last = await lastLine(tx, claim.session, id);
    // What is refused never began; evidence may arrive after nobody could know, never the reverse.
    const legal =
      state === "refused"
        ? last.state === "minted"
        : last.state === "dispatched" || (last.state === "unknown" && state === "completed");
    if (!legal) illegal(claim.session, id, last, state);
    const { attempt, spool } = last;
    const next = { state, attempt, spool, detail, sequence: null } as const;
    await addLine(tx, claim.session, id, last.line + 1, atMs, next);
  }
  return ok(undefined);
}

/** Ends the action that an event answers; the caller has checked the claim. */
export async function endAction(tx: Tx, session: SessionId, end: End): Promise<void> {
  const last = await lastLine(tx, session, end.id);
  if (last.family !== end.family) {
    throw new Error(`${session}: a ${end.family} event answers ${last.family} action ${end.id}`);
  }
  // What was refused never began; what ended otherwise was dispatched first.
  const before: LedgerState = end.state === "refused" ? "minted" : "dispatched";
  if (last.state !== before) illegal(session, end.id, last, end.state);
  const { state, detail, sequence } = end;
  const next = { state, attempt: last.attempt, spool: last.spool, detail, sequence };
  await addLine(tx, session, end.id, last.line + 1, end.atMs, next);
}

/** The actions from id `from` with their lives. Faults: `unknown_id`, `corrupt`, `newer_version`. */
export async function readLedger(
  tx: Tx,
  id: SessionId,
  from: number,
): Promise<Result<readonly LedgerEntry[]>> {
  if ((await sessionRow(tx, id)) === undefined) return unknownSession(id);
  const lines = await linesByAction(tx, id, from);
  if (!lines.ok) return lines;
  const rows = await tx
    .selectFrom("actions")
    .select(["id", "format", "body"])
    .where("session", "=", id)
    .where("id", ">=", from)
    .orderBy("id")
    .execute();
  const entries: LedgerEntry[] = [];
  for (const row of rows) {
    const action = readAction(row, `session ${id}, action ${row.id}`);
    if (!action.ok) return action;
    entries.push({ action: action.value, lines: lines.value.get(row.id) ?? [] });
  }
  return ok(entries);
}

async function linesByAction(
  db: Db,
  id: SessionId,
  from: number,
): Promise<Result<ReadonlyMap<number, readonly LedgerLine[]>>> {
  const rows = await db
    .selectFrom("ledger")
    .selectAll("ledger")
    .where("ledger.session", "=", id)
    .where("ledger.action", ">=", from)
    .leftJoin("journal", (join) =>
      join
        .onRef("journal.session", "=", "ledger.session")
        .onRef("journal.sequence", "=", "ledger.sequence")
        // The entry that minted an action says nothing about how it ended.
        .on("ledger.state", "<>", "minted"),
    )
    .select(["journal.format", "journal.body"])
    .orderBy("ledger.action")
    .orderBy("ledger.line")
    .execute();
  const lines = new Map<number, LedgerLine[]>();
  for (const { format, body, ...row } of rows) {
    const event =
      format === null || body === null
        ? null
        : readEvent({ format, body }, `session ${id}, entry ${row.sequence}`);
    if (event !== null && !event.ok) return event;
    const line = lineOf(row, event === null ? null : event.value);
    const known = lines.get(row.action);
    if (known === undefined) lines.set(row.action, [line]);
    else known.push(line);
  }
  return ok(lines);
}

function lineOf(row: Selectable<LedgerTable>, event: Event | null): LedgerLine {
  const { state, attempt, spool, detail } = row;
  return {
    state,
    atMs: row.at_ms,
    attempt,
    spool,
    detail,
    outcome: outcomeOf(event),
    usage: usageOf(event),
  };
}

function outcomeOf(event: Event | null): Outcome | null {
  return event !== null && "outcome" in event ? event.outcome : null;
}

function usageOf(event: Event | null): Usage | null {
  return event !== null && event.kind === "model" ? event.usage : null;
}

async function lastLine(db: Db, session: SessionId, action: ActionId): Promise<LastLine> {
  const line = await db
    .selectFrom("ledger")
    .innerJoin("actions", (join) =>
      join
        .onRef("actions.session", "=", "ledger.session")
        .onRef("actions.id", "=", "ledger.action"),
    )
    .select(["actions.family", "line", "state", "attempt", "spool"])
    .where("ledger.session", "=", session)
    .where("ledger.action", "=", action)
    .orderBy("line", "desc")
    .limit(1)
    .executeTakeFirst();
  if (line === undefined) throw new Error(`${session}: action ${action} was never minted`);
  return line;
}

async function addLine(
  tx: Tx,
  session: SessionId,
  action: ActionId,
  line: number,
  atMs: number,
  next: Pick<LedgerTable, "state" | "attempt" | "spool" | "detail" | "sequence">,
): Promise<void> {
  // SQLite's text ends at a NUL; a detail may quote bytes that a command wrote.
  const detail = next.detail.replaceAll("\0", "\u{fffd}");
  await tx
    .insertInto("ledger")
    .values({ session, action, line, at_ms: atMs, ...next, detail })
    .execute();
}

function illegal(session: SessionId, action: ActionId, last: LastLine, next: string): never {
  const now = `${last.state}, attempt ${last.attempt}`;
  throw new Error(`${session}: action ${action} (${last.family}) is ${now}; it cannot be ${next}`);
}
