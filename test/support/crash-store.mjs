/*
 * Preloaded into a `dev` process (`NODE_OPTIONS=--import`): signals that process at its n-th commit that
 * writes, just before it or just after it, and notes every such commit. The program under test has no
 * hook for this: the database's own class is wrapped, from outside.
 */
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";

const at = Number(process.env.CRASH_AT ?? 0);
const isBefore = process.env.CRASH_WHEN === "before";
const signal = process.env.CRASH_SIGNAL ?? "SIGKILL";
const notes = process.env.CRASH_NOTES ?? "/dev/null";

const Database = createRequire(import.meta.url)("libsql");
const { exec, prepare } = Database.prototype;
let isWriting = false;
let count = 0;
/** What the transaction wrote. @type {Set<string>} */
let wrote = new Set();

Database.prototype.exec = function (/** @type {string} */ sql) {
  if (sql.startsWith("begin")) {
    isWriting = sql.startsWith("begin immediate");
    wrote = new Set();
  }
  if (sql !== "commit" || !isWriting) return exec.call(this, sql);
  count += 1;
  appendFileSync(notes, `${JSON.stringify({ count, kind: kindOf(wrote) })}\n`);
  const isHere = count === at;
  if (isHere && isBefore) process.kill(process.pid, signal);
  const done = exec.call(this, sql);
  if (isHere && !isBefore) process.kill(process.pid, signal);
  return done;
};

Database.prototype.prepare = function (/** @type {string} */ sql) {
  const statement = prepare.call(this, sql);
  const { run } = statement;
  statement.run = function (/** @type {unknown[]} */ parameters) {
    wrote.add(partOf(sql, parameters));
    return run.call(this, parameters);
  };
  return statement;
};

/** One word for what a statement does to the store. */
function partOf(/** @type {string} */ sql, /** @type {unknown[]} */ parameters) {
  const [, verb = "", table = ""] = /^(insert into|update) "(\w+)"/.exec(sql) ?? [];
  if (verb === "update" && table === "sessions") {
    if (sql.includes('"cell_id"')) return "attach";
    if (sql.includes('"claimed_ms"')) return sql.includes('"fence" = ?, ') ? "claim" : "release";
    return "head";
  }
  if (table !== "ledger") return table;
  const states = ["minted", "refused", "dispatched", "completed", "unknown"];
  return states.find((state) => parameters.includes(state)) ?? table;
}

/** What a transaction was, from its parts. */
function kindOf(/** @type {Set<string>} */ parts) {
  if (parts.has("journal")) return "append";
  if (parts.has("saves")) return "save";
  if (parts.has("dispatched")) return "dispatch";
  if (parts.has("attach")) return "attach";
  if (parts.has("claim")) return "claim";
  if (parts.has("release")) return "release";
  if (parts.has("sessions")) return "create";
  if (parts.size > 0) return "settle";
  return "migrate";
}
