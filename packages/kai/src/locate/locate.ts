import type { Clues } from "./clue.ts";
import type { FunctionFeature, LineFeature, Values } from "./feature.ts";
import { scored } from "./feature.ts";
import { type FunctionView, functionValues, functionView } from "./function.ts";
import { lineValues } from "./line.ts";
import { type CodeLine, type Place, placesOf } from "./place.ts";
import { weights as learned, type Weights } from "./weights.ts";
import { isTestFile, isTwin, testFilesOf, witnessOf } from "./witness.ts";

/** Functions whose lines are ranked. */
const LINED_MAX = 250;

/** A function, or what is outside of all in a file, and how likely the fault is in it. */
export type Ranked = {
  readonly file: string;
  /** Null for what is outside of all functions. */
  readonly function: string | null;
  readonly firstLine: number;
  readonly lastLine: number;
  /** All of a ranking add up to 1. */
  readonly share: number;
  readonly values: Values<FunctionFeature>;
  /** The likeliest first; none where the function is too far behind to be looked at. */
  readonly lines: readonly RankedLine[];
};

export type RankedLine = {
  /** Counted from 1. */
  readonly line: number;
  /** The lines of a function add up to its share. */
  readonly share: number;
  readonly values: Values<LineFeature>;
};

/** A line and how likely the fault is on it, as the making of candidates takes it. */
export type Suspect = {
  readonly file: string;
  readonly firstLine: number;
  readonly lastLine: number;
  readonly weight: number;
};

/**
 * Ranks all functions by how likely the fault is in them, and the lines in each. The same clues give
 * the same ranking. Tests are no suspects, unless they are all there is; the functions of a file that
 * is a test and the code in one are ranked then.
 */
export function locate(clues: Clues, weights: Weights = learned): readonly Ranked[] {
  const { report, coverage, sources } = clues;
  const failing = testFilesOf(report);
  const failed = sources.filter(({ file }) => failing.has(file));
  const tests = sources.filter(
    (source) => failed.includes(source) || isTestFile(source.file) || isTwin(source, failed),
  );
  const others = sources.filter((source) => !tests.includes(source));
  const places = others.flatMap(placesOf);
  const suspects = places.length > 0 ? places : tests.flatMap(placesOf);
  const set = coverage === null ? weights.blind : weights.covered;

  const witness = witnessOf(report, tests);
  const view = functionView(clues, witness, suspects);
  const found = suspects.map((place) => ({ place, values: functionValues(place, view) }));
  const shares = softmax(found.map(({ values }) => scored(values, set.functions)));
  const ranked = found
    .map(({ place, values }, at) => ({ place, values, share: shares[at] ?? 0 }))
    .toSorted(
      (a, b) =>
        b.share - a.share ||
        compared(a.place.source.file, b.place.source.file) ||
        first(a.place.lines).line - first(b.place.lines).line,
    );
  return ranked.map(({ place, values, share }, at) => ({
    file: place.source.file,
    function: place.function?.qualified ?? null,
    firstLine: place.function?.firstLine ?? first(place.lines).line,
    lastLine: place.function?.lastLine ?? (place.lines.at(-1) ?? first(place.lines)).line,
    share,
    values,
    lines: at < LINED_MAX ? rankedLines(place, share, view, set.lines) : [],
  }));
}

function rankedLines(
  place: Place,
  share: number,
  view: FunctionView,
  weights: Values<LineFeature>,
): readonly RankedLine[] {
  const all = place.lines.map((own) => ({ line: own.line, values: lineValues(own, place, view) }));
  const parts = softmax(all.map(({ values }) => scored(values, weights)));
  return all
    .map(({ line, values }, at) => ({ line, share: share * (parts[at] ?? 0), values }))
    .toSorted((a, b) => b.share - a.share || a.line - b.line);
}

/** The lines of a ranking, the likeliest first, at most `max`. */
export function suspectsOf(ranking: readonly Ranked[], max: number): readonly Suspect[] {
  const lines = ranking.flatMap(({ file, lines }) =>
    lines.map(({ line, share }) => ({ file, firstLine: line, lastLine: line, weight: share })),
  );
  return lines
    .toSorted(
      (a, b) => b.weight - a.weight || compared(a.file, b.file) || a.firstLine - b.firstLine,
    )
    .slice(0, max);
}

function softmax(scores: readonly number[]): readonly number[] {
  const most = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

function first(lines: readonly CodeLine[]): CodeLine {
  const [line] = lines;
  if (line === undefined) throw new Error("a place has lines");
  return line;
}

/** By code units, the same on every machine. */
function compared(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
