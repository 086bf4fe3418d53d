import { type ActionId, ok, type Result, type SessionId } from "@dev/protocol";
import { sessionRow, unknownSession } from "./record.ts";
import type { Db, Tx } from "./schema.ts";
import type { NetworkRequest } from "./store.ts";

/** Writes down requests that have ended, in the order of their arrival here. Fault: `unknown_id`. */
export async function noteRequests(
  tx: Tx,
  session: SessionId,
  requests: readonly NetworkRequest[],
): Promise<Result<void>> {
  if ((await sessionRow(tx, session)) === undefined) return unknownSession(session);
  const last = await tx
    .selectFrom("requests")
    .select("line")
    .where("session", "=", session)
    .orderBy("line", "desc")
    .limit(1)
    .executeTakeFirst();
  let line = last?.line ?? -1;
  for (const request of requests) {
    line += 1;
    await tx
      .insertInto("requests")
      .values({
        ...{ session, line, action: request.action, at_ms: request.atMs },
        ...{ duration_ms: request.durationMs, host: plain(request.host), port: request.port },
        ...{ method: plain(request.method), path: plain(request.path), status: request.status },
        ...{ up_bytes: request.upBytes, down_bytes: request.downBytes },
        ...{ verdict: request.verdict, rule: plain(request.rule), reason: plain(request.reason) },
      })
      .execute();
  }
  return ok(undefined);
}

/** Every request of a session, in the order in which they ended. Fault: `unknown_id`. */
export async function readRequests(
  db: Db,
  session: SessionId,
): Promise<Result<readonly NetworkRequest[]>> {
  if ((await sessionRow(db, session)) === undefined) return unknownSession(session);
  const rows = await db
    .selectFrom("requests")
    .selectAll()
    .where("session", "=", session)
    .orderBy("line")
    .execute();
  return ok(
    rows.map((row) => ({
      ...{ action: row.action as ActionId | null, atMs: row.at_ms, durationMs: row.duration_ms },
      ...{ host: row.host, port: row.port, method: row.method, path: row.path },
      ...{ status: row.status, upBytes: row.up_bytes, downBytes: row.down_bytes },
      ...{ verdict: row.verdict, rule: row.rule, reason: row.reason },
    })),
  );
}

/** SQLite's text ends at a NUL. */
function plain(text: string): string {
  return text.replaceAll("\0", "\u{fffd}");
}
