import type { Candidate } from "./candidate.ts";
import type { Source } from "./syntax/source.ts";
import type { Trial, Trials } from "./trial/trial.ts";

export const CONTROL_LIMITS = {
  /** How often the unchanged tree is tried again, and what passed, before a fix is believed. */
  leastCount: 2,
  mostCount: 5,
  /** Beyond the least, as many tries as come to this. */
  ms: 300,
  /** The same where each try starts the command anew, which has no fewer than one. */
  coldMs: 3_000,
  /** The unchanged tree of a command that did not end has so many times what a fix took, and this. */
  endFactor: 4,
  endExtraMs: 1_000,
} as const;

/** What is known of a command before what passes is believed. */
export type Doubt = {
  /** How long the command took with a fix in place, where it does not end without; null: it ends. */
  readonly endlessMs: number | null;
  /** Something passed that the verifier saw fail: the chance of that is what is asked about. */
  readonly isSuspect: boolean;
};

export const FLAKY =
  "the command is flaky: it failed, and then passed with nothing changed; run it again, or mend the test";
const FICKLE =
  "the command is flaky: a change of it passed, and then failed with nothing changed; run it again, or mend the test";

/**
 * Why what passes passes by chance: a change that changes nothing passes too, or what passed does not
 * pass again. Null where neither was seen. Of many candidates some pass by chance wherever any may, so
 * that one pass and one failure say little; each more of both halves what is left of it, or better.
 */
export async function chanceOf(
  passing: readonly Candidate[],
  sources: readonly Source[],
  trials: Trials,
  { endlessMs, isSuspect }: Doubt,
  signal: AbortSignal,
): Promise<string | null> {
  const [first] = passing;
  const source = sources.find(({ file }) => file === first?.site.file);
  if (first === undefined || source === undefined) return null;
  const { text, file } = source;
  const same: Candidate = { ...first, edits: [{ file, from: 0, to: text.length, text }] };
  const { endFactor, endExtraMs, leastCount, mostCount } = CONTROL_LIMITS;
  const isEndless = endlessMs !== null;
  const deadlineMs = isEndless ? endlessMs * endFactor + endExtraMs : trials.baseMs * 3 + 1_000;
  const count = isSuspect ? mostCount : isEndless ? leastCount : countFor(trials);
  // What does not end takes its whole deadline to say so, and two take no longer than one.
  const width = isEndless ? Math.min(trials.slotCount, leastCount) : 1;
  const mostMs = trials.name === "cold" ? CONTROL_LIMITS.coldMs : CONTROL_LIMITS.ms;
  let spentMs = 0;
  for (let at = 0; at < count; at += width) {
    // What passes may take much longer than what failed did.
    if (!isSuspect && at >= leastCount && spentMs >= mostMs) break;
    const again = passing[at % passing.length] ?? first;
    const pairs = Array.from({ length: width }, () =>
      pairOf(
        trials,
        () => trials.try(same, deadlineMs, signal),
        () => trials.try(again, deadlineMs, signal),
      ),
    );
    for (const [unchanged, changed] of await Promise.all(pairs)) {
      spentMs += unchanged.durationMs + changed.durationMs;
      if (unchanged.kind === "passed") return FLAKY;
      // A machine that is busy makes late what ends; what did not end is to end with the change.
      const isFickle = changed.kind === "failed" || (isEndless && changed.kind === "timeout");
      if (isFickle) return FICKLE;
    }
  }
  return null;
}

/** One beside the other where there is room for both. */
async function pairOf(
  { slotCount }: Trials,
  one: () => Promise<Trial>,
  other: () => Promise<Trial>,
): Promise<readonly [Trial, Trial]> {
  return slotCount > 1 ? Promise.all([one(), other()]) : [await one(), await other()];
}

function countFor({ name, baseMs }: Trials): number {
  const { leastCount, mostCount, ms, coldMs } = CONTROL_LIMITS;
  const isCold = name === "cold";
  const affordable = Math.floor((isCold ? coldMs : ms) / Math.max(1, 2 * baseMs));
  return Math.min(mostCount, Math.max(isCold ? 1 : leastCount, affordable));
}
