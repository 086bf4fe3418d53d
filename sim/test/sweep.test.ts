import {
  CRASH_KINDS,
  HOST_NAMES,
  parseCase,
  parseHost,
  report,
  run,
  SCENARIOS,
  sweep,
} from "@dev/sim";
import { expect, test } from "vitest";

/** Seeds for the long run, such as `SIM_SEEDS=1-3`: any three have each crash at each step of each scenario. */
const seeds = seedsOf(process.env.SIM_SEEDS);
/** Where the core runs, such as `SIM_HOST=wasm`: as the seed says, unless this does. */
const host = process.env.SIM_HOST === undefined ? null : parseHost(process.env.SIM_HOST);
const LONG_MS = 60 * 60 * 1000;

/** A run is a hundredth of a second; a machine that others use too may take ten times that. */
const SWEEP_MS = 300_000;

/** One seed for each: every eighth step, the kinds of crash by turns, and a few pairs. */
const SHARE_STRIDE = 8 * CRASH_KINDS.length + 1;
const SHARE_PAIRS = 2;
const SHARE = SCENARIOS.map(({ name }, index) => [name, 10 + index] as const);

test.each(SHARE)(
  "%s keeps every promise",
  async (scenario, seed) => {
    const [stride, pairCount] = [SHARE_STRIDE, SHARE_PAIRS];
    const swept = await sweep({ scenario, seed, kinds: CRASH_KINDS, stride, pairCount, host });
    expect(swept.failed.map(report).slice(0, 1).join("\n")).toBe("");
    expect(swept.runs.length).toBeGreaterThan(1 + SHARE_PAIRS);
  },
  SWEEP_MS,
);

test(
  "a command keeps every promise with each crash at each step",
  async () => {
    const terms = { scenario: "exec", seed: 2, kinds: CRASH_KINDS, stride: 1, pairCount: 10, host };
    const swept = await sweep(terms);
    expect(swept.failed.map(report).slice(0, 1).join("\n")).toBe("");
  },
  SWEEP_MS,
);

test("a case runs the same way every time", async () => {
  const given = parseCase("batch/5/driver@30");
  const [once, again] = [await run(given), await run(given)];
  expect(once.trace).toEqual(again.trace);
  expect(once.trace.length).toBeGreaterThan(60);
});

test("a case runs the same way on either host", async () => {
  const given = parseCase("compact-agent/6/driver@90+agent@150");
  const [one, other] = await Promise.all(
    HOST_NAMES.map(async (name) => (await run({ ...given, host: name })).trace.slice(1)),
  );
  expect(one).toEqual(other);
});

test.each(seeds)(
  "seed %i keeps every promise",
  async (seed) => {
    for (const { name } of SCENARIOS) {
      const terms = { scenario: name, seed, kinds: CRASH_KINDS, stride: 1, pairCount: 200, host };
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
