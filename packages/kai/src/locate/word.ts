const NAME = /[A-Za-z_$][\w$]*/g;
const CALLED = /([A-Za-z_$][\w$]*)\s*(?:<[\w\s,<>[\]]*>)?\(/g;

/**
 * The names in a text and the words that they are made of, each with how often it is there. `known`
 * keeps the words of names from one text to the next.
 */
export function wordCounts(
  text: string,
  known: Map<string, readonly string[]> = new Map(),
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [name] of text.matchAll(NAME)) {
    if (name.length < 2) continue;
    let parts = known.get(name);
    if (parts === undefined) {
      const own = words(name).filter((word) => word.length > 1);
      parts = own.length > 1 ? [name, ...own] : [name];
      known.set(name, parts);
    }
    for (const word of parts) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/** `readsAll_words2` is `reads`, `all`, `words`. */
export function words(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== "");
}

/** The names that are called in a text, also with no arguments, as methods or as themselves. */
export function calledNames(text: string): ReadonlySet<string> {
  return new Set(
    [...text.matchAll(CALLED)].flatMap(([, name]) => (name === undefined ? [] : [name])),
  );
}
