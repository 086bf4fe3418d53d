import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Action,
  actionFromJson,
  decodeAction,
  decodeEvent,
  EVENT_LIMIT_BYTES,
  type Event,
  encodeAction,
  encodeEvent,
  eventFromJson,
  FRAME_LIMIT_BYTES,
} from "../src/index.ts";
import { action, event } from "./arbitrary.ts";
import { EVENTS } from "./sample.ts";

test("every event comes back from its bytes as it was", () => {
  fc.assert(
    fc.property(event, (value) => {
      expect(decodeEvent(encodeEvent(value))).toStrictEqual({ ok: true, value });
    }),
    { numRuns: 1000 },
  );
});

test("every action comes back from its bytes as it was", () => {
  fc.assert(
    fc.property(action, (value) => {
      expect(decodeAction(encodeAction(value))).toStrictEqual({ ok: true, value });
    }),
    { numRuns: 1000 },
  );
});

test("every event and action comes back from JSON as it was", () => {
  fc.assert(
    fc.property(event, action, (told, asked) => {
      const events = JSON.parse(JSON.stringify(told)) as unknown;
      const actions = JSON.parse(JSON.stringify(asked)) as unknown;
      expect(eventFromJson(events)).toStrictEqual({ ok: true, value: told });
      expect(actionFromJson(actions)).toStrictEqual({ ok: true, value: asked });
    }),
    { numRuns: 500 },
  );
});

test("a message owns its bytes: the next one does not change them", () => {
  fc.assert(
    fc.property(event, event, (first, second) => {
      const bytes = encodeEvent(first);
      const before = bytes.slice();
      encodeEvent(second);
      expect(bytes).toStrictEqual(before);
    }),
  );
});

test("a message is read the same from anywhere in a buffer, and the bytes behind it are left out", () => {
  fc.assert(
    fc.property(event, fc.nat({ max: 9 }), fc.nat({ max: 9 }), (value, before, after) => {
      const bytes = encodeEvent(value);
      const buffer = new Uint8Array(before + bytes.byteLength + after).fill(0xff);
      buffer.set(bytes, before);
      expect(decodeEvent(buffer.subarray(before))).toStrictEqual({ ok: true, value });
    }),
  );
});

test("texts of every size and width come back, above and below what the encoder keeps", () => {
  for (const unit of ["a", "é", "✓", "🜁"]) {
    for (const length of [1, 15, 16, 17, 4000, 4096, 5000, 400_000, 1_200_000]) {
      const value: Event = { kind: "steer", text: unit.repeat(length) };
      const read = decodeEvent(encodeEvent(value));
      expect(read.ok && read.value.kind === "steer" && read.value.text === value.text).toBe(true);
    }
  }
});

test("an event above its limit is too large, and the fault names the limit", () => {
  const bytes = encodeEvent({ kind: "steer", text: "x".repeat(EVENT_LIMIT_BYTES) });
  const read = decodeEvent(bytes);
  expect(read.ok ? "read" : read.fault.code).toBe("too_large");
  expect(read.ok ? "" : read.fault.message).toContain("EVENT_LIMIT_BYTES");
});

test("an action above its limit is too large, and the fault names the limit", () => {
  const read = decodeAction(new Uint8Array(FRAME_LIMIT_BYTES + 1));
  expect(read.ok ? "read" : read.fault.code).toBe("too_large");
  expect(read.ok ? "" : read.fault.message).toContain("FRAME_LIMIT_BYTES");
});

test("an event that says nothing but its kind takes 17 bytes", () => {
  expect(encodeEvent({ kind: "timer" }).byteLength).toBe(17);
});

test("a number that the wire cannot carry is a bug, and throws with the field's name", () => {
  for (const afterMs of [-1, 0.5, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => encodeEvent(timedOut(afterMs))).toThrow(/afterMs cannot be/);
  }
  // The encoder is whole afterwards.
  const value = timedOut(2 ** 53 - 1);
  expect(decodeEvent(encodeEvent(value))).toStrictEqual({ ok: true, value });
});

test("a kind, a code or a digest that its type does not have is a bug, and throws", () => {
  const broken: readonly unknown[] = [
    { kind: "tick" },
    { kind: "turn", id: 1, prompt: "", images: [], mode: "god" },
    { kind: "cancel" },
  ];
  for (const value of broken) expect(() => encodeEvent(value as Event)).toThrow();
  const op = { kind: "write", path: "a", text: "", expect: "ABCD" };
  expect(() => encodeAction({ id: 1, agent: 0, turn: 1, op } as unknown as Action)).toThrow(
    /expect is no digest/,
  );
});

test("half of a surrogate pair has no UTF-8, and is written as U+FFFD", () => {
  const read = decodeEvent(encodeEvent({ kind: "steer", text: "a\ud83d" }));
  expect(read).toStrictEqual({ ok: true, value: { kind: "steer", text: "a\ufffd" } });
});

test("the samples are valid values of the types that they stand for", () => {
  for (const value of Object.values(EVENTS).flat()) expect(eventFromJson(value).ok).toBe(true);
});

function timedOut(afterMs: number): Event {
  const [ended] = EVENTS.exec;
  if (
    ended?.kind !== "exec" ||
    ended.outcome.kind !== "ok" ||
    ended.outcome.result.kind !== "exec"
  ) {
    throw new Error("the first sample is an exec that was ok");
  }
  const result = { ...ended.outcome.result, end: { kind: "timeout" as const, afterMs } };
  return { ...ended, outcome: { kind: "ok", result } };
}
