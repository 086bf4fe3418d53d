import { CRASH_KINDS, report, run, SCENARIOS, sweep } from "@dev/sim";
import { expect, test } from "vitest";

/** Seeds for the long run, such as `SIM_SEEDS=1-20`: each step of each scenario with each crash. */
const seeds = seedsOf(process.env.SIM_SEEDS);
const LONG_MS = 60 * 60 * 1000;

/** A run is a hundredth of a second; a machine that others use too may take ten times that. */
const SWEEP_MS = 120_000;

/** One seed for each: every other step, the kinds of crash by turns, and a few pairs. */
const SHARE = SCENARIOS.map(({ name }, index) => [name, 10 + index] as const);

test.each(SHARE)(
  "%s keeps every promise",
  async (scenario, seed) => {
    const stride = 2 * CRASH_KINDS.length + 1;
    const swept = await sweep({ scenario, seed, kinds: CRASH_KINDS, stride, pairCount: 5 });
    expect(swept.failed.map(report).slice(0, 1).join("\n")).toBe("");
    expect(swept.runs.length).toBeGreaterThan(CRASH_KINDS.length);
  },
  SWEEP_MS,
);

test(
  "a command keeps every promise with each crash at each step",
  async () => {
    const terms = { scenario: "exec", seed: 2, kinds: CRASH_KINDS, stride: 1, pairCount: 40 };
    const swept = await sweep(terms);
    expect(swept.failed.map(report).slice(0, 1).join("\n")).toBe("");
  },
  SWEEP_MS,
);

test("a case runs the same way every time", async () => {
  const given = { scenario: "batch", seed: 5, crashes: [{ kind: "driver", step: 30 } as const] };
  const [once, again] = [await run(given), await run(given)];
  expect(once.trace).toEqual(again.trace);
  expect(once.trace.length).toBeGreaterThan(60);
});

test.each(seeds)(
  "seed %i keeps every promise",
  async (seed) => {
    for (const { name } of SCENARIOS) {
      const terms = { scenario: name, seed, kinds: CRASH_KINDS, stride: 1, pairCount: 300 };
      const swept = await sweep(terms);
      console.log(`seed ${seed}, ${name}: ${swept.runs.length} runs`);
      expect(swept.failed.map(report).slice(0, 1).join("\n")).toBe("");
    }
  },
  LONG_MS,
);

function seedsOf(range: string | undefined): readonly number[] {
  if (range === undefined) return [];
  const [from = 1, to = from] = range.split("-").map(Number);
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
