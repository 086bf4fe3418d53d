import { type Candidate, edited } from "../candidate.ts";

/** A candidate as a person reads it: by file, the lines that go and those that come. */
export async function changeOf(
  candidate: Candidate,
  textOf: (file: string) => Promise<string | null>,
): Promise<string> {
  const parts: string[] = [];
  for (const file of new Set(candidate.edits.map((edit) => edit.file))) {
    const text = await textOf(file);
    if (text === null) throw new Error(`a candidate edits ${file}, which is not there`);
    parts.push(fileChange({ file, before: text, after: edited(text, file, candidate.edits) }));
  }
  return parts.join("\n");
}

/** One hunk from the first line that differs to the last, with a line around it. */
export function fileChange(change: {
  readonly file: string;
  readonly before: string;
  readonly after: string;
}): string {
  const [before, after] = [change.before.split(/\r?\n/), change.after.split(/\r?\n/)];
  const least = Math.min(before.length, after.length);
  let first = 0;
  while (first < least && before[first] === after[first]) first += 1;
  let last = 0;
  while (last < least - first && before.at(-1 - last) === after.at(-1 - last)) last += 1;
  const from = Math.max(0, first - 1);
  const marked = (mark: string, lines: readonly string[]): readonly string[] =>
    lines.map((line) => `${mark}${line}`);
  return [
    `--- ${change.file} from line ${from + 1}`,
    ...marked(" ", before.slice(from, first)),
    ...marked("-", before.slice(first, before.length - last)),
    ...marked("+", after.slice(first, after.length - last)),
    ...marked(" ", before.slice(before.length - last, before.length - last + 1)),
  ].join("\n");
}
