import { FEATURES, type Feature } from "./feature.ts";
import { type Group, groupOf } from "./group.ts";
import data from "./weights.json" with { type: "json" };

/**
 * Natural logarithms that are added up: how often an operator is the fix where it applies, and how much
 * more or less often with a feature; `groups` says by how much that is other for the operators of a group.
 * They are data, made by a script that is run over known faults.
 */
export type Weights = {
  readonly version: 2;
  /** Of the logarithm of the suspicion of a place. */
  readonly suspicion: number;
  /** One that is not named here is as likely as the middle of all. */
  readonly operators: Readonly<Record<string, number>>;
  readonly features: Readonly<Partial<Record<Feature, number>>>;
  readonly groups: Readonly<Partial<Record<Group, Sums>>>;
};

type Sums = Readonly<Partial<Record<Feature, number>>>;

/** The weights that are in use where no others are given. */
export const weights: Weights = { ...data, version: 2 };

const NUMBERS: ReadonlyMap<Feature, number> = new Map(FEATURES.map((name, at) => [name, at]));

/** What all features come to for one operator, so that a candidate is weighed by a few additions. */
export type Measure = {
  readonly base: number;
  of(feature: Feature): number;
};

export function measureOf(operator: string, given: Weights): Measure {
  const { features, groups } = given;
  const group = groups[groupOf(operator)] ?? {};
  const sums = FEATURES.map((name) => (features[name] ?? 0) + (group[name] ?? 0));
  return {
    base: given.operators[operator] ?? middle(Object.values(given.operators)),
    of: (feature) => sums[NUMBERS.get(feature) ?? -1] ?? 0,
  };
}

function middle(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
}
