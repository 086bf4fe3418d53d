import type { Config } from "@dev/core";
import type { Core, Session as CoreSession } from "@dev/host";
import type { Action, ActionId, Event, Mode, Result, TurnId } from "@dev/protocol";
import { encodeAction, fail, fault, isEffect, ok } from "@dev/protocol";
import type {
  JournalEntry,
  LedgerEntry,
  LedgerLine,
  NewSession,
  Save,
  Session as SessionRow,
  Store,
} from "@dev/store";
import { answeredId, answerIn, type Stepped } from "./answer.ts";
import { Conversations } from "./conversation.ts";
import type { TurnEnd } from "./progress.ts";
import { Roster } from "./roster.ts";
import { Tallies } from "./tally.ts";

/** A session as it stood when its last driver stopped. */
export type Recovered = {
  readonly core: CoreSession;
  readonly sequence: number;
  /** How each turn was asked to be run. */
  readonly modes: ReadonlyMap<TurnId, Mode>;
  readonly conversations: Conversations;
  /** What had no end yet and is still waited for, in id order. */
  readonly open: readonly OpenAction[];
  /** What had no end yet and is waited for no more: its turn has ended. */
  readonly stale: readonly OpenAction[];
  /** The questions that the last event answered, being a person's message, and its text. */
  readonly overtaken: { readonly questions: readonly OpenAction[]; readonly text: string } | null;
  readonly tallies: Tallies;
  readonly roster: Roster;
  /** How the last turn ended that did: whoever was to be told may have died first. */
  readonly last: TurnEnd | null;
};

export type OpenAction = { readonly action: Action; readonly standing: Standing };

/** How far an action without an end has come. */
export type Standing =
  | { readonly kind: "minted" }
  /** It was dispatched as it was minted, by this driver, and nothing has been done about it yet. */
  | { readonly kind: "begun" }
  /** An earlier driver dispatched it, and may have had it performed. */
  | { readonly kind: "dispatched"; readonly attempt: number; readonly spool: string };

/**
 * Rebuilds a session from its three facts. The core is deterministic, so the actions that it mints in
 * replay must equal the ledger's; where they do not, the fault is `diverged` and names the action.
 */
export async function recover(
  store: Store,
  core: Core,
  row: SessionRow,
): Promise<Result<Recovered>> {
  const save = await store.lastSave(row.id);
  if (!save.ok) return save;
  const opened = openCoreSession(core, row, save.value);
  if (!opened.ok) return opened;
  const ledger = await store.ledger(row.id);
  if (!ledger.ok) return ledger;
  const journal = await store.journal(row.id, 0);
  if (!journal.ok) return journal;
  const after = save.value?.sequence ?? 0;
  const events = journal.value.filter((entry) => entry.sequence > after).map((each) => each.event);
  const replayed = replay(opened.value, events, ledger.value);
  if (!replayed.ok) {
    opened.value.close();
    return replayed;
  }
  const { open, stale } = unfinished(ledger.value);
  // Whoever accepts a message settles what it answers before anything else: only the last may be left.
  const text = replayed.value === null ? null : answerIn(replayed.value);
  const questions = text === null ? [] : open.filter(({ action }) => action.op.kind === "question");
  const answered = answers(journal.value, ledger.value);
  const tallies = new Tallies();
  for (const [action, event] of answered) tallies.take(action, event);
  for (const { action } of ledger.value) tallies.mint(action);
  return ok({
    core: opened.value,
    sequence: row.sequence,
    modes: modes(journal.value),
    conversations: conversations(ledger.value),
    open: open.filter((given) => !questions.includes(given)),
    stale,
    overtaken: text === null ? null : { questions, text },
    tallies,
    roster: roster(answered, ledger.value, open),
    last: lastEnd(row, ledger.value, tallies),
  });
}

/** The row of a session that was just made. */
export function newRow(made: NewSession, holder: string): SessionRow {
  const { createdMs: updatedMs } = made;
  return { ...made, updatedMs, sequence: 0, title: "", state: "new", cell: null, holder };
}

/** A session that has had no event yet, with its core. Fault: `corrupt`. */
export function untouched(core: Core, row: SessionRow): Result<Recovered> {
  const opened = openCoreSession(core, row, null);
  if (!opened.ok) return opened;
  return ok({
    core: opened.value,
    sequence: 0,
    modes: new Map(),
    conversations: new Conversations(),
    open: [],
    stale: [],
    overtaken: null,
    tallies: new Tallies(),
    roster: new Roster(),
    last: null,
  });
}

function modes(journal: readonly JournalEntry[]): ReadonlyMap<TurnId, Mode> {
  const found = new Map<TurnId, Mode>();
  for (const { event } of journal) if (event.kind === "turn") found.set(event.id, event.mode);
  return found;
}

function conversations(ledger: readonly LedgerEntry[]): Conversations {
  const told = new Conversations();
  for (const { action } of ledger) {
    if (action.op.kind === "model") told.take(action);
    else if (action.op.kind === "done") told.retire(action.op.turn);
  }
  return told;
}

/** Each action that an event answered, with that event, in the order of the journal. */
function answers(
  journal: readonly JournalEntry[],
  ledger: readonly LedgerEntry[],
): readonly (readonly [Action, Event])[] {
  const actions = new Map(ledger.map(({ action }) => [action.id, action]));
  return journal.flatMap(({ event }) => {
    const id = answeredId(event);
    const action = id === null ? undefined : actions.get(id);
    return action === undefined ? [] : [[action, event] as const];
  });
}

/** The sub-agents that are still at work, or wait for one that is. */
function roster(
  answered: ReturnType<typeof answers>,
  ledger: readonly LedgerEntry[],
  open: readonly OpenAction[],
): Roster {
  const found = new Roster();
  for (const [action, event] of answered) found.hear(action, event);
  for (const { action } of ledger) {
    found.ask(action);
    if (action.op.kind === "done") found.retire(action.op.turn);
  }
  found.rest(new Set(open.map(({ action }) => action.agent)));
  return found;
}

function lastEnd(
  row: SessionRow,
  ledger: readonly LedgerEntry[],
  tallies: Tallies,
): TurnEnd | null {
  const last = ledger.findLast(
    ({ action, lines }) => action.op.kind === "done" && lines.at(-1)?.state === "completed",
  );
  return last?.action.op.kind === "done" ? tallies.end(row.id, last.action.op) : null;
}

function openCoreSession(core: Core, row: SessionRow, save: Save | null): Result<CoreSession> {
  if (save !== null) return core.restore(save.snapshot);
  try {
    return ok(core.create(JSON.parse(row.config) as Config));
  } catch {
    return fail(fault("corrupt", "the session's configuration is not JSON", row.id));
  }
}

/** Steps a restored core through the events that its snapshot has not seen; answers the last step. */
function replay(
  core: CoreSession,
  events: readonly Event[],
  ledger: readonly LedgerEntry[],
): Result<Stepped | null> {
  const known = new Map(ledger.map((entry) => [entry.action.id, entry.action]));
  let last: Stepped | null = null;
  for (const event of events) {
    const stepped = core.step(event);
    if (!stepped.ok) return stepped;
    for (const action of stepped.value) {
      const written = known.get(action.id);
      if (written === undefined || !same(written, action)) {
        return fail(
          fault(
            "diverged",
            `replay mints another action ${action.id} than the ledger has`,
            `action ${action.id}`,
            "the session stops here: it was written by another version of the core, or was damaged",
          ),
        );
      }
    }
    last = { event, minted: stepped.value };
  }
  return ok(last);
}

function same(a: Action, b: Action): boolean {
  return Buffer.compare(encodeAction(a), encodeAction(b)) === 0;
}

function dispatched({ attempt, spool }: LedgerLine): Standing {
  return { kind: "dispatched", attempt, spool };
}

/** Sorts the actions without an end into those still waited for, and those whose turn has ended. */
function unfinished(ledger: readonly LedgerEntry[]): {
  readonly open: readonly OpenAction[];
  readonly stale: readonly OpenAction[];
} {
  const ends = new Map<TurnId, ActionId>();
  for (const { action } of ledger)
    if (action.op.kind === "done") ends.set(action.op.turn, action.id);
  const open: OpenAction[] = [];
  const stale: OpenAction[] = [];
  for (const { action, lines } of ledger) {
    const last = lines.at(-1);
    if (last === undefined || last.state === "minted" || last.state === "dispatched") {
      const waited =
        isEffect(action.op) || action.op.kind === "model" || action.op.kind === "question";
      const end = ends.get(action.turn);
      const late = waited && end !== undefined && end > action.id;
      (late ? stale : open).push({
        action,
        standing: last?.state === "dispatched" ? dispatched(last) : { kind: "minted" },
      });
    }
  }
  return { open, stale };
}
