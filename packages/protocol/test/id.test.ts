import fc from "fast-check";
import { expect, test } from "vitest";
import {
  actionId,
  agentId,
  cellId,
  parseCellId,
  parseDigest,
  parseSessionId,
  sessionId,
  turnId,
} from "../src/index.ts";

const time = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const chance = fc.uint8Array({ minLength: 10, maxLength: 10 });

test("every session and cell id that is made is read, and not as the other", () => {
  fc.assert(
    fc.property(time, chance, (nowMs, random) => {
      const session = sessionId(nowMs, random);
      const cell = cellId(nowMs, random);
      expect(parseSessionId(session)).toEqual({ ok: true, value: session });
      expect(parseCellId(cell)).toEqual({ ok: true, value: cell });
      expect(parseSessionId(cell).ok).toBe(false);
      expect(parseCellId(session).ok).toBe(false);
    }),
  );
});

test("ids sort by their time, and then by chance", () => {
  fc.assert(
    fc.property(time, time, chance, chance, (one, other, first, second) => {
      const order = one - other || Buffer.compare(first, second);
      const a = sessionId(one, first);
      const b = sessionId(other, second);
      expect(Math.sign(Number(a > b) - Number(a < b))).toBe(Math.sign(order));
    }),
  );
});

test("an id keeps every bit of its time and of its chance", () => {
  const random = new Uint8Array(10);
  const ids = new Set([sessionId(0, random)]);
  for (let bit = 0; bit < 48; bit++) ids.add(sessionId(2 ** bit, random));
  for (let bit = 0; bit < 80; bit++) {
    const flipped = new Uint8Array(10);
    flipped[bit >> 3] = 1 << (bit & 7);
    ids.add(sessionId(0, flipped));
  }
  expect(ids.size).toBe(1 + 48 + 80);
});

test("a text that is not an id is refused", () => {
  const id = sessionId(1_700_000_000_000, new Uint8Array(10).fill(0xa5));
  const bad = ["", "s_", id.slice(1), `${id}0`, id.toUpperCase(), `${id.slice(0, -1)}l`, `${id}\n`];
  for (const text of bad) {
    const read = parseSessionId(text);
    expect(read.ok ? "read" : read.fault.code).toBe("usage");
  }
});

test("a numeric id is whole, not negative and below 2^53", () => {
  for (const make of [turnId, actionId, agentId]) {
    expect(make(0)).toBe(0);
    expect(make(2 ** 53 - 1)).toBe(2 ** 53 - 1);
    for (const value of [-1, 0.5, 2 ** 53, Number.NaN]) expect(() => make(value)).toThrow();
  }
});

test("a digest is 64 hexadecimal digits, in lower case", () => {
  expect(parseDigest("0a".repeat(32)).ok).toBe(true);
  for (const text of ["", "0a".repeat(31), "0A".repeat(32), `${"0a".repeat(32)}\n`]) {
    expect(parseDigest(text).ok).toBe(false);
  }
});
