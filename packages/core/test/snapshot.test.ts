import { readFileSync } from "node:fs";
import { create, restore, SNAPSHOT_VERSION, snapshot } from "@dev/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  had,
  limited,
  play,
  ran,
  read,
  resume,
  run,
  says,
  steer,
  turn,
} from "./notation.ts";

/** One with something in every part: two turns wait behind one with a call out and one answered. */
const FULL = play(
  limited({ resultBytes: 1000 }),
  turn(1, "naïve ✓ 🜁"),
  says(1, "yes"),
  turn(2, "begin"),
  calls(5, { kind: "plan", items: [{ text: "look", status: "active" }] }, run("ls"), read("a")),
  ran(6, "out"),
  { ...turn(4, "wait"), images: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }] },
  turn(7, "wait too"),
  steer("use tabs"),
).state;

test("a restored state is the one that was saved, to its bytes", () => {
  const text = snapshot(FULL);
  const restored = restore(text);
  expect(restored).toEqual({ ok: true, value: FULL });
  if (restored.ok) expect(snapshot(restored.value)).toBe(text);
  expect(restore(snapshot(create(CONFIG)))).toEqual({ ok: true, value: create(CONFIG) });
});

test("a snapshot says its version first", () => {
  expect(snapshot(create(CONFIG))).toMatch(new RegExp(`^\\{"version":${SNAPSHOT_VERSION},`));
});

// The file was written by the first release, and is never written again.
test("a snapshot of version 1 is read, and goes on", () => {
  const text = readFileSync(new URL("version-1.snapshot", import.meta.url), "utf8");
  const restored = restore(text);
  if (!restored.ok) throw new Error(restored.fault.message);
  // That release told a plan by its length alone, and what a model was told stays as it was told.
  const full = restore(
    snapshot(FULL).replace('"text":"[>] look"', '"text":"the plan has 1 items"'),
  );
  expect(full).toEqual(restored);
  // For as long as version 1 is the one that is written, it is written so.
  expect(snapshot(restored.value)).toBe(text);
  const told = resume(FULL, had(7, "text")).lines;
  expect(resume(restored.value, had(7, "text")).lines).toEqual(
    told.map((line) => line.replace("[>] look", "the plan has 1 items")),
  );
  expect(told.join()).toContain("[>] look");
});

test("a snapshot that does not name a limit has its default", () => {
  const restored = restore(snapshot(FULL).replace('"steers":64', '"older":1'));
  if (!restored.ok) throw new Error(restored.fault.message);
  expect(restored.value.config).toEqual(FULL.config);
});

test("a version that is newer than this release is refused", () => {
  const newer = snapshot(FULL).replace('"version":1', '"version":2');
  expect(restore(newer)).toMatchObject({ ok: false, fault: { code: "newer_version" } });
});

test.each([
  "",
  "null",
  "[]",
  "7",
  '"text"',
  "{}",
  '{"version":0}',
  '{"version":"1"}',
  '{"version":1}',
  '{"version":1,"state":null,"agent":null,"messages":[]}',
  '{"version":1,"state":{"nextAction":1},"agent":{},"messages":[]}',
  '{"version":1,"state":{"nextAction":1,"config":null},"agent":{},"messages":[]}',
])("%s is no snapshot", (text) => {
  expect(restore(text)).toMatchObject({ ok: false, fault: { code: "malformed" } });
});

test("a snapshot that was cut anywhere is refused", () => {
  const text = snapshot(FULL);
  fc.assert(
    fc.property(fc.nat({ max: text.length - 1 }), (length) => {
      expect(restore(text.slice(0, length)).ok).toBe(false);
    }),
  );
});
