import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Event, familyOf, type Op } from "@dev/protocol";
import { type Claim, openSqlite, type Store } from "@dev/store";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  action,
  alive,
  cameTo,
  chosen,
  dead,
  dispatched,
  EXEC,
  entry,
  fresh,
  MODEL,
  must,
  named,
  QUESTION,
  RAN,
  REFUSED,
  ran,
  replied,
  SAVE,
  settled,
  turn,
  UNKNOWN,
} from "./notation.ts";

/** What a driver does next; numbers choose among what there is, and now and then what there is not. */
type Step =
  | { readonly kind: "claim"; readonly isAlive: boolean }
  | { readonly kind: "release" }
  | { readonly kind: "prompt"; readonly behind: number; readonly minted: readonly Op[] }
  | { readonly kind: "answer"; readonly id: number; readonly outcome: typeof RAN }
  | { readonly kind: "dispatch"; readonly id: number; readonly attempt: number }
  | { readonly kind: "settle"; readonly id: number; readonly state: "completed" | "unknown" }
  | { readonly kind: "save"; readonly sequence: number };

type Life = { readonly op: Op; readonly lines: [state: string, attempt: number][] };

/** The store as a few lines of memory: what each call comes to, and what is there afterwards. */
type Model = {
  fence: number;
  holder: string | null;
  journal: Event[];
  lives: Life[];
  saved: number | null;
};

type Driver = { readonly name: string; readonly store: Store; claim: Claim };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("claim"), isAlive: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("release") }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("prompt"),
      behind: fc.oneof(
        { weight: 9, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.nat(2) },
      ),
      minted: fc.array(fc.constantFrom(EXEC, MODEL, QUESTION, SAVE), { maxLength: 3 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("answer"),
      id: fc.nat(6),
      outcome: fc.constantFrom(RAN, REFUSED, UNKNOWN),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("dispatch"),
      id: fc.nat(6),
      attempt: fc.integer({ min: 1, max: 2 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("settle"),
      id: fc.nat(6),
      state: fc.constantFrom("completed", "unknown"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("save"), sequence: fc.nat(4) }) },
) as fc.Arbitrary<Step>;

test("two drivers leave what a model of the store says, whatever they do", async () => {
  const directory = await mkdtemp(join(tmpdir(), "store-"));
  let round = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(1), step), { maxLength: 40 }), async (steps) => {
      const path = join(directory, `${round++}.db`);
      const drivers = await Promise.all(["one", "two"].map((name) => driver(name, path)));
      const model: Model = { fence: 0, holder: null, journal: [], lives: [], saved: null };
      must(await (drivers[0] as Driver).store.create(fresh()));
      for (const [who, next] of steps) {
        const by = drivers[who] as Driver;
        const expected = foresee(model, by, next);
        expect([next, await take(by, next, model)]).toEqual([next, expected]);
      }
      for (const by of drivers) await compare(by.store, model);
      for (const by of drivers) by.store.close();
    }),
    { numRuns: 60 },
  );
  await rm(directory, { recursive: true });
});

async function driver(name: string, path: string): Promise<Driver> {
  const store = must(await openSqlite(path));
  return { name, store, claim: { session: named(1), fence: 0 } };
}

/** Does the step on the store; `before` is the model after the step, from which ids are chosen. */
async function take(by: Driver, next: Step, model: Model): Promise<string> {
  const { store, claim } = by;
  switch (next.kind) {
    case "claim": {
      const claimed = await store.claim(named(1), by.name, next.isAlive ? alive : dead, 1);
      if (claimed.ok) by.claim = claimed.value;
      return claimed.ok ? "ok" : claimed.fault.code;
    }
    case "release":
      await store.release(claim);
      return "ok";
    case "prompt":
    case "answer": {
      const { sequence } = must(await store.session(named(1)));
      if (next.kind === "answer") {
        return cameTo(store.append(claim, entry(sequence, answerOf(model, next))));
      }
      const { length } = must(await store.ledger(named(1)));
      const minted = next.minted.map((op, index) => action(length + index, op));
      const expected = Math.max(0, sequence - next.behind);
      return cameTo(store.append(claim, entry(expected, turn(1), minted)));
    }
    case "dispatch":
      return cameTo(store.dispatch(claim, [dispatched(next.id, next.attempt)]));
    case "settle":
      return cameTo(store.settle(claim, [settled(next.id, next.state)]));
    case "save": {
      const snapshot = new Uint8Array([next.sequence]);
      return cameTo(
        store.save(claim, { snapshot, workspace: "", sequence: next.sequence, atMs: 1 }),
      );
    }
  }
}

/** Does the step on the model, and says what it comes to. */
function foresee(model: Model, by: Driver, next: Step): string {
  if (next.kind === "claim") {
    if (model.holder !== null && model.holder !== by.name && next.isAlive) return "in_use";
    model.fence += 1;
    model.holder = by.name;
    return "ok";
  }
  const holds = model.holder !== null && by.claim.fence === model.fence;
  if (next.kind === "release") {
    if (holds) model.holder = null;
    return "ok";
  }
  return holds ? foreseeWrite(model, next) : "fenced";
}

type Write = Exclude<Step, { readonly kind: "claim" } | { readonly kind: "release" }>;

function foreseeWrite(model: Model, next: Write): string {
  switch (next.kind) {
    case "prompt":
      if (Math.min(next.behind, model.journal.length) > 0) return "fenced";
      model.journal.push(turn(1));
      for (const op of next.minted) model.lives.push({ op, lines: [["minted", 0]] });
      return "ok";
    case "answer": {
      const ended = end(model, next);
      if (ended) model.journal.push(answerOf(model, next));
      return ended ? "ok" : "throws";
    }
    case "dispatch": {
      const life = model.lives[next.id];
      const [state, attempt] = life?.lines.at(-1) ?? ["", 0];
      const again = life?.op === MODEL && state === "dispatched";
      if (!(state === "minted" || again) || next.attempt !== attempt + 1) return "throws";
      life?.lines.push(["dispatched", next.attempt]);
      return "ok";
    }
    case "settle": {
      const [state, attempt] = model.lives[next.id]?.lines.at(-1) ?? ["", 0];
      const late = state === "unknown" && next.state === "completed";
      if (state !== "dispatched" && !late) return "throws";
      model.lives[next.id]?.lines.push([next.state, attempt]);
      return "ok";
    }
    case "save":
      if (next.sequence > model.journal.length || next.sequence < (model.saved ?? 0))
        return "throws";
      model.saved = next.sequence;
      return "ok";
  }
}

function end(model: Model, next: Step & { kind: "answer" }): boolean {
  const life = model.lives[next.id];
  if (life === undefined || life.op === SAVE) return false;
  const [state, attempt] = life.lines.at(-1) ?? ["", 0];
  const kind = life.op === EXEC ? next.outcome.kind : "ok";
  const to = kind === "ok" ? "completed" : kind;
  if (state !== (to === "refused" ? "minted" : "dispatched")) return false;
  life.lines.push([to, attempt]);
  return true;
}

function answerOf(model: Model, next: Step & { kind: "answer" }): Event {
  const op = model.lives[next.id]?.op;
  if (op === MODEL) return replied(next.id);
  return op === QUESTION ? chosen(next.id) : ran(next.id, next.outcome);
}

async function compare(store: Store, model: Model): Promise<void> {
  const entries = must(await store.journal(named(1), 0));
  expect(entries.map((one) => one.event)).toEqual(model.journal);
  expect(entries.map((one) => one.sequence)).toEqual(model.journal.map((_, index) => index + 1));
  const session = must(await store.session(named(1)));
  expect([session.sequence, session.holder]).toEqual([model.journal.length, model.holder]);
  const ledger = must(await store.ledger(named(1)));
  expect(ledger.map((life) => life.action)).toEqual(
    model.lives.map((life, id) => action(id, life.op)),
  );
  expect(ledger.map((life) => life.lines.map((line) => [line.state, line.attempt]))).toEqual(
    model.lives.map((life) => life.lines),
  );
  for (const life of ledger) {
    const family = familyOf(life.action.op);
    // An end that was an event carries what the event said.
    const told = life.lines.filter((line) => line.outcome !== null || line.usage !== null);
    expect(told.length <= (family === "none" || family === "reply" ? 0 : 1)).toBe(true);
  }
  expect(must(await store.lastSave(named(1)))?.sequence ?? null).toBe(model.saved);
}
