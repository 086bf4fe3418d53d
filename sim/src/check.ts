import type { Config } from "@dev/core";
import type { Core, Session as CoreSession } from "@dev/host";
import type { Action, ActionId, DoneOp, Outcome, Result, SessionId, TurnId } from "@dev/protocol";
import { encodeAction, isEffect } from "@dev/protocol";
import type { JournalEntry, LedgerEntry, Store } from "@dev/store";
import type { Case } from "./case.ts";
import { HOST_NAMES, openHost } from "./core.ts";
import type { Scenario } from "./scenario.ts";
import { sameOutcome, type World } from "./world.ts";

/** Looks at what a session has left behind, when it is over: the ledger, the journal, the save. */
export async function checkEnd(
  { store, session }: { readonly store: Store; readonly session: SessionId },
  scenario: Scenario,
  { crashes }: Case,
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
    // What is on its way when a turn ends otherwise is for the ledger alone.
    else if (ends.get(action.turn) === "complete") {
      world.breach("lost", `${action.op.kind} ${action.id} has no event, and its turn went on`);
    }
  }
  if (row.state === "active" || row.state === "new") {
    world.breach("stuck", `the session ends as ${row.state}`);
  }
  // In the order of the turns: one that answers a question ends before the one that asks.
  const ended = [...ends.keys()]
    .sort((a, b) => a - b)
    .map((turn) => ends.get(turn))
    .join();
  const expected = scenario.ends.join();
  // A stop, and a crash that takes the place of a stop or of a hitch, change how a turn ends; nothing else.
  const isPlain = scenario.stopAt === null && scenario.hitches.every(({ isLasting }) => isLasting);
  const isBound = crashes.length === 0 || (isPlain && crashes.every(({ kind }) => kind !== "stop"));
  if (ends.size !== scenario.prompts.length || (isBound && ended !== expected)) {
    world.breach("stuck", `the turns end as ${ended}, not ${expected}`);
  }
  const config: Config = JSON.parse(row.config);
  const bytes = HOST_NAMES.map((host) => {
    const core = openHost(host);
    const left = checkReplay(core, config, { journal, ledger }, world);
    core.close();
    return left;
  });
  for (const each of bytes) {
    if (Buffer.compare(each, bytes[0] ?? each) !== 0) {
      world.breach("replay", "the hosts come to other bytes");
    }
  }
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

/** From the first event or from any save, replay comes to the same actions and to the bytes it answers. */
function checkReplay(
  core: Core,
  config: Config,
  { journal, ledger }: { journal: readonly JournalEntry[]; ledger: readonly LedgerEntry[] },
  world: World,
): Uint8Array {
  const whole = core.create(config);
  const minted = replay(whole, journal);
  const differs = ledger.findIndex(({ action }, index) => {
    const again = minted[index];
    return again === undefined || Buffer.compare(encodeAction(action), encodeAction(again)) !== 0;
  });
  if (differs >= 0 || minted.length !== ledger.length) {
    world.breach("replay", `replay mints ${minted.length} actions, and differs at ${differs + 1}`);
  }
  const bytes = must(whole.snapshot());
  for (const save of world.saves) {
    const rest = must(core.restore(save.snapshot));
    replay(rest, journal.slice(save.sequence));
    if (Buffer.compare(bytes, must(rest.snapshot())) !== 0) {
      world.breach("replay", `the save at ${save.sequence} leads to other bytes`);
    }
  }
  return bytes;
}

function replay(session: CoreSession, journal: readonly JournalEntry[]): readonly Action[] {
  return journal.flatMap(({ event }) => must(session.step(event)));
}

function must<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new Error(`${result.fault.code}: ${result.fault.message}`);
}
