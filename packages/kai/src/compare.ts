import type { Behaviours } from "./behaviour.ts";
import type { Candidate } from "./candidate.ts";
import data from "./compare.json" with { type: "json" };
import { atHome, kindOf } from "./domain.ts";

/** Candidates that do the same on all that was looked at, the likeliest first. */
export type Group = {
  /** Their places among the candidates that were compared. */
  readonly members: readonly number[];
  /** Of the weight of all candidates, what these have. */
  readonly share: number;
};

export type Comparison = {
  readonly kind: "alone" | "agreeing" | "leading" | "disagreeing";
  /** The one that stands for the best group. */
  readonly chosen: number;
  readonly groups: readonly Group[];
  /** Where two groups differ; null where they were not looked at. */
  readonly example: Example | null;
};

export type Example = {
  readonly input: string;
  /** In order of the groups: what the call comes to. */
  readonly outcomes: readonly string[];
};

/** Measured on known faults; see the bench. */
export type Thresholds = {
  readonly version: 1;
  /** Of the inputs that both know, those on which two that agree may differ. */
  readonly differingShare: number;
  /** What a group needs of all weight to be believed against the others. */
  readonly leadingShare: number;
  /** With so many inputs of the make that the tests have, those of other makes say nothing. */
  readonly homeCount: number;
  /** More calls than this share that only one of two does not come back from are a difference. */
  readonly hangShare: number;
  /** What is left of the weight of one that gives back a kind of value that no test has it give. */
  readonly oddShare: number;
};

export const thresholds: Thresholds = { ...data, version: 1 };

/**
 * Holds candidates that pass against each other: by what they do where that is known, and otherwise each
 * is alone with its weight. Among equals the smallest change, and then the likeliest, is chosen.
 */
export function compare(
  candidates: readonly Candidate[],
  behaviours: Behaviours | null,
  given: Thresholds = thresholds,
): Comparison {
  const odd = behaviours === null ? new Set<number>() : oddOnes(behaviours);
  const weights = candidates.map(({ weight }, at) => weight * (odd.has(at) ? given.oddShare : 1));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const lists = grouped(candidates, behaviours, given);
  const groups = lists
    .map((members): Group => {
      const own = members.reduce((sum, at) => sum + (weights[at] ?? 0), 0);
      return { members, share: total > 0 ? own / total : 1 / lists.length };
    })
    .toSorted((a, b) => b.share - a.share);
  const [best] = groups;
  if (best === undefined) throw new Error("nothing was given to compare");
  const chosen = smallest(best.members, candidates);
  const example = behaviours === null ? null : exampleOf(groups, behaviours);
  if (candidates.length === 1) return { kind: "alone", chosen, groups, example };
  if (groups.length === 1) return { kind: "agreeing", chosen, groups, example };
  const kind = best.share >= given.leadingShare ? "leading" : "disagreeing";
  return { kind, chosen, groups, example };
}

function grouped(
  candidates: readonly Candidate[],
  behaviours: Behaviours | null,
  { differingShare, homeCount, hangShare }: Thresholds,
): readonly (readonly number[])[] {
  if (behaviours === null) return candidates.map((_, at) => [at]);
  const home = atHome(behaviours.inputs, behaviours.calledCount);
  const groups: number[][] = [];
  for (const at of candidates.keys()) {
    const own = behaviours.outcomes[at] ?? [];
    const group = groups.find(([first = 0]) => {
      const other = behaviours.outcomes[first] ?? [];
      const [mine, its] = [own, other].map((all) => all.filter((_, place) => home[place]));
      const known = home.filter((is, place) => is && isKnown(own[place], other[place]));
      const different =
        known.length < homeCount
          ? differing(own, other, hangShare)
          : differing(mine ?? [], its ?? [], hangShare);
      return different <= differingShare;
    });
    if (group === undefined) groups.push([at]);
    else group.push(at);
  }
  return groups;
}

/**
 * The share of inputs on which two differ; what only one of them refuses counts half. A call that was
 * stopped at its time says little, for a slow machine stops it too: only many of them are a difference.
 */
export function differing(
  one: readonly string[],
  other: readonly string[],
  hangShare: number = thresholds.hangShare,
): number {
  let known = 0;
  let different = 0;
  let hanging = 0;
  for (const [at, outcome] of one.entries()) {
    const against = other[at] ?? "u";
    if (outcome === "u" || against === "u") continue;
    known += 1;
    if (outcome === against) continue;
    if (outcome === "t" || against === "t") {
      hanging += 1;
      continue;
    }
    const raised = (outcome.startsWith("e") ? 1 : 0) + (against.startsWith("e") ? 1 : 0);
    // An input that a function refuses may be none that it is meant for.
    different += raised === 2 ? 0 : raised === 1 ? 0.5 : 1;
  }
  if (known === 0) return 1;
  return (different + (hanging > known * hangShare ? hanging : 0)) / known;
}

function isKnown(one: string | undefined, other: string | undefined): boolean {
  return [one, other].every((outcome) => outcome !== undefined && outcome !== "u");
}

/** Those that give back a value of a kind that no test has any of them give, where another does not. */
function oddOnes({ outcomes, calledCount }: Behaviours): ReadonlySet<number> {
  const kind = (outcome = ""): string | null =>
    outcome.startsWith("v") ? kindOf(outcome.slice(1)) : null;
  const seen = new Set(outcomes.flatMap((list) => list.slice(0, calledCount).map(kind)));
  const isOdd = (outcome: string | undefined): boolean => {
    const own = kind(outcome);
    return own !== null && !seen.has(own);
  };
  const places = [...(outcomes[0] ?? []).keys()];
  const found = [...outcomes.keys()].filter((at) =>
    places.some((place) => {
      const isPlain = (list: readonly string[]): boolean =>
        list[place]?.startsWith("v") === true && !isOdd(list[place]);
      return isOdd(outcomes[at]?.[place]) && outcomes.some(isPlain);
    }),
  );
  return new Set(found);
}

/** The change of the fewest lines; of equals the likeliest. */
function smallest(members: readonly number[], candidates: readonly Candidate[]): number {
  const size = (at: number): number =>
    (candidates[at]?.edits ?? []).reduce((sum, { text }) => sum + text.split("\n").length, 0);
  const weight = (at: number): number => candidates[at]?.weight ?? 0;
  return members.toSorted((a, b) => size(a) - size(b) || weight(b) - weight(a))[0] ?? 0;
}

/** The input on which most groups differ from each other. */
function exampleOf(groups: readonly Group[], { inputs, outcomes }: Behaviours): Example | null {
  if (groups.length < 2) return null;
  const of = (at: number) => groups.map(({ members: [first = 0] }) => outcomes[first]?.[at] ?? "u");
  let best: Example | null = null;
  let most = 1;
  for (const [at, input] of inputs.entries()) {
    const said = of(at);
    const known = said.filter((outcome) => outcome !== "u");
    const values = new Set(known.filter((outcome) => outcome.startsWith("v"))).size;
    const count = values + (new Set(known).size > values ? 0.5 : 0);
    if (count <= most) continue;
    most = count;
    best = { input, outcomes: said };
  }
  return best;
}
