import { sessionId } from "@dev/protocol";
import type { Case, Crash, CrashKind } from "./case.ts";
import { CRASH_KINDS } from "./case.ts";
import { chance } from "./chance.ts";
import { type HostName, hostOf } from "./core.ts";
import { freshStore } from "./recorder.ts";
import { type Mutant, NO_MUTANT, type Ran, run } from "./run.ts";

export type Swept = {
  readonly runs: readonly Ran[];
  /** Those that breached a promise. */
  readonly failed: readonly Ran[];
};

/** What a sweep goes through, for one scenario and one seed. */
export type Sweep = {
  readonly scenario: string;
  readonly seed: number;
  readonly kinds: readonly CrashKind[];
  /** Of the crashes at single steps, one in so many is run, the first as the seed says; 1 is all of them. */
  readonly stride: number;
  /** How many pairs of crashes are drawn by chance. */
  readonly pairCount: number;
  /** Where the core runs: null is as the seed says. */
  readonly host: HostName | null;
};

/**
 * Runs a scenario once undisturbed, then once for each of its steps and each kind of crash, then for
 * pairs of crashes: the first at any step of the undisturbed run, the second at any step of what follows.
 */
export async function sweep(terms: Sweep, mutant: Mutant = NO_MUTANT): Promise<Swept> {
  const { scenario, seed, kinds, pairCount } = terms;
  const runs: Ran[] = [];
  const store = await freshStore();
  const attempt = async (crashes: readonly Crash[]): Promise<Ran> => {
    const given: Case = { scenario, seed, crashes, host: terms.host ?? hostOf(seed) };
    const session = sessionId(runs.length, new Uint8Array(10));
    const ran = await run(given, mutant, { store, session });
    runs.push(ran);
    return ran;
  };
  const { stepCount } = await attempt([]);
  for (const crash of singles(terms, stepCount)) await attempt([crash]);
  const draw = chance(seed);
  for (let pair = 0; pair < pairCount; pair++) {
    const first: Crash = { kind: pick(kinds, draw.next()), step: 1 + draw.below(stepCount) };
    const second = pick(CRASH_KINDS, draw.next());
    // What follows a crash is about as long as what it follows.
    const step = first.step + 1 + draw.below(stepCount);
    await attempt([first, { kind: second, step }]);
  }
  store.close();
  return { runs, failed: runs.filter(({ breaches }) => breaches.length > 0) };
}

/** A stride of one more than there are kinds gives each step one crash, and the kinds by turns. */
function* singles({ kinds, seed, stride }: Sweep, stepCount: number): Generator<Crash> {
  for (let index = seed % stride; index < stepCount * kinds.length; index += stride) {
    const kind = kinds[index % kinds.length];
    if (kind !== undefined) yield { kind, step: 1 + Math.floor(index / kinds.length) };
  }
}

function pick<T>(list: readonly T[], draw: number): T {
  const picked = list[Math.floor(draw * list.length)];
  if (picked === undefined) throw new Error("there is nothing to pick from");
  return picked;
}
