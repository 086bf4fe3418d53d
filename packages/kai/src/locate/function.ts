import type { Frame } from "../report/report.ts";
import type { Clues } from "./clue.ts";
import { type Coverage, type Hits, ochiai } from "./coverage.ts";
import type { FunctionFeature, Values } from "./feature.ts";
import type { CodeLine, Place } from "./place.ts";
import { stemOf, type Witness } from "./witness.ts";
import { calledNames, wordCounts, words } from "./word.ts";

/** What all functions are measured against, found once for a ranking. */
export type FunctionView = {
  readonly coverage: Coverage | null;
  /** By place: the highest of any place is 1. */
  readonly ochiai: ReadonlyMap<Place, number>;
  readonly ochiaiMax: number;
  /** By file and line: 1 for the innermost frame, less for those further out. */
  readonly frames: ReadonlyMap<string, number>;
  readonly echoes: ReadonlyMap<string, number>;
  readonly text: ReadonlyMap<Place, number>;
  /** By place: 1 where a failing test calls it, and half of it for each step further. */
  readonly calls: ReadonlyMap<Place, number>;
  /** Of the places that a failing test calls. */
  readonly calledNames: ReadonlySet<string>;
  readonly witness: Witness;
  readonly witnessWords: ReadonlySet<string>;
  /** By file: 1 for the one changed last, and less for those before. */
  readonly recency: ReadonlyMap<string, number>;
};

export function functionView(
  clues: Clues,
  witness: Witness,
  places: readonly Place[],
): FunctionView {
  const { coverage, report, echoes, changedMs } = clues;
  const ochiais = new Map(places.map((place) => [place, ochiaiOf(place, coverage)]));
  const frames = new Map<string, number>();
  for (const failure of report.failures) {
    for (const [depth, frame] of failure.frames.entries()) {
      raise(frames, keyOf(frame), 1 / (1 + depth));
    }
  }
  const echoed = new Map<string, number>();
  for (const echo of echoes) raise(echoed, keyOf(echo), echo.weight);
  const calls = callSteps(calledNames(witness.text), places);
  const said = `${witness.text}\n${witness.message}`;
  const dated = [...changedMs].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return {
    coverage,
    ochiai: ochiais,
    ochiaiMax: [...ochiais.values()].reduce((a, b) => Math.max(a, b), 0),
    frames,
    echoes: echoed,
    text: likeness(said, places),
    calls,
    calledNames: new Set(
      [...calls].flatMap(([{ function: site }, steps]) =>
        steps === 1 && site !== null ? [site.name] : [],
      ),
    ),
    witness,
    witnessWords: new Set(wordCounts(said).keys()),
    recency: new Map(dated.map(([file], rank) => [file, 1 / (1 + rank)])),
  };
}

export function functionValues(place: Place, view: FunctionView): Values<FunctionFeature> {
  const { source, lines } = place;
  const name = place.function?.name ?? "";
  const own = ochiaiFor(place, view);
  const frame = highest(lines, (line) => view.frames.get(keyOf({ file: source.file, line })) ?? 0);
  const calls = view.calls.get(place) ?? 0;
  const stem = stemOf(source.file);
  return {
    crash: frame === 1 ? 1 : 0,
    frame,
    ochiai: own,
    "ochiai-top": view.ochiaiMax > 0 ? own / view.ochiaiMax : 0,
    covered: own > 0 ? 1 : 0,
    uncovered: view.coverage !== null && place.function !== null && own === 0 ? 1 : 0,
    called: calls === 1 ? 1 : 0,
    reached: calls < 1 ? calls : 0,
    rival: calls === 0 && callsAny(place, view.calledNames) ? 1 : 0,
    text: view.text.get(place) ?? 0,
    named: shared(words(name), view.witness.nameWords),
    echo: highest(lines, (line) => view.echoes.get(keyOf({ file: source.file, line })) ?? 0),
    sibling: view.witness.stems.has(stem) ? 1 : 0,
    imported: view.witness.aroundWords.has(stem) ? 1 : 0,
    recent: view.recency.get(source.file) ?? 0,
    "top-level": place.function === null ? 1 : 0,
    "line-count": Math.log(lines.length),
    "piece-count": Math.log(1 + lines.reduce((sum, { pieceCount }) => sum + pieceCount, 0)),
  };
}

function callsAny(place: Place, names: ReadonlySet<string>): boolean {
  for (const name of names.size === 0 ? [] : calledNames(textOf(place))) {
    if (names.has(name)) return true;
  }
  return false;
}

export function keyOf({ file, line }: Pick<Frame, "file" | "line">): string {
  return `${file}:${line}`;
}

/** How many tests ran a line; nothing is told of what is outside of all functions. */
export function hitsOf(place: Place, line: number, coverage: Coverage | null): Hits | null {
  if (coverage === null || place.function === null) return null;
  return coverage.files.get(place.source.file)?.get(line) ?? NO_HITS;
}

const NO_HITS: Hits = { failing: 0, passing: 0 };

function ochiaiFor(place: Place, view: FunctionView): number {
  return view.ochiai.get(place) ?? 0;
}

/** A function was run as often as the line of it that was run most. */
function ochiaiOf(place: Place, coverage: Coverage | null): number {
  if (coverage === null) return 0;
  let most = NO_HITS;
  for (const { line } of place.lines) {
    const hits = hitsOf(place, line, coverage) ?? NO_HITS;
    // The line that defines it is run by whoever defines it.
    if (line === place.function?.firstLine && place.lines.length > 1) continue;
    most = {
      failing: Math.max(most.failing, hits.failing),
      passing: Math.max(most.passing, hits.passing),
    };
  }
  return ochiai(most, coverage);
}

/** The cosine of the words of a text and of each place, the rarer the word the more it counts. */
function likeness(said: string, places: readonly Place[]): ReadonlyMap<Place, number> {
  const known = new Map<string, readonly string[]>();
  const asked = wordCounts(said, known);
  const held = places.map((place) => ({ place, counts: wordCounts(textOf(place), known) }));
  const spread = new Map<string, number>();
  for (const { counts } of held) {
    for (const word of counts.keys()) spread.set(word, (spread.get(word) ?? 0) + 1);
  }
  const weigh = (count: number, word: string): number =>
    (1 + Math.log(count)) * Math.log(1 + places.length / (spread.get(word) ?? places.length));
  const norm = (counts: ReadonlyMap<string, number>): number =>
    Math.sqrt([...counts].reduce((sum, [word, count]) => sum + weigh(count, word) ** 2, 0));
  const askedNorm = norm(asked);
  return new Map(
    held.map(({ place, counts }) => {
      let product = 0;
      for (const [word, count] of counts) {
        const other = asked.get(word);
        if (other !== undefined) product += weigh(count, word) * weigh(other, word);
      }
      return [place, product === 0 ? 0 : product / (askedNorm * norm(counts))];
    }),
  );
}

const STEPS_MAX = 4;

/** From the names a test calls to the functions of these names, and on to those that these call. */
function callSteps(
  names: ReadonlySet<string>,
  places: readonly Place[],
): ReadonlyMap<Place, number> {
  const byName = new Map<string, Place[]>();
  for (const place of places) {
    const name = place.function?.name;
    if (name === undefined) continue;
    byName.set(name, [...(byName.get(name) ?? []), place]);
  }
  const found = new Map<Place, number>();
  let next = new Set([...names].flatMap((name) => byName.get(name) ?? []));
  for (let step = 0; step < STEPS_MAX && next.size > 0; step += 1) {
    const after = new Set<Place>();
    for (const place of next) {
      found.set(place, 0.5 ** step);
    }
    for (const place of next) {
      for (const name of calledNames(textOf(place))) {
        for (const callee of byName.get(name) ?? []) if (!found.has(callee)) after.add(callee);
      }
    }
    next = after;
  }
  return found;
}

function textOf({ source, function: site, lines }: Place): string {
  if (site !== null) return source.text.slice(site.from, site.to);
  return lines.map(({ text }) => text).join("\n");
}

function shared(own: readonly string[], asked: ReadonlySet<string>): number {
  if (own.length === 0) return 0;
  return own.filter((word) => asked.has(word)).length / own.length;
}

function highest(lines: readonly CodeLine[], value: (line: number) => number): number {
  return lines.reduce((most, { line }) => Math.max(most, value(line)), 0);
}

function raise(map: Map<string, number>, key: string, value: number): void {
  map.set(key, Math.max(map.get(key) ?? 0, value));
}
