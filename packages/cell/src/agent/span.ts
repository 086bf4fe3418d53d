/** Ids as a sorted list of spans, both ends included: ids are dense, so thousands take one span. */
export type Span = { readonly from: number; readonly to: number };

/** Adds `from` to `to`, joining it with what it touches. */
export function addSpan(spans: readonly Span[], from: number, to: number): readonly Span[] {
  const before = spans.filter((span) => span.to < from - 1);
  const after = spans.filter((span) => span.from > to + 1);
  const touched = spans.slice(before.length, spans.length - after.length);
  const joined = {
    from: Math.min(from, touched[0]?.from ?? from),
    to: Math.max(to, touched.at(-1)?.to ?? to),
  };
  return [...before, joined, ...after];
}

export function hasId(spans: readonly Span[], id: number): boolean {
  let low = 0;
  let high = spans.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const span = spans[middle];
    if (span === undefined) return false;
    if (id < span.from) high = middle - 1;
    else if (id > span.to) low = middle + 1;
    else return true;
  }
  return false;
}
