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

/** Every crash of these kinds in a scenario, one at a time. */
function crashed(scenario: string, mutant: Mutant, ...kinds: readonly CrashKind[]): Promise<Swept> {
  return sweep({ scenario, seed: 4, kinds, stride: 1, pairCount: 0 }, mutant);
}

function breaching(swept: Swept, promise: Promised): readonly Ran[] {
  return swept.failed.filter((ran) => ran.breaches.some((breach) => breach.promise === promise));
}

function first(runs: readonly Ran[]): string {
  const [ran] = runs;
  return ran === undefined ? "" : report(ran);
}

test("with the ledger's memory gone, the spool alone lets no effect happen twice", async () => {
  const swept = await crashed("exec", LEDGER_FORGETS, "driver");
  expect(first(breaching(swept, "doubled"))).toBe("");
  const again = swept.runs.filter(({ world }) => world.askedAgain.size > 0);
  expect(again.length).toBeGreaterThan(0);
});

test("with the spool's memory gone, the ledger alone lets none, at the price of unknown", async () => {
  const swept = await crashed("exec", SPOOL_FORGETS, "driver", "agent", "link");
  expect(first(swept.failed)).toBe("");
  const unknown = swept.runs.filter(({ world }) => world.unknownCount > 0);
  expect(unknown.length).toBeGreaterThan(0);
});

test("with both gone, the simulator finds an effect that happens twice", async () => {
  const swept = await crashed("exec", BOTH_FORGET, "driver");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test("a spool that poses as the one before it is found by an effect that happens twice", async () => {
  const swept = await crashed("exec", SPOOL_POSES, "agent");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test("a disk that only says that it has synced is found by an effect that happens twice", async () => {
  const swept = await crashed("exec", DISK_LIES, "agent");
  expect(breaching(swept, "doubled").length).toBeGreaterThan(0);
});

test.each<[string, Mutant, CrashKind, string, Promised]>([
  ["a dispatch that is written late", DISPATCHES_LATE, "driver", "exec", "undispatched"],
  ["an acknowledgement before the append", ACKNOWLEDGES_EARLY, "driver", "exec", "lost"],
  ["writes without a fence", withoutFence(), "split", "exec", "trouble"],
  ["an unknown outcome that is made good", INVENTS, "agent", "exec", "invented"],
  ["a conversation without its results", FORGETS_RESULTS, "driver", "exec", "conversation"],
])("%s is found", async (_name, mutant, kind, scenario, promise) => {
  const swept = await crashed(scenario, mutant, kind);
  expect(breaching(swept, promise).length).toBeGreaterThan(0);
});
