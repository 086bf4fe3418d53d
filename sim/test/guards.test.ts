import {
  type CrashKind,
  type Mutant,
  type Promised,
  parseCase,
  type Ran,
  report,
  run,
  type Swept,
  sweep,
} from "@dev/sim";
import { expect, test, vi } from "vitest";
import {
  ACKNOWLEDGES_EARLY,
  ANSWERS_TWICE,
  BOTH_FORGET,
  DISK_LIES,
  DISPATCHES_LATE,
  FORGETS_AGENTS,
  FORGETS_RESULTS,
  INVENTS,
  LEDGER_FORGETS,
  SPOOL_FORGETS,
  SPOOL_POSES,
  withoutFence,
} from "./mutants.ts";
import {
  ARMS_AGENTS,
  COUNTS_BADLY,
  FORGETS_PLAN,
  FORGETS_TAIL,
  SAYS_ANSWER,
  SAYS_NOTHING,
  SAYS_TWICE,
  TELLS_NOTHING,
} from "./wrong-cores.ts";

/** A run is a hundredth of a second; a machine that others use too may take a hundred times that. */
vi.setConfig({ testTimeout: 120_000 });

/** A command, and every crash of these kinds, one at a time; with an even seed the agent ends with its link. */
function crashed(seed: number, mutant: Mutant, ...kinds: readonly CrashKind[]): Promise<Swept> {
  return sweep({ scenario: "exec", seed, kinds, stride: 1, pairCount: 0, host: null }, mutant);
}

function breaching(swept: Swept, promise: Promised): readonly Ran[] {
  return swept.failed.filter((ran) => ran.breaches.some((breach) => breach.promise === promise));
}

function first(runs: readonly Ran[]): string {
  const [ran] = runs;
  return ran === undefined ? "" : report(ran);
}

test.each([4, 5])(
  "with the ledger's memory gone, the spool alone lets no effect happen twice",
  async (seed) => {
    const swept = await crashed(seed, LEDGER_FORGETS, "driver");
    expect(first(breaching(swept, "doubled"))).toBe("");
    const again = swept.runs.filter(({ askedAgainCount }) => askedAgainCount > 0);
    expect(again.length).toBeGreaterThan(0);
  },
);

test.each([4, 5])(
  "with the spool's memory gone, the ledger alone lets none, at the price of unknown",
  async (seed) => {
    const swept = await crashed(seed, SPOOL_FORGETS, "driver", "agent", "link");
    expect(first(swept.failed)).toBe("");
    const unknown = swept.runs.filter(({ unknownCount }) => unknownCount > 0);
    expect(unknown.length).toBeGreaterThan(0);
  },
);

test("with both gone, the simulator finds an effect that happens twice", async () => {
  const swept = await crashed(4, BOTH_FORGET, "driver");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test("a spool that poses as the one before it is found by an effect that happens twice", async () => {
  const swept = await crashed(4, SPOOL_POSES, "agent");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test("a disk that only says that it has synced is found by an effect that happens twice", async () => {
  const swept = await crashed(4, DISK_LIES, "agent");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test.each<[string, Mutant, CrashKind, Promised]>([
  ["a dispatch that is written late", DISPATCHES_LATE, "driver", "undispatched"],
  ["an acknowledgement before the append", ACKNOWLEDGES_EARLY, "driver", "lost"],
  ["writes without a fence", withoutFence(), "split", "trouble"],
  ["an unknown outcome that is made good", INVENTS, "agent", "invented"],
  ["a conversation without its results", FORGETS_RESULTS, "driver", "conversation"],
])("%s is found", async (_name, mutant, kind, promise) => {
  const swept = await crashed(4, mutant, kind);
  expect(breaching(swept, promise).length).toBeGreaterThan(0);
});

/** Each is found by a run in which nothing else goes wrong, but for one that only a restart shows. */
test.each<[string, Mutant, string, Promised]>([
  ["a summary after which something is missing", FORGETS_TAIL, "compact/4/", "conversation"],
  ["a summary without the plan", FORGETS_PLAN, "overflow/4/", "conversation"],
  ["a message in between that is told twice", SAYS_TWICE, "steer-exec/4/", "said"],
  ["a message in between that is told to nobody", SAYS_NOTHING, "steer-model/4/", "said"],
  ["an answer that is taken twice", ANSWERS_TWICE, "questions/4/", "trouble"],
  ["an answer that is a message too", SAYS_ANSWER, "steer-question/4/", "said"],
  ["a result that says nothing of what was done", TELLS_NOTHING, "agents/4/", "conversation"],
  [
    "a sub-agent's result that a restart loses",
    FORGETS_AGENTS,
    "agents/4/driver@170",
    "conversation",
  ],
  ["a sub-agent with a tool of its own", ARMS_AGENTS, "agent/4/", "limit"],
  ["one model call too many", COUNTS_BADLY, "limit-calls/4/", "limit"],
])("%s is found", async (_name, mutant, given, promise) => {
  const right = await run(parseCase(given));
  expect(right.breaches).toEqual([]);
  const wrong = await run(parseCase(given), mutant);
  expect(wrong.breaches.map((breach) => breach.promise)).toContain(promise);
});
