import { actionId, EVENT_LIMIT_BYTES } from "@dev/protocol";
import { CHECKPOINT_LIMIT, type Claim, type LedgerLine, type Store } from "@dev/store";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  action,
  alive,
  cameTo,
  chosen,
  dead,
  dispatched,
  driven,
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
  request,
  SAVE,
  settled,
  turn,
  UNKNOWN,
  USAGE,
} from "./notation.ts";

/** A database of its own for one test; each `open` is another driver's view of it. */
export type Bench = {
  open(): Promise<Store>;
  close(): Promise<void>;
};

/** What every store promises, whatever database is below it. */
export function storeContract(name: string, bench: () => Promise<Bench>): void {
  describe(`a store in ${name}`, () => {
    let here: Bench;
    let store: Store;
    beforeEach(async () => {
      here = await bench();
      store = await here.open();
    });
    afterEach(() => here.close());

    sessionsAreKept(() => store);
    oneDriverAtATime(
      () => store,
      () => here.open(),
    );
    entriesAreOneWrite(
      () => store,
      () => here.open(),
    );
    livesAreInOrder(() => store);
    livesTakeNoOtherStep(() => store);
    savesAreKept(() => store);
    requestsAreKept(() => store);
    checkpointsAreKept(() => store);
    forksGoTheirOwnWay(() => store);
  });
}

function sessionsAreKept(at: () => Store): void {
  test("a session is read back as it was made", async () => {
    must(await at().create(fresh()));
    expect(must(await at().session(named(1)))).toEqual({
      ...fresh(),
      updatedMs: fresh().createdMs,
      sequence: 0,
      title: "",
      state: "new",
      cell: null,
      holder: null,
    });
  });

  test("a session is made once", async () => {
    must(await at().create(fresh()));
    expect(await cameTo(at().create({ ...fresh(), directory: "/other" }))).toBe("exists");
    expect(must(await at().session(named(1))).directory).toBe(fresh().directory);
  });

  test("an id that no session has is a fault of every read and write", async () => {
    const claim = { session: named(1), fence: 1 };
    const calls = [
      at().session(named(1)),
      at().claim(named(1), "one", dead, 0),
      at().append(claim, entry(0, turn(1))),
      at().dispatch(claim, [dispatched(1)]),
      at().settle(claim, [settled(1)]),
      at().attach(claim, { id: "c", workspace: "/w" }),
      at().lastSave(named(1)),
      at().journal(named(1), 0),
      at().ledger(named(1)),
    ];
    const codes = await Promise.all(calls.map(cameTo));
    expect(codes).toEqual(calls.map(() => "unknown_id"));
  });

  test("sessions are listed newest first, page by page", async () => {
    for (const n of [2, 1, 3]) must(await at().create(fresh(n)));
    const first = must(await at().sessions(2));
    expect(first.map((session) => session.id)).toEqual([named(3), named(2)]);
    const next = must(await at().sessions(2, named(2)));
    expect(next.map((session) => session.id)).toEqual([named(1)]);
  });

  test("the first prompt that says something is the title", async () => {
    const claim = await driven(at());
    must(await at().append(claim, entry(0, turn(1, " \n"))));
    must(await at().append(claim, entry(1, turn(2, "\n fix\tthe \u001b[31mtest \nnow"))));
    must(await at().append(claim, entry(2, turn(3, "another"))));
    const session = must(await at().session(named(1)));
    expect(session).toMatchObject({ title: "fix the [31mtest", sequence: 3, updatedMs: 1_002 });
    expect(session.state).toBe("active");
  });

  test("the session remembers its cell", async () => {
    const claim = await driven(at());
    must(await at().attach(claim, { id: "c_1", workspace: "/cells/1" }));
    must(await at().attach(claim, { id: "c_2", workspace: "/cells/2" }));
    const session = must(await at().session(named(1)));
    expect(session.cell).toEqual({ id: "c_2", workspace: "/cells/2" });
  });
}

function oneDriverAtATime(at: () => Store, another: () => Promise<Store>): void {
  test("a session that a living process drives is in use", async () => {
    await driven(at());
    const second = await another();
    const refused = await second.claim(named(1), "two", alive, 6);
    expect(refused).toMatchObject({ ok: false, fault: { code: "in_use" } });
    expect(must(await second.session(named(1))).holder).toBe("one");
  });

  test("a dead driver's session can be taken, and its fence rises", async () => {
    const first = await driven(at());
    const asked: string[] = [];
    const second = must(
      await (await another()).claim(named(1), "two", (holder) => asked.push(holder) < 0, 6),
    );
    expect(asked).toEqual(["one"]);
    expect(second.fence).toBeGreaterThan(first.fence);
  });

  test("a driver that was fenced off writes nothing, and cannot give the session away", async () => {
    const old = await driven(at());
    must(await at().append(old, entry(0, turn(1), [action(1), action(2)])));
    must(await at().dispatch(old, [dispatched(2)]));
    must(await (await another()).claim(named(1), "two", dead, 6));
    const save = { snapshot: new Uint8Array([1]), workspace: "", sequence: 1, atMs: 0 };
    const calls = [
      at().append(old, entry(1, turn(2))),
      at().dispatch(old, [dispatched(1)]),
      at().settle(old, [settled(2)]),
      at().save(old, save),
      at().attach(old, { id: "c", workspace: "/w" }),
    ];
    expect(await Promise.all(calls.map(cameTo))).toEqual(calls.map(() => "fenced"));
    await at().release(old);
    const session = must(await at().session(named(1)));
    expect(session).toMatchObject({ holder: "two", sequence: 1, cell: null });
    expect(must(await at().lastSave(named(1)))).toBeNull();
    const lives = must(await at().ledger(named(1))).map((life) => life.lines.length);
    expect(lives).toEqual([1, 2]);
  });

  test("a session that was given back wants a new claim", async () => {
    const claim = await driven(at());
    await at().release(claim);
    expect(must(await at().session(named(1))).holder).toBeNull();
    expect(await cameTo(at().append(claim, entry(0, turn(1))))).toBe("fenced");
    const next = must(await at().claim(named(1), "two", alive, 6));
    expect(await cameTo(at().append(next, entry(0, turn(1))))).toBe("ok");
  });

  test("of two appends that expect the same sequence one is refused", async () => {
    const claim = await driven(at());
    const second = await another();
    const codes = await Promise.all([
      cameTo(at().append(claim, entry(0, turn(1)))),
      cameTo(second.append(claim, entry(0, turn(1)))),
    ]);
    expect(codes.sort()).toEqual(["fenced", "ok"]);
    expect(must(await at().journal(named(1), 0))).toHaveLength(1);
  });
}

function entriesAreOneWrite(at: () => Store, another: () => Promise<Store>): void {
  test("the journal gives back the events after a sequence, to every reader", async () => {
    const claim = await driven(at());
    const events = [turn(1, "prompt"), { kind: "timer" }, { kind: "steer", text: "sì" }] as const;
    for (const [index, event] of events.entries()) {
      must(await at().append(claim, entry(index, event)));
    }
    const entries = must(await (await another()).journal(named(1), 1));
    expect(entries).toEqual([
      { sequence: 2, event: events[1], atMs: 1_001 },
      { sequence: 3, event: events[2], atMs: 1_002 },
    ]);
    expect(must(await at().journal(named(1), 3))).toEqual([]);
  });

  test("an event, the completion it is and the actions it minted are one write", async () => {
    const claim = await driven(at());
    must(await at().append(claim, entry(0, turn(1), [action(1, MODEL)])));
    must(await at().dispatch(claim, [dispatched(1, 1, "")]));
    // The second mint of action 1 fails, and with it everything else of that entry.
    const bad = entry(1, replied(1), [action(2), action(1)]);
    expect(await cameTo(at().append(claim, bad))).toBe("throws");
    expect(must(await at().session(named(1))).sequence).toBe(1);
    const [only, ...others] = must(await at().ledger(named(1)));
    expect(others).toEqual([]);
    expect(only?.lines.map((line) => line.state)).toEqual(["minted", "dispatched"]);

    must(await at().append(claim, entry(1, replied(1), [action(2)])));
    const ledger = must(await at().ledger(named(1)));
    expect(ledger.map((life) => life.action)).toEqual([action(1, MODEL), action(2)]);
    const [minted, sent, done] = ledger[0]?.lines ?? [];
    const line = { attempt: 1, spool: "", detail: "", outcome: null, usage: null };
    expect(minted).toEqual({ ...line, state: "minted", attempt: 0, atMs: 1_000 });
    expect(sent).toEqual({ ...line, state: "dispatched", atMs: 2_000 });
    expect(done).toEqual({ ...line, state: "completed", atMs: 1_001, usage: USAGE });
  });

  test("an event that could never be read again is refused, whole", async () => {
    const claim = await driven(at());
    const text = "x".repeat(EVENT_LIMIT_BYTES);
    expect(await cameTo(at().append(claim, entry(0, turn(1, text))))).toBe("too_large");
    expect(must(await at().session(named(1))).sequence).toBe(0);
    must(await at().append(claim, entry(0, turn(1, text.slice(9_999)))));
    expect(must(await at().journal(named(1), 0))).toHaveLength(1);
  });

  test("the ledger can be read from an action on", async () => {
    const claim = await driven(at());
    must(await at().append(claim, entry(0, turn(1), [action(1), action(2), action(3)])));
    const ledger = must(await at().ledger(named(1), actionId(2)));
    expect(ledger.map((life) => life.action.id)).toEqual([2, 3]);
    expect(ledger.map((life) => life.lines.length)).toEqual([1, 1]);
  });

  test("sessions share no ids", async () => {
    const first = await driven(at(), 1);
    const second = await driven(at(), 2);
    must(await at().append(first, entry(0, turn(1), [action(1)])));
    must(await at().append(second, entry(0, turn(1), [action(1, SAVE)])));
    must(await at().dispatch(second, [dispatched(1)]));
    expect(must(await at().ledger(named(1)))[0]?.lines).toHaveLength(1);
    expect(must(await at().ledger(named(2)))[0]?.action).toEqual(action(1, SAVE));
  });
}

function livesAreInOrder(at: () => Store): void {
  test("a refused action was never dispatched", async () => {
    const claim = await ready(at());
    must(await at().append(claim, entry(1, ran(1, REFUSED))));
    const [, refused] = await lifeOf(at(), 1);
    expect(refused).toMatchObject({ state: "refused", outcome: REFUSED, attempt: 0 });
    expect(refused?.detail).toBe("deny rm: no");
    expect(await cameTo(at().dispatch(claim, [dispatched(1)]))).toBe("throws");
    must(await at().dispatch(claim, [dispatched(2)]));
    expect(await cameTo(at().append(claim, entry(2, ran(2, REFUSED))))).toBe("throws");
  });

  test("what was dropped before its dispatch is refused, and what was dispatched cannot be", async () => {
    const claim = await ready(at());
    const dropped = { ...settled(1), state: "refused" } as const;
    must(await at().settle(claim, [dropped]));
    expect((await lifeOf(at(), 1)).map((line) => line.state)).toEqual(["minted", "refused"]);
    must(await at().dispatch(claim, [dispatched(2)]));
    expect(await cameTo(at().settle(claim, [{ ...dropped, id: actionId(2) }]))).toBe("throws");
  });

  test("what nobody can know is unknown, and evidence may still complete it", async () => {
    const claim = await ready(at());
    must(await at().dispatch(claim, [dispatched(1)]));
    must(await at().append(claim, entry(1, ran(1, UNKNOWN))));
    must(await at().settle(claim, [settled(1, "completed")]));
    const states = (await lifeOf(at(), 1)).map((line) => line.state);
    expect(states).toEqual(["minted", "dispatched", "unknown", "completed"]);
    expect(await cameTo(at().settle(claim, [settled(1, "unknown")]))).toBe("throws");
  });

  test("every other outcome completes what was dispatched, under its spool", async () => {
    const claim = await ready(at());
    must(await at().dispatch(claim, [dispatched(1), dispatched(4, 1, "")]));
    must(await at().append(claim, entry(1, ran(1))));
    must(await at().append(claim, entry(2, chosen(4))));
    const [, , done] = await lifeOf(at(), 1);
    expect(done).toMatchObject({ state: "completed", attempt: 1, spool: "spool-1", outcome: RAN });
    expect((await lifeOf(at(), 4)).at(-1)).toMatchObject({ state: "completed", outcome: null });
  });

  test("only a model call has a second attempt, and its end counts for the last", async () => {
    const claim = await ready(at());
    must(await at().dispatch(claim, [dispatched(1), dispatched(3, 1, "")]));
    expect(await cameTo(at().dispatch(claim, [dispatched(1, 2)]))).toBe("throws");
    expect(await cameTo(at().dispatch(claim, [dispatched(3, 3, "")]))).toBe("throws");
    must(await at().dispatch(claim, [dispatched(3, 2, "")]));
    must(await at().append(claim, entry(1, replied(3))));
    const life = (await lifeOf(at(), 3)).map((line) => [line.state, line.attempt]);
    expect(life).toEqual([
      ["minted", 0],
      ["dispatched", 1],
      ["dispatched", 2],
      ["completed", 2],
    ]);
  });
}

function livesTakeNoOtherStep(at: () => Store): void {
  test("a step out of order throws, and writes nothing of its batch", async () => {
    const claim = await ready(at());
    const wrong = [
      () => at().dispatch(claim, [dispatched(1), dispatched(1)]),
      () => at().dispatch(claim, [dispatched(1, 2)]),
      () => at().dispatch(claim, [dispatched(9)]),
      () => at().settle(claim, [settled(1)]),
      () => at().append(claim, entry(1, ran(1))),
      () => at().append(claim, entry(1, ran(9))),
      () => at().append(claim, entry(1, ran(3, REFUSED))),
      () => at().append(claim, entry(1, turn(2), [action(2)])),
    ];
    for (const call of wrong) expect(await cameTo(call())).toBe("throws");
    const lives = must(await at().ledger(named(1))).map((life) => life.lines.length);
    expect(lives).toEqual([1, 1, 1, 1]);
    expect(must(await at().journal(named(1), 0))).toHaveLength(1);
  });

  test("a late outcome is written down once, and changes no state of the session", async () => {
    const claim = await ready(at());
    must(await at().dispatch(claim, [dispatched(1), dispatched(2)]));
    must(await at().settle(claim, [settled(1), settled(2, "unknown")]));
    expect(await cameTo(at().settle(claim, [settled(1)]))).toBe("throws");
    expect((await lifeOf(at(), 1)).at(-1)).toMatchObject({ state: "completed", detail: "late" });
    expect((await lifeOf(at(), 2)).at(-1)).toMatchObject({ state: "unknown", spool: "spool-1" });
    expect(must(await at().session(named(1))).sequence).toBe(1);
  });

  test("a detail may hold any text", async () => {
    const claim = await ready(at());
    must(await at().dispatch(claim, [dispatched(1)]));
    must(await at().settle(claim, [{ ...settled(1), detail: "a\0b 👋" }]));
    expect((await lifeOf(at(), 1)).at(-1)?.detail).toBe("a\u{fffd}b 👋");
  });
}

/** Actions 1 and 2 run a command, 3 asks a model, 4 asks a person; all are minted. */
async function ready(store: Store): Promise<Claim> {
  const claim = await driven(store);
  const minted = [action(1), action(2), action(3, MODEL), action(4, QUESTION)];
  must(await store.append(claim, entry(0, turn(1), minted)));
  return claim;
}

async function lifeOf(store: Store, id: number): Promise<readonly LedgerLine[]> {
  return must(await store.ledger(named(1), actionId(id)))[0]?.lines ?? [];
}

function savesAreKept(at: () => Store): void {
  test("the newest save is kept whole", async () => {
    const claim = await driven(at());
    expect(must(await at().lastSave(named(1)))).toBeNull();
    must(await at().append(claim, entry(0, turn(1))));
    const snapshot = Uint8Array.from({ length: 5_000 }, (_, index) => index % 256);
    must(await at().save(claim, { snapshot, workspace: "w1", sequence: 0, atMs: 1 }));
    const newer = { snapshot: snapshot.toReversed(), workspace: "", sequence: 1, atMs: 2 };
    must(await at().save(claim, newer));
    expect(must(await at().lastSave(named(1)))).toEqual(newer);
  });

  test("a save that has seen what the journal does not hold throws, as does an older one", async () => {
    const claim = await driven(at());
    const save = { snapshot: new Uint8Array(1), workspace: "", sequence: 1, atMs: 1 };
    expect(await cameTo(at().save(claim, save))).toBe("throws");
    must(await at().append(claim, entry(0, turn(1))));
    must(await at().save(claim, save));
    expect(await cameTo(at().save(claim, { ...save, sequence: 0 }))).toBe("throws");
  });
}

function requestsAreKept(store: () => Store): void {
  test("requests to the network are kept in order, beside whatever driver there is", async () => {
    await driven(store());
    must(await store().note(named(1), [request({}), request({ verdict: "refused", rule: "" })]));
    must(await store().note(named(1), [request({ action: null, path: "/b\0c" })]));
    const all = must(await store().requests(named(1)));
    expect(all).toEqual([
      request({}),
      request({ verdict: "refused", rule: "" }),
      request({ action: null, path: "/b\u{fffd}c" }),
    ]);
    expect(await store().note(named(2), [request({})])).toMatchObject({ ok: false });
    expect(await store().requests(named(2))).toMatchObject({ fault: { code: "unknown_id" } });
  });
}

const CHECKPOINT = { workspace: "w1", sequence: 0, atMs: 1, cause: "begin" } as const;

function checkpointsAreKept(at: () => Store): void {
  test("checkpoints are numbered, and the same one is not kept twice in a row", async () => {
    const claim = await driven(at());
    expect(must(await at().checkpoints(named(1)))).toEqual([]);
    must(await at().checkpoint(claim, CHECKPOINT));
    must(await at().checkpoint(claim, { ...CHECKPOINT, atMs: 2, cause: "effects" }));
    must(await at().append(claim, entry(0, turn(1))));
    const snapshot = new Uint8Array(1);
    must(await at().save(claim, { snapshot, workspace: "w2", sequence: 1, atMs: 3 }));
    must(await at().save(claim, { snapshot, workspace: "", sequence: 1, atMs: 4 }));
    must(await at().append(claim, entry(1, turn(2))));
    must(await at().save(claim, { snapshot, workspace: "w2", sequence: 2, atMs: 4 }));
    must(await at().checkpoint(claim, { ...CHECKPOINT, sequence: 1, atMs: 5, cause: "rewind" }));
    expect(must(await at().checkpoints(named(1)))).toEqual([
      { ...CHECKPOINT, number: 1 },
      { number: 2, workspace: "w2", sequence: 2, atMs: 4, cause: "save" },
      { number: 3, workspace: "w1", sequence: 1, atMs: 5, cause: "rewind" },
    ]);
    expect(must(await at().workspaces()).toSorted()).toEqual(["w1", "w2"]);
  });

  test("a save of what the session began with is a checkpoint of its own", async () => {
    const claim = await driven(at());
    must(await at().checkpoint(claim, CHECKPOINT));
    must(await at().append(claim, entry(0, turn(1))));
    const snapshot = new Uint8Array(1);
    must(await at().save(claim, { snapshot, workspace: "w1", sequence: 1, atMs: 3 }));
    const found = must(await at().checkpoints(named(1)));
    expect(found.map(({ number, sequence }) => [number, sequence])).toEqual([
      [1, 0],
      [2, 1],
    ]);
  });

  test("of many checkpoints the first and the newest stay", async () => {
    const claim = await driven(at());
    for (let n = 1; n <= CHECKPOINT_LIMIT + 10; n++) {
      must(await at().checkpoint(claim, { ...CHECKPOINT, workspace: `w${n}`, atMs: n }));
    }
    const numbers = must(await at().checkpoints(named(1))).map(({ number }) => number);
    expect(numbers).toHaveLength(CHECKPOINT_LIMIT + 1);
    expect([numbers[0], numbers[1], numbers.at(-1)]).toEqual([1, 11, CHECKPOINT_LIMIT + 10]);
  });

  test("a checkpoint of a driver that was fenced off is refused, and one ahead throws", async () => {
    const claim = await driven(at());
    const ahead = { ...CHECKPOINT, sequence: 1 };
    expect(await cameTo(at().checkpoint(claim, ahead))).toBe("throws");
    must(await at().claim(named(1), "two", dead, 2));
    expect(await cameTo(at().checkpoint(claim, CHECKPOINT))).toBe("fenced");
    expect(await cameTo(at().checkpoints(named(9)))).toBe("unknown_id");
  });
}

function forksGoTheirOwnWay(at: () => Store): void {
  test("a fork has all that was there at its checkpoint, and nothing that came later", async () => {
    const claim = await driven(at());
    must(await at().append(claim, entry(0, turn(1), [action(1), action(2, SAVE)])));
    must(await at().dispatch(claim, [dispatched(1), dispatched(2, 1, "")]));
    must(await at().settle(claim, [settled(2)]));
    must(await at().checkpoint(claim, { ...CHECKPOINT, sequence: 1 }));
    must(await at().append(claim, entry(1, ran(1), [action(3)])));
    must(await at().checkpoint(claim, { ...CHECKPOINT, workspace: "w2", sequence: 2 }));
    must(await at().fork(named(1), 1, fresh(2)));
    expect(must(await at().session(named(2)))).toMatchObject({
      sequence: 1,
      state: "active",
      cell: null,
      holder: null,
      title: must(await at().session(named(1))).title,
    });
    expect(must(await at().journal(named(2), 0)).map(({ event }) => event)).toEqual([turn(1)]);
    const lives = must(await at().ledger(named(2)));
    expect(lives.map(({ lines }) => lines.map(({ state }) => state).join(" "))).toEqual([
      "minted dispatched",
      "minted dispatched completed",
    ]);
    expect(must(await at().checkpoints(named(2)))).toEqual([
      { ...CHECKPOINT, number: 1, sequence: 1 },
    ]);
    const other = must(await at().claim(named(2), "two", dead, 9));
    must(await at().append(other, entry(1, ran(1), [action(3), action(4)])));
    expect(must(await at().ledger(named(1)))).toHaveLength(3);
  });

  test("a fork of what is not there is a fault, and makes nothing", async () => {
    await driven(at());
    expect(await cameTo(at().fork(named(1), 7, fresh(2)))).toBe("not_found");
    expect(await cameTo(at().fork(named(9), 1, fresh(2)))).toBe("unknown_id");
    expect(await cameTo(at().session(named(2)))).toBe("unknown_id");
  });
}
