import type { Config } from "@dev/core";
import { type Session as CoreSession, openCore } from "@dev/host";
import type { Action, ActionId, DoneOp, Outcome, Result, SessionId, TurnId } from "@dev/protocol";
import { encodeAction, isEffect } from "@dev/protocol";
import type { JournalEntry, LedgerEntry, Store } from "@dev/store";
import type { Crash } from "./case.ts";
import { UNWATCHED } from "./core.ts";
import type { Scenario } from "./scenario.ts";
import { sameOutcome, type World } from "./world.ts";

/** Looks at what a session has left behind, when it is over: the ledger, the journal, the save. */
export async function checkEnd(
  { store, session }: { readonly store: Store; readonly session: SessionId },
  scenario: Scenario,
  crashes: readonly Crash[],
  world: World,
): Promise<void> {
  const row = must(await store.session(session));
  const ledger = must(await store.ledger(session));
  const journal = must(await store.journal(session, 0));
  checkLives(ledger, world);
  const outcomes = outcomesIn(journal);
  const ends = new Map<TurnId, DoneOp["outcome"]>();
  for (const { op } of ledger.map(({ action }) => action)) {
    if (op.kind === "done") ends.set(op.turn, op.outcome);
  }
  for (const { action, lines } of ledger) {
    if (!isEffect(action.op)) continue;
    const outcome = outcomes.get(action.id);
    const spool = lines.find(({ state }) => state === "dispatched")?.spool ?? "";
    if (outcome !== undefined) checkTold(action, outcome, spool, world);
    else if (ends.get(action.turn) !== "cancelled") {
      world.breach("lost", `${action.op.kind} ${action.id} has no event, and its turn went on`);
    }
  }
  if (row.state === "active" || row.state === "new") {
    world.breach("stuck", `the session ends as ${row.state}`);
  }
  const ended = [...ends.values()].join();
  const expected = scenario.ends.join();
  // A stop, and a crash that takes the place of a stop or of a hitch, change how a turn ends; nothing else.
  const isPlain = scenario.stopAt === null && scenario.hitches.length === 0;
  const isBound = crashes.length === 0 || (isPlain && crashes.every(({ kind }) => kind !== "stop"));
  if (ends.size !== scenario.prompts.length || (isBound && ended !== expected)) {
    world.breach("stuck", `the turns end as ${ended}, not ${expected}`);
  }
  const save = must(await store.lastSave(session));
  checkReplay(JSON.parse(row.config), journal, ledger, save, world);
}

/** Ids without a gap, and lives that the ledger's rule allows, each with an end. */
function checkLives(ledger: readonly LedgerEntry[], world: World): void {
  for (const [index, { action, lines }] of ledger.entries()) {
    if (action.id !== index + 1) world.breach("ledger", `after ${index} comes ${action.id}`);
    const life = lines.map(({ state }) => state).join(" ");
    const asked = action.op.kind === "model" ? "(dispatched )+" : "dispatched ";
    const legal = new RegExp(`^minted (refused|${asked}(completed|unknown))$`);
    if (!legal.test(life)) world.breach("ledger", `${action.op.kind} ${action.id} lived: ${life}`);
  }
}

/** Compares what the core was told of an effect with what really came of it. */
function checkTold({ id, op }: Action, told: Outcome, spool: string, world: World): void {
  const real = world.outcomes.get(id);
  const label = `${op.kind} ${id} is told as ${told.kind}`;
  switch (told.kind) {
    case "unknown":
      world.unknownCount += 1;
      // Nobody can know when the agent died in mid-effect, or the spool that it was dispatched under is lost.
      if (!world.unknowable.has(id) && !world.lostSpools.has(spool)) {
        world.breach("lost", `${label}, and could have been known (${told.known})`);
      }
      return;
    case "ok":
      if (op.kind === "read") return;
      if (real === undefined || !world.happened.has(id)) world.breach("invented", label);
      else if (!sameOutcome(real, told))
        world.breach("invented", `${label}, otherwise than it was`);
      return;
    case "failed":
      if (world.happened.has(id))
        world.breach("lost", `${label}, and it had happened: ${told.fault.message}`);
      return;
    case "refused":
      if (world.began.has(id)) world.breach("invented", `${label}, and it had begun`);
      return;
    case "cancelled":
      if (!world.stopped.has(id)) world.breach("invented", `${label}, and nobody had stopped it`);
      if (real !== undefined) world.breach("lost", `${label}, and it had come to its end`);
      return;
  }
}

function outcomesIn(journal: readonly JournalEntry[]): ReadonlyMap<ActionId, Outcome> {
  const outcomes = new Map<ActionId, Outcome>();
  for (const { event } of journal) if ("outcome" in event) outcomes.set(event.id, event.outcome);
  return outcomes;
}

/** From the first event or from the last save, replay comes to the same actions and the same bytes. */
function checkReplay(
  config: Config,
  journal: readonly JournalEntry[],
  ledger: readonly LedgerEntry[],
  save: { readonly snapshot: Uint8Array; readonly sequence: number } | null,
  world: World,
): void {
  const core = openCore(UNWATCHED);
  const whole = core.create(config);
  const minted = replay(whole, journal);
  const differs = ledger.findIndex(({ action }, index) => {
    const again = minted[index];
    return again === undefined || Buffer.compare(encodeAction(action), encodeAction(again)) !== 0;
  });
  if (differs >= 0 || minted.length !== ledger.length) {
    world.breach("replay", `replay mints ${minted.length} actions, and differs at ${differs + 1}`);
  }
  if (save !== null) {
    const rest = must(core.restore(save.snapshot));
    replay(rest, journal.slice(save.sequence));
    const [from, to] = [must(whole.snapshot()), must(rest.snapshot())];
    if (Buffer.compare(from, to) !== 0) world.breach("replay", "the save leads to other bytes");
  }
  core.close();
}

function replay(session: CoreSession, journal: readonly JournalEntry[]): readonly Action[] {
  return journal.flatMap(({ event }) => must(session.step(event)));
}

function must<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new Error(`${result.fault.code}: ${result.fault.message}`);
}
