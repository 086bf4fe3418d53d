import type { Report } from "../report/report.ts";
import type { Echo } from "../search/echo.ts";
import { type Coverage, ochiai } from "./coverage.ts";
import { isTestFile, stemOf, testFilesOf } from "./witness.ts";

/** What is known before any file is parsed. */
export type Leads = {
  readonly report: Report;
  readonly coverage: Coverage | null;
  readonly echoes: readonly Echo[];
};

/** Files that are read into trees for one ranking; to parse one takes some milliseconds. */
export const SHORTLIST_MAX = 120;

/**
 * The files that a ranking should be made of, the likeliest first, where there are more than can be
 * parsed. Those of the failing tests are always among them. `files` are in an order of their own, which
 * decides between equals. `leftCount` is how many are not in it.
 */
export function shortlist(
  files: readonly string[],
  leads: Leads,
  max: number = SHORTLIST_MAX,
): { readonly files: readonly string[]; readonly leftCount: number } {
  const tests = testFilesOf(leads.report);
  const stems = new Set([...tests].map(stemOf));
  const points = new Map<string, number>();
  const give = (file: string, value: number): void => {
    points.set(file, (points.get(file) ?? 0) + value);
  };
  for (const { frames } of leads.report.failures) {
    for (const [depth, { file }] of frames.entries()) give(file, POINTS.frame / (1 + depth));
  }
  for (const [file, lines] of leads.coverage?.files ?? []) {
    const { coverage } = leads;
    if (coverage === null) continue;
    const most = [...lines.values()].reduce(
      (top, hits) => Math.max(top, ochiai(hits, coverage)),
      0,
    );
    give(file, POINTS.coverage * most);
  }
  for (const { file, weight } of leads.echoes) give(file, POINTS.echo * weight);
  const placed = files.map((file, at) => ({
    file,
    at,
    points:
      (points.get(file) ?? 0) +
      (tests.has(file) ? Number.POSITIVE_INFINITY : 0) +
      (stems.has(stemOf(file)) ? POINTS.sibling : 0) -
      (isTestFile(file) ? POINTS.test : 0),
  }));
  placed.sort((a, b) => compared(b.points, a.points) || a.at - b.at);
  return {
    files: placed.slice(0, max).map(({ file }) => file),
    leftCount: Math.max(0, files.length - max),
  };
}

const POINTS = { frame: 4, coverage: 6, echo: 1, sibling: 2, test: 3 } as const;

/** Infinite values are equal to each other. */
function compared(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
