import { assignOf, callOf, isTarget, isValue, type Piece, parts } from "../syntax/piece.ts";
import { exchanged, filled, type Operator, type Proposal, put, tight } from "./operator.ts";
import type { Scope } from "./scope.ts";

/** Which elements: an index, a slice's bounds, the order of a pair, what a loop goes through. */
export const indices: readonly Operator[] = [
  { name: "slice-add", kinds: "value", gives: ["long", "stock", "unit"], propose: sliceAdd },
  {
    name: "slice-bound",
    kinds: ["slice"],
    gives: ["boundary", "mirror", "own"],
    propose: sliceBound,
  },
  { name: "slice-drop", kinds: ["index", "slice", "call"], gives: [], propose: sliceDrop },
  { name: "index-value", kinds: ["index"], gives: ["unit"], propose: indexValue },
  { name: "index-swap", kinds: ["index"], gives: ["adjacent"], propose: indexSwap },
  {
    name: "elements-swap",
    kinds: ["tuple", "list", "pattern", "arguments"],
    gives: ["adjacent"],
    propose: elementsSwap,
  },
  {
    name: "range-start",
    kinds: ["call"],
    gives: ["twice", "unit", "zero"],
    most: 2,
    propose: rangeStart,
  },
];

const BOUNDS_MAX = 8;
const SEQUENCES: readonly string[] = ["name", "attribute", "call", "index"];

/** `x[1:]`, `x[k:]`, `x[:k]`, `x[::-1]` for `x`. */
function* sliceAdd(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece) || !SEQUENCES.includes(piece.kind)) return;
  const parent = piece.parent?.kind;
  if (parent === "attribute" || parent === "slice" || piece.field === "function") return;
  // Of Java's sequences each kind is cut in its own way, and only a name says which it is.
  if (scope.source.language === "java" && piece.kind !== "name") return;
  const { tails, heads, whole } = scope.source.grammar;
  const text = tight(piece, scope);
  for (const pattern of whole) yield put(piece, filled(pattern, text, ""), "stock");
  const bounds = scope.visible(piece).filter((variable) => variable.kind !== "free");
  for (const variable of bounds.slice(0, BOUNDS_MAX)) {
    if (variable.text === text) continue;
    for (const pattern of [...tails, ...heads])
      yield put(piece, filled(pattern, text, variable.text));
  }
  if (parent === "index" || scope.source.language === "java") return;
  for (const variable of bounds.slice(0, BOUNDS_MAX)) {
    if (variable.text !== text) yield put(piece, `${text}[${variable.text}]`, "long");
  }
  for (const place of scope.source.grammar.indented ? ["0", "-1", "1"] : ["0", "1"]) {
    yield put(piece, `${text}[${place}]`, "unit");
  }
}

/** A bound more, a bound less, and bounds that change sides. */
function* sliceBound(piece: Piece, scope: Scope): Generator<Proposal> {
  const said = scope.text(piece);
  const held = parts(piece).filter((part) => part.field !== "operand");
  const colon = piece.children.find((child) => !child.named && /^(:|\.\.=?)$/.test(child.type));
  if (colon === undefined) return;
  if (colon.type === "..") yield put(colon, "..=", "boundary");
  if (colon.type === "..=") yield put(colon, "..", "boundary");
  const before = held.filter((part) => part.to <= colon.from)[0];
  const after = held.filter((part) => part.from >= colon.to)[0];
  const at = (offset: number, text: string): Proposal => ({
    cuts: [{ from: offset, to: offset, text }],
    features: [],
  });
  if (before !== undefined && after === undefined) yield moved(before, colon, scope, said);
  if (before === undefined && after !== undefined) yield moved(after, colon, scope, said);
  for (const bound of [before, after]) if (bound !== undefined) yield put(bound, "", "own");
  const named = scope.visible(piece).filter((variable) => variable.kind !== "free");
  const texts = ["1", "-1", ...named.slice(0, BOUNDS_MAX).map((variable) => variable.text)];
  for (const text of texts) {
    if (before === undefined) yield at(colon.from, text);
    if (after === undefined) yield at(colon.to, text);
  }
}

function moved(bound: Piece, colon: Piece, scope: Scope, said: string): Proposal {
  const text = scope.text(bound);
  const from = Math.min(bound.from, colon.from);
  const to = Math.max(bound.to, colon.to);
  const sign = said.includes("..") ? ".." : ":";
  const made = bound.from < colon.from ? `${sign}${text}` : `${text}${sign}`;
  return { cuts: [{ from, to, text: made }], features: ["mirror"] };
}

/** The sequence itself for a part of it. */
function* sliceDrop(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece)) return;
  if (piece.kind === "call") {
    const call = callOf(piece);
    // The last of a chain of calls is taken off by unwrapping; this takes off the one before it.
    const inner = call?.receiver == null ? null : callOf(call.receiver);
    if (call?.receiver != null && inner?.receiver != null) {
      yield put(call.receiver, scope.text(inner.receiver));
    }
    return;
  }
  const base = parts(piece)[0];
  if (base !== undefined && SEQUENCES.includes(base.kind)) yield put(piece, scope.text(base));
}

function* indexValue(piece: Piece, scope: Scope): Generator<Proposal> {
  const [, at] = parts(piece);
  if (at === undefined || at.kind === "slice") return;
  const said = scope.text(at);
  const stock = scope.source.grammar.indented ? ["0", "-1", "1"] : ["0", "1"];
  for (const text of stock) {
    if (text !== said) yield put(at, text, "unit");
  }
  const named = scope.visible(piece).filter((variable) => variable.kind !== "free");
  for (const variable of named.slice(0, BOUNDS_MAX)) {
    if (variable.text !== said && at.kind !== "name") yield put(at, variable.text);
  }
}

/** `a[j][i]` for `a[i][j]`, and `b[a]` for `a[b]`. */
function* indexSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const [base, at] = parts(piece);
  if (base === undefined || at === undefined) return;
  const third = parts(piece)[2];
  if (third !== undefined) yield exchanged(at, third, scope, "adjacent");
  const inner = base.kind === "index" ? parts(base)[1] : undefined;
  if (inner !== undefined && scope.text(inner) !== scope.text(at)) {
    yield exchanged(inner, at, scope, "adjacent");
  }
  if (base.kind === "name" && at.kind === "name") yield exchanged(base, at, scope);
}

function* elementsSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  // What a call is given is exchanged by an operator of its own.
  if (piece.kind === "arguments" && piece.parent?.kind === "call") {
    const [only] = parts(piece);
    if (only?.kind !== "paren") return;
    const pair = parts(only)[0];
    const [first, second] = pair === undefined ? [] : parts(pair);
    if (pair?.type === "sequence_expression" && first !== undefined && second !== undefined) {
      yield exchanged(first, second, scope);
    }
    return;
  }
  const held = parts(piece);
  if (held.length > 4) return;
  for (const [index, first] of held.entries()) {
    const second = held[index + 1];
    if (second === undefined || scope.text(first) === scope.text(second)) continue;
    yield exchanged(first, second, scope, "adjacent");
  }
  if (piece.parent === null || !isTarget(piece)) return;
  const value = assignOf(piece.parent)?.value;
  const [a, b, more] = value == null ? [] : parts(value);
  if (a !== undefined && b !== undefined && more === undefined) yield exchanged(a, b, scope);
}

/** `range(1, n)` and `range(n)`, for languages that count so. */
function* rangeStart(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  if (call === null || scope.text(call.callee) !== "range") return;
  const given = call.arguments.map(scope.text);
  const [first, second] = given;
  if (given.length === 1 && first !== undefined) {
    for (const start of ["1", "2"]) yield put(call.list, `(${start}, ${first})`, "unit");
    yield put(call.list, `(1, ${first} + 1)`, "unit", "twice");
    yield put(call.list, `(len(${first}))`);
    yield put(call.list, `(${first} - 1, -1, -1)`, "twice");
  }
  if (given.length === 2 && second !== undefined) {
    yield put(call.list, `(${second})`, "zero");
    yield put(call.list, `(${first}, ${second}, 2)`);
  }
}
