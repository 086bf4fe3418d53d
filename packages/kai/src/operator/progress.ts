import {
  assignOf,
  callOf,
  conditionOf,
  core,
  field,
  type Piece,
  parts,
  statementsOf,
  within,
} from "../syntax/piece.ts";
import { after, before, leads } from "./line.ts";
import { filled, type Operator, type Proposal } from "./operator.ts";
import type { Scope } from "./scope.ts";

/** What a loop is to change, and does not: what it goes on with, and what the function gives back. */
export const progress: readonly Operator[] = [
  { name: "loop-advance", kinds: ["while"], gives: ["unit"], propose: loopAdvance },
  {
    name: "result-gather",
    kinds: ["while", "for", "each"],
    gives: ["own", "stock"],
    propose: resultGather,
  },
];

const VALUES_MAX = 6;
const PLACES_MAX = 6;

/** A name that a loop's condition asks for, and that nothing in the loop changes, changed there. */
function* loopAdvance(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  const body = bodyOf(piece, scope);
  const [head] = body;
  if (condition === null || head === undefined) return;
  const changing = changed(piece, scope);
  const { end } = scope.members;
  const whole = scope.source.grammar.indented ? "//=" : "/=";
  const names = [...within(condition)].filter(({ kind }) => kind === "name").map(scope.text);
  for (const name of new Set(names)) {
    if (changing.has(name)) continue;
    for (const sign of ["-=", "+="]) {
      for (const place of body) yield after(place, `${name} ${sign} 1${end}`, scope, "unit");
    }
    for (const value of valuesIn(piece, head, name, scope)) {
      for (const sign of ["-=", "%=", "+=", whole]) {
        for (const place of body) yield after(place, `${name} ${sign} ${value}${end}`, scope);
      }
    }
  }
}

/** What is given back as it began, though a loop is there to gather it. */
function* resultGather(piece: Piece, scope: Scope): Generator<Proposal> {
  const body = bodyOf(piece, scope);
  const [head] = body;
  const last = body.at(-1);
  if (head === undefined || last === undefined) return;
  const changing = changed(scope.region, scope);
  const results = scope.pieces
    .filter(({ kind }) => kind === "return")
    .map((each) => parts(each)[0]);
  const names = results
    .filter((each) => each?.kind === "name")
    .map((each) => each && scope.text(each));
  for (const name of new Set(names)) {
    const start = name === undefined ? null : startOf(name, piece, scope);
    if (name === undefined || start === null || changing.has(name)) continue;
    for (const value of valuesIn(piece, last, name, scope)) {
      for (const [made, feature] of gatherings(name, value, start, scope)) {
        const text = `${made}${scope.members.end}`;
        yield after(last, text, scope, feature);
        if (last !== head) yield before(head, text, scope, feature);
      }
    }
  }
}

type Gathering = readonly [text: string, feature: "own" | "stock"];

/** By what it begins as: a list takes elements, and all else is added to. */
function* gatherings(
  name: string,
  value: string,
  start: Piece,
  scope: Scope,
): Generator<Gathering> {
  const { gathers, wraps } = scope.source.grammar;
  if (start.kind === "list" || start.kind === "call" || start.kind === "map") {
    for (const pattern of gathers) yield [filled(pattern, name, value), "own"];
    return;
  }
  yield [`${name} += ${value}`, "own"];
  if (start.kind !== "string") return;
  const textual = wraps.filter((wrap) => TEXTUAL.some((one) => wrap.startsWith(one)));
  for (const wrap of textual.toSorted((a, b) => rankOf(a) - rankOf(b))) {
    yield [`${name} += ${filled(wrap, value, "")}`, "stock"];
  }
}

/** What makes a piece of text of a number, a letter's code first. */
const TEXTUAL: readonly string[] = ["String.fromCharCode(", "chr(", "(char) ", "str(", "String("];

function rankOf(wrap: string): number {
  return TEXTUAL.findIndex((one) => wrap.startsWith(one));
}

/** The statements of a loop after which one can stand; where lines make blocks, each with its own. */
function bodyOf(loop: Piece, scope: Scope): readonly Piece[] {
  const body = field(loop, "body");
  const block = body === null ? undefined : [...within(body)].find(({ kind }) => kind === "block");
  const all = block === undefined ? [] : statementsOf(block).slice(-PLACES_MAX);
  const { indented } = scope.source.grammar;
  return all.filter(
    (each) => (!indented || leads(each, scope)) && !JUMPS.includes(core(each).kind),
  );
}

const JUMPS: readonly string[] = ["break", "continue", "return", "raise"];

/** Names that something in a piece may change: an assignment but for a declaration's, or a method's call. */
function changed(piece: Piece, scope: Scope): ReadonlySet<string> {
  const found = new Map<string, number>();
  const add = (target: Piece, by: number): void => {
    for (const each of within(target)) {
      if (each.kind === "name")
        found.set(scope.text(each), (found.get(scope.text(each)) ?? 0) + by);
    }
  };
  for (const each of within(piece)) {
    const assign = assignOf(each);
    // Of the whole function one of them is what the name begins as.
    const isStart = piece === scope.region && assign?.operator?.type === "=";
    if (assign !== null) add(assign.target, isStart ? 0.5 : 1);
    if (each.kind === "update") add(each, 1);
    const receiver = callOf(each)?.receiver;
    if (receiver?.kind === "name") add(receiver, 1);
  }
  return new Set([...found].filter(([, count]) => count >= 1).map(([name]) => name));
}

/** What a name is first assigned, before a loop. */
function startOf(name: string, loop: Piece, scope: Scope): Piece | null {
  for (const piece of scope.pieces) {
    if (piece.from >= loop.from) return null;
    const assign = assignOf(piece);
    if (assign !== null && scope.text(assign.target) === name) return assign.value;
  }
  return null;
}

/** Names that can be read there, then what the loop reads of places and calls. */
function valuesIn(loop: Piece, at: Piece, name: string, scope: Scope): readonly string[] {
  const names = scope.visible(at).filter((variable) => variable.kind !== "free");
  const near = names.toSorted((a, b) => Number(b.from > loop.from) - Number(a.from > loop.from));
  const inside = scope
    .donors()
    .filter(({ kind, piece }) => (kind === "index" || kind === "call") && piece.from > loop.from);
  const texts = [...near.slice(0, VALUES_MAX), ...inside.slice(0, VALUES_MAX)];
  return [...new Set(texts.map(({ text }) => text))].filter((text) => text !== name);
}
