import { openCore, type Session } from "@dev/host";
import { expect, test } from "vitest";
import { coreOf } from "../src/core.ts";
import { openWasm } from "../src/wasm.ts";
import { CONFIG, code, says, TIMER, turn, value, WORK, work } from "./notation.ts";
import { sealCore, sealPlanted } from "./sealing.ts";

sealCore();
const PLANTED = sealPlanted();
/** An instance is made in a third of a millisecond, or in several on a machine that is busy. */
const LONG_MS = 300_000;
const MIB = 1024 * 1024;

test("sessions that take turns for few instances do as if each had its own", () => {
  const few = openCore({ host: "wasm", liveLimit: 2 });
  const alone = openCore({ host: "native" });
  const sessions = Array.from({ length: 7 }, () => [few.create(CONFIG), alone.create(CONFIG)]);
  for (const event of WORK) {
    for (const [session, other] of sessions as [Session, Session][]) {
      expect(value(session.step(event))).toEqual(value(other.step(event)));
    }
  }
  for (const [session, other] of sessions as [Session, Session][]) {
    expect(value(session.snapshot())).toEqual(value(other.snapshot()));
  }
  few.close();
  expect(code(sessions[0]?.[0]?.step(TIMER) ?? { ok: true, value: 0 })).toBe("handle");
});

test("a session that traps as it leaves its instance, or gets another, has ended alone", () => {
  const core = coreOf(openWasm(5000, 1, PLANTED));
  const leaving = core.create({ ...CONFIG, prelude: "trap" });
  const coming = core.create({ ...CONFIG, prelude: "trap at restore" });
  const other = core.create(CONFIG);
  expect([code(leaving.step(TIMER)), code(leaving.step(TIMER))]).toEqual(["panic", "poison"]);
  expect([code(coming.step(TIMER)), code(coming.snapshot())]).toEqual(["panic", "poison"]);
  expect(work(other, WORK).length).toBeGreaterThan(9);
  core.close();
});

test(
  "thousands of sessions are open at once, in the memory of those that have an instance",
  () => {
    const core = openCore({ host: "wasm", liveLimit: 16 });
    const beforeBytes = process.memoryUsage().rss;
    const sessions = Array.from({ length: 3000 }, () => core.create(CONFIG));
    const grownBytes = process.memoryUsage().rss - beforeBytes;
    // With an instance each they would take more than a gigabyte.
    expect(grownBytes).toBeLessThan(600 * MIB);
    for (const session of sessions.slice(0, 20)) {
      expect(work(session, [turn(1, "hello"), says(1, "hi")])).toHaveLength(4);
    }
    core.close();
  },
  LONG_MS,
);

test(
  "20,000 sessions open and close, and the process does not grow",
  () => {
    const core = openCore({ host: "wasm" });
    let settledBytes = 0;
    let mostBytes = 0;
    for (let count = 0; count < 20_000; count++) {
      const session = core.create(CONFIG);
      if (count % 10 === 0) value(session.step(turn(1, "hello")));
      session.close();
      if (count % 500 !== 0) continue;
      const { rss } = process.memoryUsage();
      if (count <= 5000) settledBytes = Math.max(settledBytes, rss);
      mostBytes = Math.max(mostBytes, rss);
    }
    expect(mostBytes - settledBytes).toBeLessThan(300 * MIB);
    core.close();
  },
  LONG_MS,
);
