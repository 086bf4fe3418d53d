import type { Script } from "@dev/model/scripted";
import { fail, fault } from "@dev/protocol";
import type { Settled, Store } from "@dev/store";
import { expect, test } from "vitest";
import { until } from "./support/crash-process.ts";
import { checkPrefixes, say, spawn, to, toldIn } from "./support/script.ts";
import { NOBODY_STOPS, openRoom, prompt, type Room, value } from "./support/session.ts";

const PLAN = ["plan", { items: [{ text: "one", status: "active" }] }] as const;
const ASK = (text: string) => ["question", { text }] as const;

async function inRoom(script: Script, check: (room: Room) => Promise<void>): Promise<void> {
  const room = await openRoom(script);
  try {
    await check(room);
    expect(room.model.errors).toEqual([]);
    checkPrefixes(room.model.requests);
  } finally {
    await room.close();
  }
}

/** The lines of each action of this kind, in the ledger. */
async function livesOf(room: Room, kind: string): Promise<readonly (readonly string[])[]> {
  const entries = (await room.ledger()).filter(({ action }) => action.op.kind === kind);
  return entries.map(({ lines }) => lines.map(({ state, detail }) => `${state} ${detail}`.trim()));
}

const usersOf = (room: Room): readonly (string | undefined)[] =>
  room.model.requests
    .at(-1)
    ?.messages.filter(({ role }) => role === "user")
    .map(({ content }) => content) ?? [];

test("a steer is put in front of the model at its next call, in the turn that is in flight", () =>
  inRoom([{ ...say("", PLAN), gate: "first" }, say("done")], async (room) => {
    const driver = await room.open();
    const run = driver.run(prompt("do it"), NOBODY_STOPS);
    await room.model.request(1);
    value(await driver.steer("with care"));
    room.model.release("first");
    expect(value(await run)).toMatchObject({ turn: 1, outcome: "complete", message: "done" });
    expect(usersOf(room)).toEqual(["do it", "with care"]);
    await driver.close();
  }));

test("one that comes when nothing runs waits for the next prompt, and is then in front of the model", () =>
  inRoom([say("ok"), say("done")], async (room) => {
    const driver = await room.open();
    value(await driver.run(prompt("do it"), NOBODY_STOPS));
    const steered = driver.steer("with care");
    value(await driver.run(prompt("more"), NOBODY_STOPS));
    value(await steered);
    expect(usersOf(room)).toEqual(["do it", "more", "with care"]);
    await driver.close();
  }));

test("one that no driver took is not there afterwards, and whoever sent it is told", () =>
  inRoom([say("ok")], async (room) => {
    const driver = await room.open();
    const early = driver.steer("too early");
    await driver.close();
    expect(await early).toMatchObject({ ok: false, fault: { code: "unavailable" } });
    expect(await driver.steer("too late")).toMatchObject({ fault: { code: "unavailable" } });
    const next = await room.open();
    value(await next.run(prompt("do it"), NOBODY_STOPS));
    expect(usersOf(room)).toEqual(["do it"]);
    const long = await next.steer("x".repeat(1024 * 1024 + 1));
    expect(long).toMatchObject({ ok: false, fault: { code: "too_large" } });
    await next.close();
  }));

test("one that was durable before a crash is there once after it", () =>
  inRoom([{ ...say("", PLAN), gate: "never" }, say("", PLAN), say("done")], async (room) => {
    const driver = await room.open();
    void driver.run(prompt("do it"), NOBODY_STOPS);
    await room.model.request(1);
    value(await driver.steer("with care"));
    await driver.close();
    const next = await room.open();
    expect(value(await next.run(null, NOBODY_STOPS))).toMatchObject({ message: "done" });
    expect(usersOf(room)).toEqual(["do it", "with care"]);
    await next.close();
  }));

test("a steer answers the questions that are open, of every agent, and nobody is asked any more", () =>
  inRoom(
    [
      say("", ASK("red?"), spawn("Task one")),
      to("Task one", "", ASK("blue?"), ASK("green?")),
      { ...to("Task one", "I am told"), expect: ["as you like"] },
      { ...say("done"), expect: ["as you like", "I am told"] },
    ],
    async (room) => {
      const driver = await room.open();
      const run = driver.run(prompt("do it"), NOBODY_STOPS);
      await until("three questions are open", () => room.asked.length === 3);
      value(await driver.steer("as you like"));
      expect(value(await run)).toMatchObject({ outcome: "complete", message: "done" });
      expect(await Promise.all(room.asked.map(({ ended }) => ended))).toEqual([null, null, null]);
      expect(usersOf(room)).toEqual(["do it"]);
      expect(toldIn(room, "Task one")).toEqual(["as you like", "as you like"]);
      const life = ["minted", "dispatched", "completed answered by a message: as you like"];
      expect(await livesOf(room, "question")).toEqual([life, life, life]);
      const overtaken = room.told.filter(({ kind }) => kind === "overtaken");
      expect(overtaken).toHaveLength(3);
      await driver.close();
    },
  ));

test("an answer that comes at the same moment as a message is not a second one", () =>
  inRoom([say("", ASK("red?")), { ...say("done"), expect: ["by steer"] }], async (room) => {
    const driver = await room.open();
    const run = driver.run(prompt("do it"), NOBODY_STOPS);
    await until("it asks", () => room.asked.length === 1);
    const steered = driver.steer("by steer");
    room.asked[0]?.answer({ text: "by reply", choices: [] });
    value(await steered);
    expect(value(await run)).toMatchObject({ message: "done" });
    expect(await livesOf(room, "question")).toEqual([
      ["minted", "dispatched", "completed answered by a message: by steer"],
    ]);
    await driver.close();
  }));

test("a question answered by a message is not asked again after a crash before its line was written", () =>
  inRoom([say("", ASK("red?")), { ...say("done"), expect: ["as you like"] }], async (room) => {
    const isAnswer = ({ detail }: Settled): boolean => detail.startsWith("answered by a message");
    const driver = await room.open({ store: failing(room.store, isAnswer) });
    const run = driver.run(prompt("do it"), NOBODY_STOPS);
    await until("it asks", () => room.asked.length === 1);
    const steered = await driver.steer("as you like");
    expect(steered).toMatchObject({ ok: false, fault: { code: "io" } });
    expect(await run).toMatchObject({ ok: false, fault: { code: "io" } });
    await driver.close();
    expect((await livesOf(room, "question"))[0]).toEqual(["minted", "dispatched"]);
    const next = await room.open();
    expect(value(await next.run(null, NOBODY_STOPS))).toMatchObject({ message: "done" });
    expect(room.asked).toHaveLength(1);
    expect((await livesOf(room, "question"))[0]?.at(-1)).toContain("answered by a message");
    await next.close();
  }));

/** A store that cannot write these ends. */
function failing(store: Store, isIt: (settled: Settled) => boolean): Store {
  const down = fail(fault("io", "the disk is full"));
  const settle: Store["settle"] = (claim, settled) =>
    settled.some(isIt) ? Promise.resolve(down) : store.settle(claim, settled);
  return new Proxy(store, {
    get: (target, name) => (name === "settle" ? settle : Reflect.get(target, name).bind(target)),
  });
}
