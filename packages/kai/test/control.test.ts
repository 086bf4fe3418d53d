import fc from "fast-check";
import { expect, test } from "vitest";
import type { Candidate } from "../src/candidate.ts";
import { CONTROL_LIMITS, chanceOf } from "../src/control.ts";
import type { Source } from "../src/syntax/source.ts";
import type { Trial, Trials } from "../src/trial/trial.ts";

const NEVER = new AbortController().signal;
const TEXT = "a - b\n";
const SOURCES = [{ file: "a.js", text: TEXT } as Source];
const fix = (text: string): Candidate => ({
  edits: [{ file: "a.js", from: 2, to: 3, text }],
  operator: "test",
  site: { file: "a.js", line: 1, function: null },
  weight: 1,
});
const SURE = { endlessMs: null, isSuspect: false };
const FIXES = [fix("+"), fix("*")];

/** Trials in which what is said of the unchanged text, and of a change, comes from here. */
function trials(
  said: (isSame: boolean) => Trial["kind"],
  { name = "warm", baseMs = 10 } = {},
): Trials & { readonly counts: { same: number; changed: number } } {
  const counts = { same: 0, changed: 0 };
  return {
    name,
    baseMs,
    slotCount: 1,
    depth: 1,
    isSteady: false,
    cover: null,
    counts,
    try: async (candidate) => {
      const isSame = candidate.edits[0]?.text === TEXT;
      counts[isSame ? "same" : "changed"] += 1;
      const kind = said(isSame);
      if (kind === "failed") return { kind, failedTests: [], durationMs: 1 };
      return kind === "timeout" ? { kind, had: "whole", durationMs: 1 } : { kind, durationMs: 1 };
    },
    close: async () => {},
  };
}

test("a tree that always fails, and a change that always passes, are no chance", async () => {
  const sure = trials((isSame) => (isSame ? "failed" : "passed"));
  expect(await chanceOf(FIXES, SOURCES, sure, SURE, NEVER)).toBeNull();
  const { mostCount } = CONTROL_LIMITS;
  expect(sure.counts).toEqual({ same: mostCount, changed: mostCount });
});

test("a tree that passes once with nothing changed is flaky", async () => {
  let count = 0;
  const flaky = trials((isSame) => (isSame && ++count < 3 ? "failed" : "passed"));
  expect(await chanceOf(FIXES, SOURCES, flaky, SURE, NEVER)).toContain(
    "passed with nothing changed",
  );
});

test("a change that fails once it has passed is flaky, and one that is late is not", async () => {
  const fickle = trials(() => "failed");
  expect(await chanceOf(FIXES, SOURCES, fickle, SURE, NEVER)).toContain("then failed");
  const late = trials((isSame) => (isSame ? "failed" : "timeout"));
  expect(await chanceOf(FIXES, SOURCES, late, SURE, NEVER)).toBeNull();
});

test("where a try costs as much as the command, there are as few as are needed", async () => {
  const cold = trials((isSame) => (isSame ? "failed" : "passed"), { name: "cold", baseMs: 2_000 });
  expect(await chanceOf(FIXES, SOURCES, cold, SURE, NEVER)).toBeNull();
  expect(cold.counts).toEqual({ same: 1, changed: 1 });
  const slow = trials((isSame) => (isSame ? "failed" : "passed"), { baseMs: 2_000 });
  await chanceOf(FIXES, SOURCES, slow, SURE, NEVER);
  expect(slow.counts).toEqual({ same: 2, changed: 2 });
});

test("a command that starts anew is asked as often as that is cheap, and often where it is suspect", async () => {
  const { mostCount } = CONTROL_LIMITS;
  const sure = (isSame: boolean) => (isSame ? "failed" : "passed");
  const cheap = trials(sure, { name: "cold", baseMs: 400 });
  await chanceOf(FIXES, SOURCES, cheap, SURE, NEVER);
  expect(cheap.counts).toEqual({ same: 3, changed: 3 });
  const suspect = trials(sure, { name: "cold", baseMs: 2_000 });
  await chanceOf(FIXES, SOURCES, suspect, { ...SURE, isSuspect: true }, NEVER);
  expect(suspect.counts).toEqual({ same: mostCount, changed: mostCount });
});

test("what did not end once, and ends with nothing changed, is flaky", async () => {
  const endless = { endlessMs: 200, isSuspect: false };
  const hanging = trials((isSame) => (isSame ? "timeout" : "passed"));
  expect(await chanceOf(FIXES, SOURCES, hanging, endless, NEVER)).toBeNull();
  const flaky = trials(() => "passed");
  expect(await chanceOf(FIXES, SOURCES, flaky, endless, NEVER)).toContain("nothing changed");
  const fickle = trials(() => "timeout");
  expect(await chanceOf(FIXES, SOURCES, fickle, endless, NEVER)).toContain("nothing changed");
});

test("of tests that pass by chance, however often, few are believed", async () => {
  await fc.assert(
    fc.asyncProperty(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(), async (share, seed) => {
      let state = seed;
      const random = (): number => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return state / 2 ** 32;
      };
      let believedCount = 0;
      const tries = 200;
      for (let at = 0; at < tries; at += 1) {
        const chance = trials(() => (random() < share ? "passed" : "failed"));
        if ((await chanceOf(FIXES, SOURCES, chance, SURE, NEVER)) === null) believedCount += 1;
      }
      // At most 4 to the minus 5 of them, for any share.
      expect(believedCount).toBeLessThanOrEqual(tries * 0.03);
    }),
    { numRuns: 50 },
  );
});
