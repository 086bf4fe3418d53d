import type { Report } from "./report/report.ts";
import type { Revision } from "./revision.ts";

/** A verification that failed, and what had been done before it. */
export type Setback = {
  /** The state that it was tried on, and what failed there. */
  readonly revision: Revision;
  readonly fingerprint: string;
  /** What was done, such as `mutate` or `generate`. */
  readonly action: string;
  readonly diff: string;
  readonly outcome: Outcome;
};

export type Outcome = {
  readonly kind: "failed" | "broken" | "timeout";
  /** What failed after it; empty where no test could say. */
  readonly fingerprint: string;
};

/** What to do after a setback. */
export type Recovery<Action extends string> =
  | { readonly kind: "another"; readonly action: Action; readonly why: string }
  /** Nothing that applies is left for this state. */
  | { readonly kind: "escalate"; readonly why: string };

export const RECOVER_LIMITS = {
  /** Times that an action may be taken at a state, as long as it changes what fails. */
  actionCount: 3,
  /** Setbacks of a run. */
  setbackCount: 50,
} as const;

/**
 * Picks what to do at a state where things have failed; `actions` are those that apply, the
 * cheapest first. An action that left the failure as it was, or as it was after another try, is not
 * taken again there: the loop is never replayed, and it ends.
 */
export function recover<Action extends string>(
  setbacks: readonly Setback[],
  state: { readonly revision: Revision; readonly fingerprint: string },
  actions: readonly Action[],
): Recovery<Action> {
  if (setbacks.length >= RECOVER_LIMITS.setbackCount) {
    return { kind: "escalate", why: `${setbacks.length} attempts have failed` };
  }
  const here = setbacks.filter((setback) => setback.revision === state.revision);
  const spent = new Map<string, string>();
  for (const action of actions) {
    const why = spentWhy(action, here, state.fingerprint);
    if (why === null) return { kind: "another", action, why: whyAnother(spent) };
    spent.set(action, why);
  }
  const said = [...spent].map(([action, why]) => `${action}: ${why}`);
  return {
    kind: "escalate",
    why: said.length === 0 ? "nothing that applies is left" : said.join("; "),
  };
}

/**
 * Whether an edit brought the run forward, so that it stays: the tests ran to their end, fewer of
 * them fail, and none has gone missing. False where the runner does not say how many there are.
 */
export function isProgress(before: Report, after: Report): boolean {
  const [failedBefore, failedAfter] = [failedCount(before), failedCount(after)];
  if (failedBefore === null || failedAfter === null || failedAfter >= failedBefore) return false;
  if (after.failures.some(({ kind }) => kind === "load")) return false;
  // Fewer fail also where fewer are run at all.
  return before.passedCount === null || (after.passedCount ?? 0) > before.passedCount;
}

function failedCount({ failedCount: said, failures }: Report): number | null {
  return said ?? (failures.length === 0 ? null : failures.length);
}

function spentWhy(action: string, here: readonly Setback[], fingerprint: string): string | null {
  const seen = new Set([fingerprint]);
  let count = 0;
  for (const setback of here) {
    if (setback.action !== action) continue;
    count += 1;
    const after = setback.outcome.fingerprint;
    if (after === "" || seen.has(after)) return "the failure was the same after it";
    seen.add(after);
  }
  return count >= RECOVER_LIMITS.actionCount ? `it was taken ${count} times` : null;
}

function whyAnother(spent: ReadonlyMap<string, string>): string {
  const [last] = [...spent].toReversed();
  return last === undefined ? "it applies" : `not ${last[0]} again: ${last[1]}`;
}
