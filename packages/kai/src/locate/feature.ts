/**
 * What is known of a function before anything is changed. The weights file has a number for each, one
 * set for where there is coverage and one for where there is none. Values are between 0 and 1, but for
 * logarithms of counts.
 */
export const FUNCTION_FEATURES = [
  /** Holds the line that failed, or one on the way to it. */
  "crash",
  "frame",
  /** Ochiai's coefficient, as it is and against the highest. */
  "ochiai",
  "ochiai-top",
  "covered",
  /** The failing tests ran other lines of its file, or all files are told of, and not this. */
  "uncovered",
  /** The failing tests call a function of this name; or one that calls it does. */
  "called",
  "reached",
  /** It calls what the failing tests call, and they do not reach it: it is much like a test. */
  "rival",
  /** Names shared with the failing tests and what they say. */
  "text",
  "named",
  "echo",
  /** Its file is of the test's name; the test's file names it. */
  "sibling",
  "imported",
  "recent",
  "top-level",
  "line-count",
  "piece-count",
] as const;

/** What is known of a line, against the others of its function. */
export const LINE_FEATURES = [
  "crash",
  "frame",
  "ochiai",
  "covered",
  "uncovered",
  "echo",
  "shared",
  "first",
  "last",
  "heading",
  "nested",
  "condition",
  "loop",
  "return",
  "raise",
  "assign",
  "call",
  "comparison",
  "arithmetic",
  "index",
  "integer",
  "string",
  "piece-count",
] as const;

export type FunctionFeature = (typeof FUNCTION_FEATURES)[number];
export type LineFeature = (typeof LINE_FEATURES)[number];
export type Values<F extends string> = Readonly<Record<F, number>>;

/** The weighed sum of what is known. */
export function scored<F extends string>(values: Values<F>, weights: Values<F>): number {
  let sum = 0;
  for (const feature in weights) sum += weights[feature] * values[feature];
  return sum;
}
