import type { Kind } from "../syntax/piece.ts";
import { ochiai } from "./coverage.ts";
import type { LineFeature, Values } from "./feature.ts";
import { type FunctionView, hitsOf, keyOf } from "./function.ts";
import type { CodeLine, Place } from "./place.ts";
import { wordCounts } from "./word.ts";

/** What is known of a line of a place. */
export function lineValues(own: CodeLine, place: Place, view: FunctionView): Values<LineFeature> {
  const { source, lines } = place;
  const key = keyOf({ file: source.file, line: own.line });
  const frame = view.frames.get(key) ?? 0;
  const hits = hitsOf(place, own.line, view.coverage);
  const top = view.ochiai.get(place) ?? 0;
  const has = (...kinds: readonly Kind[]): number =>
    kinds.some((kind) => own.kinds.has(kind)) ? 1 : 0;
  const isHeading = own.line === place.function?.firstLine && lines.length > 1;
  const body = isHeading || place.function === null ? lines : lines.slice(1);
  const depth = own.depth - Math.min(...body.map((line) => line.depth));
  return {
    crash: frame === 1 ? 1 : 0,
    frame,
    ochiai:
      hits === null || view.coverage === null || top === 0 ? 0 : ochiai(hits, view.coverage) / top,
    covered: hits !== null && hits.failing > 0 ? 1 : 0,
    // The line of a definition is not run with the body.
    uncovered: hits !== null && hits.failing === 0 && top > 0 && !isHeading ? 1 : 0,
    echo: view.echoes.get(key) ?? 0,
    shared: sharedWords(own.text, view),
    first: own === body[0] ? 1 : 0,
    last: own === body.at(-1) ? 1 : 0,
    heading: isHeading ? 1 : 0,
    nested: Math.log(1 + Math.max(0, depth)),
    condition: has("if", "ternary", "filter"),
    loop: has("while", "for", "each"),
    return: has("return"),
    raise: has("raise"),
    assign: has("assign", "update"),
    call: has("call"),
    comparison: own.comparisonCount > 0 ? 1 : 0,
    arithmetic: own.arithmeticCount > 0 ? 1 : 0,
    index: has("index", "slice"),
    integer: has("integer", "float"),
    string: has("string"),
    "piece-count": Math.log(1 + own.pieceCount),
  };
}

/** Of the words on a line, the part that the failing tests or their messages have too. */
function sharedWords(text: string, view: FunctionView): number {
  const own = [...wordCounts(text).keys()];
  if (own.length === 0) return 0;
  return own.filter((word) => view.witnessWords.has(word)).length / own.length;
}
