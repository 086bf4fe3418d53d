/* What a name or a number is, and how one is used between the tokens around it. */

/** What a number begins with. */
export const NUMBER: RegExp = /^\d/;
const NAME = /^[A-Za-z_$]/;
const WORDS: ReadonlySet<string> = new Set(
  `and or not in is if else elif for while return def class import from as function const let var new
  typeof try except catch finally raise throw with lambda pass break continue yield switch case
  None True False null undefined true false int double long boolean String final static public
  private void self this of instanceof await async do`.split(/\s+/),
);

/** Whether a token is a name, and no word of a language. */
export function isName(text: string): boolean {
  return NAME.test(text) && !WORDS.has(text);
}

/** The ways of use that tell a number from a list, a function and an object. */
const ROLE = { called: 1, many: 2, held: 4, counted: 8, index: 16 } as const;
const COUNTING: ReadonlySet<string> = new Set([
  ..."- * / // % ** < > <= >= += -= *= ++ --".split(" "),
]);

/** How a name is used between the tokens around it, as a bit; 0 where it could be anything. */
export function roleOf(farther: string, before: string, after: string, later: string): number {
  let role = 0;
  if (after === "(") role |= ROLE.called;
  if (after === "[") role |= ROLE.many;
  if (after === ".") role |= ROLE.held;
  if (COUNTING.has(after) || COUNTING.has(before)) role |= ROLE.counted;
  if ((after === "+" && NUMBER.test(later)) || (before === "+" && NUMBER.test(farther))) {
    role |= ROLE.counted;
  }
  if (before === "in" || before === "of" || (before === "(" && farther === "len")) {
    role |= ROLE.many;
  }
  if (before === "[" && (after === "]" || after === ":") && isName(farther)) role |= ROLE.index;
  if (before === ":" && after === "]") role |= ROLE.index;
  // What indexes is a number as well.
  return role & ROLE.index ? role | ROLE.counted : role;
}

/** How often a name or a number stands on both sides of a sign. */
export function repeating(tokens: readonly string[]): number {
  let found = 0;
  for (let at = 0; at + 2 < tokens.length; at += 1) {
    const [left, sign, right] = [tokens[at] ?? "", tokens[at + 1] ?? "", tokens[at + 2] ?? ""];
    if (left !== right || (!isName(left) && !NUMBER.test(left)) || !JOINING.has(sign)) continue;
    const [before, after] = [tokens[at - 1] ?? "", tokens[at + 3] ?? ""];
    if (before === "." || after === "." || after === "[" || after === "(") continue;
    found += 1;
  }
  return found;
}

const JOINING: ReadonlySet<string> = new Set(
  ", = == === != !== < > <= >= - / // % and or && || & | ^ is".split(" "),
);

/** How often nothing is added, or one multiplied by. */
export function idling(tokens: readonly string[]): number {
  let found = 0;
  for (const [at, sign] of tokens.entries()) {
    const next = tokens[at + 1] ?? "";
    if (next === "0" && /^[+-]=?$/.test(sign)) found += 1;
    if (next === "1" && /^(\*|\/|\/\/|\*\*)=?$/.test(sign)) found += 1;
  }
  return found;
}
