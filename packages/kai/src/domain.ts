/**
 * What the tests ask a function about: an input of another make, such as a number below zero where the
 * tests have none, may be none that the function is meant for. Inputs are texts, as each language shows them.
 */

export const DOMAIN_LIMITS = {
  /** Of an input, what is looked at. */
  tokenCount: 400,
} as const;

/** For each input whether it has nothing in it that the first `calledCount`, which the tests gave, have not. */
export function atHome(inputs: readonly string[], calledCount: number): readonly boolean[] {
  const seen = new Set(inputs.slice(0, calledCount).flatMap((input) => traits(input)));
  return inputs.map((input, at) => at < calledCount || traits(input).every((one) => seen.has(one)));
}

/** What kind of value a text shows: two that a function may give back beside each other are of one kind. */
export function kindOf(shown: string): string {
  const [first = ""] = shown;
  if (/[-\d]/.test(first) || /^(Infinity|NaN|inf|nan)\b/.test(shown)) return "number";
  if (/["'`]/.test(first)) return "text";
  if (/^(true|false)\b/i.test(shown)) return "truth";
  if (/^(None|null|undefined)\b/.test(shown)) return "nothing";
  return /^\w+/.exec(shown)?.[0] ?? first;
}

const TOKEN =
  /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*`?|-?\d[\w.+-]*|[A-Za-z_$][\w$.]*|[[\](){},]/g;

/** Of each argument, and of what lies in it: the kinds, and whether they are empty, zero, negative or broken. */
function traits(input: string): readonly string[] {
  const found = new Set<string>();
  let depth = 0;
  let argument = 0;
  let last = "";
  let count = 0;
  for (const [token] of input.matchAll(TOKEN)) {
    count += 1;
    if (count > DOMAIN_LIMITS.tokenCount) break;
    const add = (trait: string): Set<string> => found.add(`${argument}/${depth}/${trait}`);
    if (/^[[({]/.test(token)) {
      add(token);
      depth += 1;
    } else if (/^[\])}]/.test(token)) {
      depth -= 1;
      if (/^[[({]/.test(last)) add("empty");
    } else if (token === ",") {
      if (depth === 0) argument += 1;
    } else if (/^[-\d]/.test(token)) {
      for (const trait of numeric(token)) add(trait);
    } else if (/^["'`]/.test(token)) add(token.length <= 2 ? "no text" : "text");
    else add(token);
    last = token;
  }
  return [...found];
}

function numeric(token: string): readonly string[] {
  const value = Number.parseFloat(token);
  const made = ["number"];
  if (token.startsWith("-")) made.push("negative");
  if (value === 0) made.push("zero");
  if (value !== Math.trunc(value)) made.push("broken");
  return made;
}
