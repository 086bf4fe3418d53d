/** How close two names are, and which names say the contrary of each other: nothing but words. */

/** The words of a name: `maxDepth` and `max_depth` have two. */
export function words(name: string): readonly string[] {
  const split = name.replace(/([a-z\d])([A-Z])/g, "$1 $2").replace(/([A-Za-z])(\d)/g, "$1 $2");
  return split.split(/[^A-Za-z\d]+/).filter((word) => word !== "");
}

/** A word in common, one letter apart, or of one letter both. */
export function similar(a: string, b: string): boolean {
  if (a.length === 1 && b.length === 1) return true;
  const own = new Set(words(a).map((word) => word.toLowerCase()));
  if (words(b).some((word) => word.length > 1 && own.has(word.toLowerCase()))) return true;
  if (a.length > 2 && b.length > 2 && (a.startsWith(b) || b.startsWith(a))) return true;
  return near(a, b);
}

/** The name with one of its words turned into its contrary; none where no word has one. */
export function contraries(name: string): readonly string[] {
  const found = new Set<string>();
  for (const word of words(name)) {
    const others = CONTRARY.get(word.toLowerCase());
    if (others === undefined) continue;
    const at = name.indexOf(word);
    for (const other of others) {
      found.add(name.slice(0, at) + cased(other, word) + name.slice(at + word.length));
    }
  }
  return [...found];
}

/** A word with the capitals of another. */
function cased(word: string, like: string): string {
  if (like === like.toLowerCase()) return word;
  if (like.length > 1 && like === like.toUpperCase()) return word.toUpperCase();
  return word.charAt(0).toUpperCase() + word.slice(1);
}

const CONTRARIES: readonly (readonly [string, string])[] = [
  ["min", "max"],
  ["low", "high"],
  ["lower", "upper"],
  ["lo", "hi"],
  ["start", "end"],
  ["start", "stop"],
  ["begin", "end"],
  ["first", "last"],
  ["first", "second"],
  ["left", "right"],
  ["top", "bottom"],
  ["up", "down"],
  ["next", "prev"],
  ["next", "previous"],
  ["before", "after"],
  ["in", "out"],
  ["incoming", "outgoing"],
  ["input", "output"],
  ["source", "target"],
  ["source", "destination"],
  ["src", "dst"],
  ["from", "to"],
  ["row", "col"],
  ["row", "column"],
  ["rows", "cols"],
  ["rows", "columns"],
  ["width", "height"],
  ["x", "y"],
  ["head", "tail"],
  ["front", "back"],
  ["push", "pop"],
  ["add", "remove"],
  ["add", "sub"],
  ["insert", "delete"],
  ["open", "close"],
  ["old", "new"],
  ["key", "value"],
  ["keys", "values"],
  ["any", "all"],
  ["some", "every"],
  ["parent", "child"],
  ["inner", "outer"],
  ["floor", "ceil"],
  ["asc", "desc"],
  ["read", "write"],
  ["get", "set"],
  ["encode", "decode"],
  ["enable", "disable"],
  ["enabled", "disabled"],
  ["show", "hide"],
  ["lock", "unlock"],
  ["request", "response"],
  ["prefix", "suffix"],
  ["even", "odd"],
  ["success", "failure"],
  ["true", "false"],
  ["above", "below"],
  ["successor", "predecessor"],
  ["numerator", "denominator"],
  ["minute", "second"],
  ["hour", "minute"],
];

const CONTRARY: ReadonlyMap<string, readonly string[]> = contraryMap();

function contraryMap(): ReadonlyMap<string, readonly string[]> {
  const map = new Map<string, string[]>();
  for (const [one, other] of CONTRARIES) {
    map.set(one, [...(map.get(one) ?? []), other]);
    map.set(other, [...(map.get(other) ?? []), one]);
  }
  return map;
}

function near(a: string, b: string): boolean {
  if (a === b || Math.abs(a.length - b.length) > 1 || Math.min(a.length, b.length) < 2)
    return false;
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  const restA = a.slice(start);
  const restB = b.slice(start);
  return restA.slice(1) === restB || restB.slice(1) === restA || restA.slice(1) === restB.slice(1);
}
