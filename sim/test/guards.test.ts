import {
  type CrashKind,
  type Mutant,
  type Promised,
  type Ran,
  report,
  type Swept,
  sweep,
} from "@dev/sim";
import { expect, test } from "vitest";
import {
  ACKNOWLEDGES_EARLY,
  BOTH_FORGET,
  DISK_LIES,
  DISPATCHES_LATE,
  FORGETS_RESULTS,
  INVENTS,
  LEDGER_FORGETS,
  SPOOL_FORGETS,
  SPOOL_POSES,
  withoutFence,
} from "./mutants.ts";

/** A command, and every crash of these kinds, one at a time; with an even seed the agent ends with its link. */
function crashed(seed: number, mutant: Mutant, ...kinds: readonly CrashKind[]): Promise<Swept> {
  return sweep({ scenario: "exec", seed, kinds, stride: 1, pairCount: 0 }, mutant);
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
    const again = swept.runs.filter(({ world }) => world.askedAgain.size > 0);
    expect(again.length).toBeGreaterThan(0);
  },
);

test.each([4, 5])(
  "with the spool's memory gone, the ledger alone lets none, at the price of unknown",
  async (seed) => {
    const swept = await crashed(seed, SPOOL_FORGETS, "driver", "agent", "link");
    expect(first(swept.failed)).toBe("");
    const unknown = swept.runs.filter(({ world }) => world.unknownCount > 0);
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
