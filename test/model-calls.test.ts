import { DEFAULT_LIMITS } from "@dev/core";
import { expect, test } from "vitest";
import { say, spawn, to } from "./support/script.ts";
import { NOBODY_STOPS, openRoom, prompt, value } from "./support/session.ts";

/** Model calls of one session at a time. */
const AT_ONCE = 8;
const AGENT_COUNT = 12;

test("of many agents so many models are asked at a time, and the others when there is a place", async () => {
  const names = Array.from(
    { length: AGENT_COUNT },
    (_, at) => `Task ${String.fromCharCode(65 + at)}`,
  );
  const room = await openRoom(
    [
      say("", ...names.map((name) => spawn(name))),
      ...names.map((name) => ({ ...to(name, `${name} is done`), gate: name })),
      say("done"),
    ],
    { ...DEFAULT_LIMITS, agentCount: AGENT_COUNT },
  );
  try {
    const driver = await room.open();
    const run = driver.run(prompt("do it"), NOBODY_STOPS);
    await room.model.request(1 + AT_ONCE);
    const begunCount = (): number => room.told.filter(({ kind }) => kind === "started").length;
    expect(room.told.filter(({ kind }) => kind === "agent_started")).toHaveLength(AGENT_COUNT);
    expect(begunCount()).toBe(1 + AT_ONCE);
    room.model.release("Task C");
    await room.model.request(2 + AT_ONCE);
    expect(begunCount()).toBe(2 + AT_ONCE);
    for (const name of names) room.model.release(name);
    expect(value(await run)).toMatchObject({ outcome: "complete", message: "done" });
    const told = room.model.requests.at(-1)?.messages.slice(-AGENT_COUNT) ?? [];
    expect(told.map(({ content }) => content)).toEqual(names.map((name) => `${name} is done`));
    await driver.close();
    expect(room.model.errors).toEqual([]);
  } finally {
    await room.close();
  }
});
