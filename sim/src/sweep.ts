import { sessionId } from "@dev/protocol";
import type { Case, Crash, CrashKind } from "./case.ts";
import { CRASH_KINDS } from "./case.ts";
import { chance } from "./chance.ts";
import { freshStore } from "./recorder.ts";
import { type Mutant, NO_MUTANT, type Ran, run } from "./run.ts";

export type Swept = {
  readonly runCount: number;
  /** The runs that breached a promise. */
  readonly failed: readonly Ran[];
};

/** What a sweep goes through, for one scenario and one seed. */
export type Sweep = {
  readonly scenario: string;
  readonly seed: number;
  readonly kinds: readonly CrashKind[];
  /** How many pairs of crashes are drawn by chance. */
  readonly pairCount: number;
};

/**
 * Runs a scenario once undisturbed, then once for each of its steps and each kind of crash, then for
 * pairs of crashes: the first at any step of the undisturbed run, the second at any step of what follows.
 */
export async function sweep(terms: Sweep, mutant: Mutant = NO_MUTANT): Promise<Swept> {
  const { scenario, seed, kinds, pairCount } = terms;
  const failed: Ran[] = [];
  let runCount = 0;
  const store = await freshStore();
  const attempt = async (crashes: readonly Crash[]): Promise<Ran> => {
    const given: Case = { scenario, seed, crashes };
    const session = sessionId(runCount, new Uint8Array(10));
    const ran = await run(given, mutant, { store, session });
    runCount += 1;
    if (ran.breaches.length > 0) failed.push(ran);
    return ran;
  };
  const { stepCount } = await attempt([]);
  for (const kind of kinds) {
    for (let step = 1; step <= stepCount; step++) await attempt([{ kind, step }]);
  }
  const draw = chance(seed);
  for (let pair = 0; pair < pairCount; pair++) {
    const first: Crash = { kind: pick(kinds, draw.next()), step: 1 + draw.below(stepCount) };
    const second = pick(CRASH_KINDS, draw.next());
    // What follows a crash is about as long as what it follows.
    const step = first.step + 1 + draw.below(stepCount);
    await attempt([first, { kind: second, step }]);
  }
  store.close();
  return { runCount, failed };
}

function pick<T>(list: readonly T[], draw: number): T {
  const picked = list[Math.floor(draw * list.length)];
  if (picked === undefined) throw new Error("there is nothing to pick from");
  return picked;
}
