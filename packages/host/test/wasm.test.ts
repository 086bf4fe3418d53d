import { CALL_DEADLINE_MS, openCore, type Session } from "@dev/host";
import { expect, test } from "vitest";
import { coreOf } from "../src/core.ts";
import type { Instance } from "../src/instance.ts";
import { openSession } from "../src/session.ts";
import { openWasm } from "../src/wasm.ts";
import { hostConformance } from "./conformance.ts";
import { CONFIG, code, TIMER, turn, value, WORK, work } from "./notation.ts";
import { sealCore, sealPlanted } from "./sealing.ts";

sealCore();
const PLANTED = sealPlanted();
const DEADLINE_MS = CALL_DEADLINE_MS;

hostConformance("wasm", {
  open: () => openCore({ host: "wasm" }),
  trapping: () => planted("trap"),
  looping: (deadlineMs) => planted("loop", deadlineMs),
  calling: (call) => {
    const core = openWasm(DEADLINE_MS, 9);
    const inner = core.create(CONFIG);
    const calling: Instance = {
      ...inner,
      step: (event) => {
        call(session);
        return inner.step(event);
      },
      snapshot: () => {
        call(session);
        return inner.snapshot();
      },
    };
    const session = openSession(calling);
    return session;
  },
});

/** A session that does this wrong whenever it is called. */
function planted(prelude: string, deadlineMs = DEADLINE_MS): Session {
  return coreOf(openWasm(deadlineMs, 9, PLANTED)).create({ ...CONFIG, prelude });
}

const LATE = ["handle", "a call was stopped at its deadline"] as const;
const OUT_OF_MEMORY = ["panic", "the core trapped: InternalError: out of memory"] as const;
const OVERFLOW = [
  "panic",
  "the core trapped: RangeError: Maximum call stack size exceeded",
] as const;

test.each([
  ["trap", "panic", "the core trapped: Error: a trap"],
  ["loop", ...LATE],
  ["catch everything", ...LATE],
  ["search", ...LATE],
  ["match", ...LATE],
  ["scan", ...LATE],
  ["sort", ...LATE],
  ["copy", ...LATE],
  ["hog", ...OUT_OF_MEMORY],
  ["hog at once", ...OUT_OF_MEMORY],
  ["hog in small parts", ...OUT_OF_MEMORY],
  ["recurse", ...OVERFLOW],
  ["recurse in the engine", ...OVERFLOW],
])("a core that does this: %s, answers %s, and another goes on", (plant, fault, message) => {
  const core = coreOf(openWasm(plant.startsWith("hog") ? DEADLINE_MS : 200, 9, PLANTED));
  const session = core.create(CONFIG);
  const other = core.create(CONFIG);
  work(other, WORK.slice(0, 3));
  value(session.step(turn(1)));
  const stepped = session.step({ kind: "steer", text: plant });
  expect(stepped).toMatchObject({ ok: false, fault: { code: fault, message } });
  expect(code(session.step(TIMER))).toBe(fault === "panic" ? "poison" : "handle");
  expect(work(other, WORK.slice(3)).length).toBeGreaterThan(0);
  core.close();
});

test("a call that does not end is stopped at the deadline that there is without another", () => {
  const session = coreOf(openWasm(CALL_DEADLINE_MS, 9, PLANTED)).create(CONFIG);
  expect(code(session.step({ kind: "steer", text: "loop" }))).toBe("handle");
});

test("a deadline stops the same call on every run", () => {
  const stopped = () => {
    const core = coreOf(openWasm(1, 9));
    const session = core.create(CONFIG);
    const codes: string[] = [];
    for (let id = 1; codes.at(-1) !== "handle"; id++) {
      codes.push(code(session.step(turn(id, "x".repeat(id * 100)))));
    }
    return codes.length;
  };
  const first = stopped();
  expect(first).toBeGreaterThan(2);
  expect([stopped(), stopped()]).toEqual([first, first]);
});

test.each([0, -1, Number.NaN])("a number of instances that is %d is a RangeError", (liveLimit) => {
  expect(() => openCore({ host: "wasm", liveLimit })).toThrow(RangeError);
});
