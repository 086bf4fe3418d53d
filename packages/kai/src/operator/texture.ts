import { ancestor, isTarget, type Kind, type Piece, within } from "../syntax/piece.ts";
import type { Cut } from "../syntax/source.ts";
import type { Scope } from "./scope.ts";
import { idling, isName, NUMBER, repeating, roleOf } from "./use.ts";

/**
 * How a change sits in the text of its function: whether what it makes is written elsewhere, which names
 * it begins and ends the use of, and whether it makes something that says nothing. It looks at tokens
 * alone and parses nothing, as it is asked of every change.
 */
export const TEXT_FEATURES = [
  /** Logarithms of the tokens that go and that come. */
  "gone",
  "come",
  /** Of the pairs of tokens that come or go, the part that the function has elsewhere too. */
  "familiar",
  "estranged",
  /** The same of three tokens, all names and all numbers taken for one. */
  "shaped",
  "misshapen",
  /** It reads a name that was only declared, or read once; it ends the last use of one. */
  "wakes",
  "scarce",
  "orphans",
  /** A name that comes: of no use in the function so far, on the same line, on the lines beside it. */
  "stranger",
  "on-line",
  "near-line",
  /** Names that are now used as they are elsewhere, or in ways that have nothing in common with it. */
  "agrees",
  "clashes",
  /** `a - a`, `a = a`, `(a, a)`: made, or undone. */
  "repeats",
  "unrepeats",
  /** `+ 0`, `* 1`. */
  "idle",
  /** Numbers that come: none, one, and others; and whether the function has the number elsewhere. */
  "makes-zero",
  "makes-one",
  "makes-number",
  "known-number",
  /** It makes a line that is of the form of another, or one that no longer is. */
  "in-step",
  "out-of-step",
  /** What comes is said of the value that was expected, and not of the one that was there. */
  "expected",
  /** More is changed than is looked at. */
  "broad",
] as const;

export type TextFeature = (typeof TEXT_FEATURES)[number];

/** The tokens of a region and what is counted of them, found once. */
export type Texture = {
  readonly tokens: readonly Token[];
  readonly names: ReadonlyMap<string, number>;
  /** Of the names, how often they are read. */
  readonly reads: ReadonlyMap<string, number>;
  readonly lines: ReadonlyMap<string, number>;
  readonly numbers: ReadonlyMap<string, number>;
  readonly pairs: ReadonlyMap<string, number>;
  readonly shapes: ReadonlyMap<string, number>;
  /** By name, the ways it is used in, as bits. */
  readonly roles: ReadonlyMap<string, number>;
  readonly byLine: ReadonlyMap<number, ReadonlySet<string>>;
  line(offset: number): number;
};

type Token = { readonly text: string; readonly from: number; readonly to: number };

/** Text that is looked at, in characters, and tokens of a change. */
const LOOKED_MAX = 400;
const TOKEN =
  /[A-Za-z_$][\w$]*|\d[\w.]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|===|!==|\*\*=|\/\/=|\*\*|\/\/|<<|>>|&&|\|\||\?\?|\?\.|=>|->|[<>=!+\-*/%&|^]=|\+\+|--|[^\s\w]/g;

export function textureOf(scope: Scope): Texture {
  const { source, region } = scope;
  const pieces = [...leaves(region)];
  const tokens = pieces.map(({ from, to }) => ({ text: source.text.slice(from, to), from, to }));
  const reads = new Map<string, number>();
  const names = new Map<string, number>();
  const numbers = new Map<string, number>();
  const pairs = new Map<string, number>();
  const shapes = new Map<string, number>();
  const roles = new Map<string, number>();
  const byLine = new Map<number, Set<string>>();
  for (const [at, { text, from }] of tokens.entries()) {
    const before = tokens[at - 1]?.text ?? "";
    const after = tokens[at + 1]?.text ?? "";
    count(pairs, pair(before, text));
    count(shapes, triple(before, text, after));
    if (NUMBER.test(text)) count(numbers, text);
    if (!isName(text)) continue;
    const line = source.line(from);
    byLine.set(line, (byLine.get(line) ?? new Set()).add(text));
    if (before === ".") continue;
    count(names, text);
    const piece = pieces[at];
    const set = piece === undefined || isTarget(piece) || ancestor(piece, PLACES)?.kind !== "block";
    if (!set) count(reads, text);
    const role = roleOf(tokens[at - 2]?.text ?? "", before, after, tokens[at + 2]?.text ?? "");
    roles.set(text, (roles.get(text) ?? 0) | role);
  }
  const lines = new Map<string, number>();
  for (const line of formsOf(tokens, source.line)) count(lines, line);
  const held = { tokens, names, reads, lines, numbers, pairs, shapes, roles, byLine };
  return { ...held, line: source.line };
}

const PLACES: readonly Kind[] = ["parameters", "block"];

/** The lines of some tokens, with all names and all numbers taken for one. */
function* formsOf(tokens: readonly Token[], line: (offset: number) => number): Generator<string> {
  let last = 0;
  let form = "";
  for (const { text, from } of tokens) {
    const own = line(from);
    if (own !== last && form !== "") yield form;
    form = own === last ? `${form} ${shape(text)}` : shape(text);
    last = own;
  }
  if (form !== "") yield form;
}

/** What is known of a change: the features that are not 0. */
export function textValues(
  cuts: readonly Cut[],
  texture: Texture,
  text: string,
  wanted: ReadonlySet<string>,
): readonly (readonly [TextFeature, number])[] {
  const [head] = cuts;
  const tail = cuts.at(-1);
  if (head === undefined || tail === undefined) return [];
  if (tail.to - head.from > LOOKED_MAX) return [["broad", 1]];
  const turn = turned(cuts, texture, text);
  const { gone, come, before, after } = turn;
  const found: (readonly [TextFeature, number])[] = [];
  const give = (name: TextFeature, value: number): void => {
    if (value !== 0) found.push([name, value]);
  };
  give("gone", Math.log(1 + gone.length));
  give("come", Math.log(1 + come.length));
  const made = [before.at(-1) ?? "", ...come, after[0] ?? ""];
  const lost = [before.at(-1) ?? "", ...gone, after[0] ?? ""];
  give(
    "familiar",
    share(made, (at) => known(texture.pairs, pair(at[0], at[1]), 1), 2),
  );
  give(
    "estranged",
    share(lost, (at) => known(texture.pairs, pair(at[0], at[1]), 2), 2),
  );
  const widely = [before.at(-2) ?? "", ...made, after[1] ?? ""];
  const formerly = [before.at(-2) ?? "", ...lost, after[1] ?? ""];
  give(
    "shaped",
    share(widely, (at) => known(texture.shapes, triple(...at), 1), 3),
  );
  give(
    "misshapen",
    share(formerly, (at) => known(texture.shapes, triple(...at), 2), 3),
  );
  namesOf(turn, head.from, texture, give);
  numbersOf(come, gone, texture, give);
  const around = [...before.slice(-3), ...come, ...after.slice(0, 3)];
  const was = [...before.slice(-3), ...gone, ...after.slice(0, 3)];
  const [now, then] = [repeating(around), repeating(was)];
  if (now > then) give("repeats", 1);
  if (now < then) give("unrepeats", 1);
  if (come.some((token) => wanted.has(said(token)) && !gone.includes(token))) give("expected", 1);
  formOf(cuts, texture, text, give);
  if (idling(around) > idling(was)) give("idle", 1);
  return found;
}

/** What a text says without its marks. */
function said(token: string): string {
  return token.replace(/^["'`]|["'`]$/g, "");
}

/** Whether a line that is changed is now of a form that another has, or was. */
function formOf(cuts: readonly Cut[], texture: Texture, text: string, give: Give): void {
  const from = cuts[0]?.from ?? 0;
  const to = cuts.at(-1)?.to ?? 0;
  const start = text.lastIndexOf("\n", from - 1) + 1;
  const feed = text.indexOf("\n", to);
  const end = feed < 0 ? text.length : feed;
  if (end - start > LOOKED_MAX || cuts.some((cut) => cut.text.includes("\n"))) return;
  if (text.slice(from, to).includes("\n")) return;
  let made = "";
  let at = start;
  for (const cut of cuts) {
    made += text.slice(at, cut.from) + cut.text;
    at = cut.to;
  }
  made += text.slice(at, end);
  const now = lineForm(made);
  const then = lineForm(text.slice(start, end));
  if (now === then) return;
  if (known(texture.lines, now, 1)) give("in-step", 1);
  if (known(texture.lines, then, 2)) give("out-of-step", 1);
}

function lineForm(line: string): string {
  return (line.match(TOKEN) ?? []).map(shape).join(" ");
}

type Turn = {
  readonly gone: readonly string[];
  readonly come: readonly string[];
  /** Tokens that stay, up to four on each side. */
  readonly before: readonly string[];
  readonly after: readonly string[];
};

/** The tokens that a change takes out and puts in, with none that stay. */
function turned(cuts: readonly Cut[], { tokens }: Texture, text: string): Turn {
  const from = cuts[0]?.from ?? 0;
  const to = cuts.at(-1)?.to ?? 0;
  let first = lowest(tokens, from);
  let last = first;
  while ((tokens[last]?.from ?? Infinity) < to) last += 1;
  const start = Math.min(from, tokens[first]?.from ?? from);
  const end = Math.max(to, tokens[last - 1]?.to ?? to);
  let made = "";
  let at = start;
  for (const cut of cuts) {
    made += text.slice(at, cut.from) + cut.text;
    at = cut.to;
  }
  made += text.slice(at, end);
  let come: readonly string[] = made.slice(0, LOOKED_MAX).match(TOKEN) ?? [];
  let gone = tokens.slice(first, last).map((token) => token.text);
  let same = 0;
  while (same < Math.min(come.length, gone.length) && come[same] === gone[same]) same += 1;
  come = come.slice(same);
  gone = gone.slice(same);
  first += same;
  let tail = 0;
  while (tail < Math.min(come.length, gone.length) && come.at(-1 - tail) === gone.at(-1 - tail)) {
    tail += 1;
  }
  last -= tail;
  return {
    come: come.slice(0, come.length - tail),
    gone: gone.slice(0, gone.length - tail),
    before: tokens.slice(Math.max(0, first - 4), first).map((token) => token.text),
    after: tokens.slice(last, last + 4).map((token) => token.text),
  };
}

/** The first token that ends after an offset. */
function lowest(tokens: readonly Token[], offset: number): number {
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tokens[middle]?.to ?? Infinity) > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

type Give = (name: TextFeature, value: number) => void;

function namesOf(turn: Turn, from: number, texture: Texture, give: Give): void {
  const { come, gone, before } = turn;
  const fresh = come.filter((text) => isName(text) && !gone.includes(text));
  const left = gone.filter((text) => isName(text) && !come.includes(text));
  const line = texture.line(from);
  const plain = fresh.filter((text) => text !== "" && before.at(-1) !== ".");
  if (plain.some((text) => texture.names.has(text) && !texture.reads.has(text))) give("wakes", 1);
  else if (plain.some((text) => texture.reads.get(text) === 1)) give("scarce", 1);
  if (left.some((text) => texture.reads.get(text) === 1)) give("orphans", 1);
  if (fresh.length > 0) {
    const part = (has: (text: string) => boolean): number =>
      fresh.filter(has).length / fresh.length;
    const on = (text: string, at: number): boolean => texture.byLine.get(at)?.has(text) === true;
    give(
      "stranger",
      part((text) => !texture.names.has(text)),
    );
    give(
      "on-line",
      part((text) => on(text, line)),
    );
    give(
      "near-line",
      part((text) => on(text, line - 1) || on(text, line + 1)),
    );
  }
  rolesOf(turn, texture, give);
}

/** Whether the names of a change, and those beside it, can be what they are now used as. */
function rolesOf({ come, gone, before, after }: Turn, { roles }: Texture, give: Give): void {
  const now = [...before.slice(-3), ...come, ...after.slice(0, 3)];
  const first = Math.min(3, before.length);
  const single = come.length === 1 && gone.length === 1;
  let agreed = 0;
  let clashed = 0;
  for (let at = Math.max(0, first - 1); at <= first + come.length; at += 1) {
    const name = now[at] ?? "";
    if (!isName(name) || now[at - 1] === ".") continue;
    const own = roles.get(name) ?? 0;
    const role = roleOf(now[at - 2] ?? "", now[at - 1] ?? "", now[at + 1] ?? "", now[at + 2] ?? "");
    // Where a place tells nothing, the name that stood there does.
    const stood = role === 0 && single && at === first ? (roles.get(gone[0] ?? "") ?? 0) : role;
    if ((own & stood) !== 0) agreed += 1;
    else if (own !== 0 && stood !== 0) clashed += 1;
  }
  if (clashed > 0) give("clashes", 1);
  else if (agreed > 0) give("agrees", 1);
}

function numbersOf(
  come: readonly string[],
  gone: readonly string[],
  texture: Texture,
  give: Give,
): void {
  const number = come.find((text) => NUMBER.test(text) && !gone.includes(text));
  if (number === undefined) return;
  give(number === "0" ? "makes-zero" : number === "1" ? "makes-one" : "makes-number", 1);
  if (texture.numbers.has(number)) give("known-number", 1);
}

/** Of the runs of some tokens, the part that is as asked. */
function share(
  tokens: readonly string[],
  has: (at: [string, string, string]) => boolean,
  width: 2 | 3,
): number {
  let found = 0;
  const all = tokens.length - width + 1;
  for (let at = 0; at < all; at += 1) {
    if (has([tokens[at] ?? "", tokens[at + 1] ?? "", tokens[at + 2] ?? ""])) found += 1;
  }
  return all > 0 ? found / all : 0;
}

function known(counts: ReadonlyMap<string, number>, key: string, times: number): boolean {
  return (counts.get(key) ?? 0) >= times;
}

function pair(a: string, b: string): string {
  return `${a} ${b}`;
}

function triple(a: string, b: string, c: string): string {
  return `${shape(a)} ${shape(b)} ${shape(c)}`;
}

function shape(text: string): string {
  if (isName(text)) return "n";
  if (NUMBER.test(text)) return "0";
  return /^["'`]/.test(text) ? '"' : text;
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** The tokens of a tree: a text is one, and a comment none. */
function* leaves(region: Piece): Generator<Piece> {
  let end = -1;
  for (const piece of within(region)) {
    if (piece.from < end || piece.kind === "comment" || piece.from === piece.to) continue;
    if (piece.children.length > 0 && piece.kind !== "string") continue;
    end = piece.to;
    yield piece;
  }
}
