import type { Candidate, Edit } from "../candidate.ts";
import { isValue, type Kind, type Piece } from "../syntax/piece.ts";
import type { Cut, Source } from "../syntax/source.ts";
import { calls } from "./call.ts";
import { conditions } from "./condition.ts";
import { indices } from "./element.ts";
import { expressions } from "./expression.ts";
import { type Feature, siteFeatures } from "./feature.ts";
import { flips } from "./flip.ts";
import { Heap } from "./heap.ts";
import { inserts } from "./insert.ts";
import { endings } from "./line.ts";
import { literals } from "./literal.ts";
import { names } from "./name.ts";
import type { Operator, Proposal } from "./operator.ts";
import { progress } from "./progress.ts";
import { close, judgeFor, type Region, regionsOf, type Suspect } from "./region.ts";
import { type Scope, scopeOf } from "./scope.ts";
import { statements } from "./statement.ts";
import { NO_SYMPTOMS, type Symptoms } from "./symptom.ts";
import { type Texture, textureOf, textValues } from "./texture.ts";
import { weights as learned, type Measure, measureOf, type Weights } from "./weights.ts";

/** A candidate with what its weight was made of, beside the suspicion of its place. */
export type Weighed = Candidate & { readonly features: readonly Valued[] };

type Valued = readonly [Feature, number];

export const operators: readonly Operator[] = [
  ...flips,
  ...literals,
  ...names,
  ...calls,
  ...expressions,
  ...indices,
  ...conditions,
  ...statements,
  ...inserts,
  ...progress,
];

/**
 * Functions whose pieces are at hand at first, and candidates that make room for one more: where all are
 * suspected alike, opening all of a long file would cost more than trying a hundred changes.
 */
const OPEN_MAX = 8;
const OPENING_COUNT = 16;
const PROPOSALS_MAX = 400;
const YIELDED_MAX = 200_000;

/**
 * Changes that might be the fix, the likeliest first of the functions that are open. They are made as
 * they are asked for; each parses as well as its file did, changes the file, and makes a text that no
 * one before it made. A loop over them that ends early has to `return` them, as `for` does by itself.
 */
export function* candidates(
  sources: readonly Source[],
  suspects: readonly Suspect[],
  symptoms: Symptoms = NO_SYMPTOMS,
  weights: Weights = learned,
): Generator<Weighed, void> {
  const waiting = regionsOf(sources, suspects, weights);
  const order = orderOf(symptoms, weights);
  const seen = new Set<string>();
  const heap = new Heap<Entry>();
  const counts = new Map<Region, number>();
  const crowding = new Map<string, number>();
  const spread: Spread = { most: waiting[0]?.weight ?? 1, counts: new Map() };
  let next = 0;
  let count = 0;
  const room = (): number => OPEN_MAX + count / OPENING_COUNT;
  const fill = (): void => {
    for (let region = waiting[next]; region !== undefined && counts.size < room(); ) {
      // A function less likely than the best change at hand can wait.
      if (counts.size > 0 && (heap.top ?? 0) >= region.weight * Math.exp(order.ceiling)) return;
      next += 1;
      const entries = opened(region, order, spread);
      counts.set(region, entries.length);
      for (const entry of entries) heap.push(entry.weight, entry);
      if (entries.length === 0) counts.delete(region);
      region = waiting[next];
    }
  };
  const ended = (region: Region, by: number): void => {
    const left = (counts.get(region) ?? 0) + by;
    if (left > 0) counts.set(region, left);
    else {
      counts.delete(region);
      close(region);
    }
  };
  try {
    for (fill(); heap.top !== null && count < YIELDED_MAX; fill()) {
      const entry = heap.pop();
      if (entry === null) return;
      if (entry.kind === "site") {
        const made = weighed(entry, order);
        for (const each of made) heap.push(each.weight, each);
        ended(entry.region, made.length - 1);
        continue;
      }
      // What a change makes is looked at when its turn may have come: most are never reached.
      if (entry.kind === "draft") {
        const made = finished(entry, order, crowding);
        heap.push(made.weight, made);
        continue;
      }
      const so = crowding.get(entry.place) ?? 0;
      if (so > entry.before) {
        const weight = entry.first * discount(so);
        heap.push(weight, { ...entry, weight, before: so });
        continue;
      }
      const candidate = admitted(entry, seen);
      ended(entry.region, -1);
      if (candidate === null) continue;
      count += 1;
      crowding.set(entry.place, so + 1);
      yield candidate;
    }
  } finally {
    for (const region of counts.keys()) close(region);
  }
}

type Entry =
  | {
      readonly kind: "site";
      readonly region: Region;
      readonly scope: Scope;
      readonly piece: Piece;
      readonly operator: Operator;
      readonly texture: () => Texture;
      readonly site: readonly Feature[];
      /** The logarithm of how many places the operator has. */
      readonly wide: number;
      /** What all changes of the operator's here have in common, as a logarithm. */
      readonly sum: number;
      /** No change of the operator's at this piece is held to weigh more. */
      readonly weight: number;
    }
  | {
      readonly kind: "draft";
      readonly region: Region;
      readonly of: Site;
      readonly proposal: Proposal;
      readonly values: readonly Valued[];
      /** What is known of it so far, as a logarithm. */
      readonly sum: number;
      readonly weight: number;
    }
  | {
      readonly kind: "made";
      readonly region: Region;
      readonly of: Site;
      readonly proposal: Proposal;
      readonly values: readonly Valued[];
      /** What it weighs by itself, and when some of its operator's on its line were before it. */
      readonly first: number;
      readonly weight: number;
      readonly place: string;
      readonly before: number;
    };

type Site = Extract<Entry, { kind: "site" }>;
type Draft = Extract<Entry, { kind: "draft" }>;
type Made = Extract<Entry, { kind: "made" }>;

function opened(region: Region, order: Order, spread: Spread): readonly Entry[] {
  const scope = scopeOf(region.source, region.piece, region.members());
  let held: Texture | null = null;
  const texture = (): Texture => {
    held ??= textureOf(scope);
    return held;
  };
  const entries: Entry[] = [];
  const sites = scope.pieces
    .map((piece) => ({ piece, suspicion: region.suspicion(piece), own: applicable(piece, scope) }))
    .filter(({ suspicion, own }) => suspicion > 0 && own.length > 0);
  for (const { suspicion, own } of sites) {
    for (const operator of own) {
      spread.counts.set(operator, placesOf(operator, spread) + suspicion / spread.most);
    }
  }
  for (const { piece, suspicion, own } of sites) {
    const site = siteFeatures(piece, scope, order.symptoms);
    for (const operator of own) {
      const { measure, seen, top } = order.of(operator);
      const wide = Math.log(placesOf(operator, spread));
      const base = measure.base + seen + wide * measure.of("spread");
      const sum = site.reduce((all, feature) => all + measure.of(feature), base);
      const weight = suspicion * Math.exp(sum + top);
      entries.push({
        kind: "site",
        region,
        scope,
        texture,
        piece,
        operator,
        site,
        wide,
        sum,
        weight,
      });
    }
  }
  return entries;
}

/** How many places operators have in what was opened so far, each counted by its suspicion. */
type Spread = { readonly most: number; readonly counts: Map<Operator, number> };

function placesOf(operator: Operator, { counts }: Spread): number {
  return counts.get(operator) ?? 0;
}

function applicable(piece: Piece, scope: Scope): readonly Operator[] {
  const found = byKind.get(piece.kind) ?? [];
  const value = isValue(piece) ? valued : [];
  const statement = piece.parent?.kind === "block" && piece !== scope.region ? stated : [];
  return [...found, ...value, ...statement];
}

const valued = operators.filter((operator) => operator.kinds === "value");
const stated = operators.filter((operator) => operator.kinds === "statement");
const byKind: ReadonlyMap<Kind, readonly Operator[]> = kinded();

function kinded(): ReadonlyMap<Kind, readonly Operator[]> {
  const map = new Map<Kind, Operator[]>();
  for (const operator of operators) {
    if (typeof operator.kinds === "string") continue;
    for (const kind of operator.kinds) map.set(kind, [...(map.get(kind) ?? []), operator]);
  }
  return map;
}

/** The proposals of an operator at a place, each with what it can weigh at most. */
function weighed(entry: Site, order: Order): readonly Draft[] {
  const { region, scope, piece, operator } = entry;
  const suspicion = region.suspicion(piece);
  const { measure } = order.of(operator);
  const proposals: Proposal[] = [];
  for (const proposal of operator.propose(piece, scope)) {
    proposals.push(declared(proposal, operator));
    if (proposals.length >= PROPOSALS_MAX) break;
  }
  const crowd = Math.log(Math.max(1, proposals.length));
  return proposals.map((proposal, at) => {
    const values: readonly Valued[] = [
      ...proposal.features.map((feature): Valued => [feature, 1]),
      ["crowd", crowd],
      ["rank", Math.log(1 + at)],
    ];
    const sum = summed(values, measure, entry.sum);
    const weight = Math.min(entry.weight, suspicion * Math.exp(sum + TEXT_TOP));
    return { kind: "draft", region, of: entry, proposal, values, sum, weight };
  });
}

/** A proposal with what its text comes to. */
function finished(entry: Draft, order: Order, crowding: ReadonlyMap<string, number>): Made {
  const { region, of, proposal } = entry;
  const { piece, operator, texture } = of;
  const text = textValues(proposal.cuts, texture(), region.source.text, order.symptoms.wanted);
  const sum = summed(text, order.of(operator).measure, entry.sum);
  const first = Math.min(entry.weight, region.suspicion(piece) * Math.exp(sum));
  const place = `${operator.name} ${region.source.file} ${region.source.line(piece.from)}`;
  const before = crowding.get(place) ?? 0;
  const values = [...entry.values, ...text];
  const weight = first * discount(before);
  return { kind: "made", region, of, proposal, values, first, weight, place, before };
}

function summed(values: readonly Valued[], measure: Measure, from: number): number {
  let sum = from;
  for (const [name, value] of values) sum += measure.of(name) * value;
  return sum;
}

/** A feature that was not declared would let a change weigh more than the queue was told. */
function declared(proposal: Proposal, operator: Operator): Proposal {
  const { features } = proposal;
  const known = features.every((feature) => operator.gives.includes(feature));
  if (known && features.length <= (operator.most ?? 1)) return proposal;
  throw new Error(`${operator.name} gives features that it does not declare: ${features.join()}`);
}

function admitted(entry: Made, seen: Set<string>): Weighed | null {
  const { region, proposal } = entry;
  const { source } = region;
  const cuts = proposal.cuts
    .map((cut) => ({ ...cut, text: endings(cut.text, source.text) }))
    .filter((cut) => source.text.slice(cut.from, cut.to) !== cut.text);
  const [head] = cuts;
  if (head === undefined) return null;
  const key = `${source.file}\0${canonical(cuts, source.text)}`;
  if (seen.has(key)) return null;
  seen.add(key);
  if (!judgeFor(region, cuts).parses(cuts)) return null;
  return {
    edits: cuts.map((cut): Edit => ({ file: source.file, ...cut })),
    operator: entry.of.operator.name,
    site: {
      file: source.file,
      line: source.line(head.from),
      function: source.functionAt(head.from)?.qualified ?? null,
    },
    weight: entry.weight,
    features: [
      ...entry.of.site.map((feature): Valued => [feature, 1]),
      ...entry.values,
      ["spread", entry.of.wide],
    ],
  };
}

/**
 * What a change weighs less after some of its operator's on its line: where the first few were wrong, the
 * line may be another, or what is wrong with it.
 */
function discount(before: number): number {
  return (1 + before / CROWDED_COUNT) ** -CROWDED_POWER;
}

const CROWDED_COUNT = 10;
const CROWDED_POWER = 0.6;

/** The same for any cuts that make the same text: one cut, as late and as short as it can be. */
function canonical(cuts: readonly Cut[], text: string): string {
  let from = cuts[0]?.from ?? 0;
  let to = cuts.at(-1)?.to ?? 0;
  let made = "";
  let at = from;
  for (const cut of cuts) {
    made += text.slice(at, cut.from) + cut.text;
    at = cut.to;
  }
  let old = text.slice(from, to);
  let start = 0;
  while (start < Math.min(old.length, made.length) && old[start] === made[start]) start += 1;
  old = old.slice(start);
  made = made.slice(start);
  from += start;
  let end = 0;
  while (end < Math.min(old.length, made.length) && old.at(-1 - end) === made.at(-1 - end))
    end += 1;
  old = old.slice(0, old.length - end);
  made = made.slice(0, made.length - end);
  to -= end;
  // What is only put in, or only taken out, may be so at several places: the last of them stands for all.
  const rolling = old === "" ? made : made === "" ? old : "";
  let rolled = rolling;
  while (rolled !== "" && rolled[0] === text[to]) {
    rolled = rolled.slice(1) + (rolled[0] ?? "");
    from += 1;
    to += 1;
  }
  return `${from}:${to}:${old === "" ? rolled : made}`;
}

type Order = {
  readonly symptoms: Symptoms;
  of(operator: Operator): Share;
  /** The logarithm of what a candidate of a suspicion of 1 hardly ever weighs more than. */
  readonly ceiling: number;
};

type Share = {
  readonly measure: Measure;
  /** What the symptoms add. */
  readonly seen: number;
  /** What the features of a proposal come to at most. */
  readonly top: number;
};

/** What a place, and the text that a change makes, hardly ever add more than. */
const SITE_TOP = 2;
const TEXT_TOP = 0.6;

function orderOf(symptoms: Symptoms, weights: Weights): Order {
  const shares = new Map(
    operators.map((operator): [Operator, Share] => {
      const measure = measureOf(operator.name, weights);
      const seen = symptoms.kinds.reduce((sum, name) => sum + measure.of(name), 0);
      const gains = operator.gives.map((name) => measure.of(name)).filter((gain) => gain > 0);
      const best = gains.toSorted((a, b) => b - a).slice(0, operator.most ?? 1);
      return [operator, { measure, seen, top: TEXT_TOP + best.reduce((a, b) => a + b, 0) }];
    }),
  );
  const of = (operator: Operator): Share => {
    const share = shares.get(operator);
    if (share === undefined) throw new Error(`${operator.name} is no operator of the list`);
    return share;
  };
  const tops = [...shares.values()].map(({ measure, seen, top }) => measure.base + seen + top);
  return { symptoms, of, ceiling: SITE_TOP + Math.max(...tops) };
}
