import { openCore, type Session } from "@dev/host";
import { expect, test } from "vitest";
import { type Ran, runWithin } from "../src/deadline.ts";
import type { Instance } from "../src/instance.ts";
import { openSession } from "../src/session.ts";
import { hostConformance } from "./conformance.ts";
import { code, TIMER } from "./notation.ts";

const DEADLINE_MS = 60_000;

hostConformance("native", {
  open: () => openCore({ host: "native" }),
  trapping: () => openSession(doing(trap)),
  looping: (deadlineMs) => openSession(doing(loop, deadlineMs)),
  calling: (call) => {
    const session: Session = openSession(doing(() => call(session)));
    return session;
  },
});

test("a core that catches everything is stopped at its deadline all the same", () => {
  const stubborn = (): void => {
    for (;;) {
      try {
        loop();
      } finally {
        loop();
      }
    }
  };
  expect(code(openSession(doing(stubborn, 30)).step(TIMER))).toBe("handle");
});

test("a core whose stack overflows traps", () => {
  const deep = (): number => deep() + 1;
  const session = openSession(doing(() => deep()));
  expect(session.step(TIMER)).toMatchObject({
    ok: false,
    fault: {
      code: "panic",
      message: "the core trapped: RangeError: Maximum call stack size exceeded",
    },
  });
});

test("what a trap says is shortened, and a trap that is no error is one too", () => {
  const long = openSession(
    doing(() => {
      throw new Error("x".repeat(9999));
    }),
  ).step(TIMER);
  expect(long.ok ? 0 : long.fault.message.length).toBe("the core trapped: ".length + 500);
  const odd = openSession(
    doing(() => {
      throw undefined;
    }),
  );
  expect(odd.step(TIMER)).toMatchObject({ fault: { message: "the core trapped: undefined" } });
});

test("a call leaves nothing behind in the process", () => {
  expect(runWithin(DEADLINE_MS, () => 1)).toEqual({ kind: "done", value: 1 });
  expect(runWithin(20, loop)).toEqual({ kind: "late" });
  expect(Reflect.has(globalThis, Symbol.for("dev.host.call"))).toBe(false);
});

test("a call within a call keeps its own value and its own deadline", () => {
  const inner = (): string => {
    const late = runWithin(20, loop);
    const done = runWithin(DEADLINE_MS, () => "inner");
    return `${late.kind} ${done.kind === "done" ? done.value : done.kind}`;
  };
  expect(runWithin(DEADLINE_MS, inner)).toEqual({ kind: "done", value: "late inner" });
});

function trap(): void {
  throw new Error("a trap");
}

function loop(): void {
  for (;;);
}

/** An instance that does this whenever it is called. */
function doing(act: () => void, deadlineMs = DEADLINE_MS): Instance {
  const run = <T>(answer: T): Ran<T> =>
    runWithin(deadlineMs, () => {
      act();
      return answer;
    });
  return { step: () => run([]), snapshot: () => run(new Uint8Array()), close: () => {} };
}
