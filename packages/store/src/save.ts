import { ok, type Result, type SessionId } from "@dev/protocol";
import { view } from "./body.ts";
import { writeCheckpoint } from "./checkpoint.ts";
import { held, sessionRow, unknownSession } from "./record.ts";
import type { Db, Tx } from "./schema.ts";
import type { Claim, Save } from "./store.ts";

/** Writes the three facts in place of the session's earlier save. Faults: as `held`. */
export async function writeSave(tx: Tx, claim: Claim, save: Save): Promise<Result<void>> {
  const row = await held(tx, claim);
  if (!row.ok) return row;
  const before = await saveRow(tx, claim.session);
  if (save.sequence > row.value.sequence || save.sequence < (before?.sequence ?? 0)) {
    const range = `${before?.sequence ?? 0} to ${row.value.sequence}`;
    throw new Error(`${claim.session}: a save at ${save.sequence} is outside ${range}`);
  }
  const { sequence, workspace, snapshot } = save;
  const values = { sequence, at_ms: save.atMs, workspace, snapshot };
  await tx
    .insertInto("saves")
    .values({ session: claim.session, ...values })
    .onConflict((conflict) => conflict.column("session").doUpdateSet(values))
    .execute();
  if (workspace === "") return ok(undefined);
  return writeCheckpoint(tx, claim, { workspace, sequence, atMs: save.atMs, cause: "save" });
}

/** The newest save, or null. Fault: `unknown_id`. */
export async function readSave(db: Db, id: SessionId): Promise<Result<Save | null>> {
  if ((await sessionRow(db, id)) === undefined) return unknownSession(id);
  const row = await saveRow(db, id);
  if (row === undefined) return ok(null);
  const { sequence, workspace, snapshot } = row;
  return ok({ sequence, workspace, snapshot: view(snapshot), atMs: row.at_ms });
}

function saveRow(db: Db, id: SessionId) {
  return db.selectFrom("saves").selectAll().where("session", "=", id).executeTakeFirst();
}
