/** Lines of a file from one to another, both counted from 1 and included. */
export type Range = { readonly from: number; readonly to: number };

/**
 * Lines with their numbers; what is left out between ranges is shown as dots. No mark of byte order
 * is shown.
 */
export function listing(file: string, text: string, ranges: readonly Range[]): string {
  const lines = linesOf(text);
  const shown = merged(ranges, lines.length);
  const all = shown.length === 1 && shown[0]?.from === 1 && shown[0].to === lines.length;
  const width = String(shown.at(-1)?.to ?? 1).length;
  const parts = shown.map(({ from, to }) =>
    lines
      .slice(from - 1, to)
      .map((line, at) => `${String(from + at).padStart(width)}| ${line}`)
      .join("\n"),
  );
  const head = `=== ${file} (${all ? "all of it" : `parts of its ${lines.length} lines`})`;
  return [head, parts.join("\n...\n")].join("\n");
}

export function linesOf(text: string): readonly string[] {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  // What follows the last line's end is no line.
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  return lines;
}

/** A line with those around it. */
export function around(line: number, count: number): Range {
  return { from: line - count, to: line + count };
}

/** In order, within the file, none touching another. */
export function merged(ranges: readonly Range[], lineCount: number): readonly Range[] {
  const made: Range[] = [];
  const inside = ranges.map(({ from, to }) => ({
    from: Math.max(1, from),
    to: Math.min(lineCount, to),
  }));
  for (const range of inside.toSorted((a, b) => a.from - b.from || a.to - b.to)) {
    const last = made.at(-1);
    if (range.to < range.from) continue;
    if (last !== undefined && range.from <= last.to + 1) {
      made[made.length - 1] = { from: last.from, to: Math.max(last.to, range.to) };
    } else made.push(range);
  }
  return made;
}
