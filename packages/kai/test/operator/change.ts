import { edited } from "../../src/candidate.ts";
import { candidates, type Weighed } from "../../src/operator/candidates.ts";
import type { Suspect } from "../../src/operator/region.ts";
import { NO_SYMPTOMS } from "../../src/operator/symptom.ts";
import { type Weights, weights } from "../../src/operator/weights.ts";
import type { Source } from "../../src/syntax/source.ts";

/** A text before and after, written as one: `«before|after»`, as often as needed. */
export function change(text: string): { readonly before: string; readonly after: string } {
  const pattern = /«([^«»]*?)¦([^«»]*?)»/g;
  return { before: text.replace(pattern, "$1"), after: text.replace(pattern, "$2") };
}

/** What a source gives with all of its lines alike, no more than `most`. */
export function all(source: Source, most: number, given: Weights = weights): readonly Weighed[] {
  const found: Weighed[] = [];
  for (const candidate of candidates([source], [whole(source)], NO_SYMPTOMS, given)) {
    found.push(candidate);
    if (found.length >= most) break;
  }
  return found;
}

/** The first candidate that makes a text, with one operator before all others; null when there is none. */
export function made(source: Source, operator: string, text: string): Weighed | null {
  const given = { ...weights, operators: { ...weights.operators, [operator]: 9 } };
  for (const candidate of candidates([source], [whole(source)], NO_SYMPTOMS, given)) {
    if (edited(source.text, source.file, candidate.edits) === text) return candidate;
  }
  return null;
}

function whole(source: Source): Suspect {
  const lastLine = source.line(source.text.length);
  return { file: source.file, firstLine: 1, lastLine, weight: 1 };
}
