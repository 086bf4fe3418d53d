import { assignOf, bare, binaryOf, callOf, isValue, type Piece } from "../syntax/piece.ts";
import type { EditFeature } from "./feature.ts";
import { exchanged, type Operator, type Proposal, put, wrapped } from "./operator.ts";
import type { Scope } from "./scope.ts";

/** What is called with what, and what should be, or should not be. */
export const calls: readonly Operator[] = [
  { name: "arguments-swap", kinds: ["call"], gives: ["adjacent"], propose: argumentsSwap },
  { name: "argument-drop", kinds: ["call"], gives: [], propose: argumentDrop },
  {
    name: "argument-add",
    kinds: ["call"],
    gives: ["cousin", "own", "stock"],
    propose: argumentAdd,
  },
  { name: "call-unwrap", kinds: ["call"], gives: ["own"], propose: callUnwrap },
  {
    name: "call-wrap",
    kinds: "value",
    gives: ["fits", "own", "stock"],
    most: 2,
    propose: callWrap,
  },
  { name: "sides-wrap", kinds: ["binary"], gives: ["whole"], propose: sidesWrap },
  { name: "pair-wrap", kinds: "value", gives: ["own"], propose: pairWrap },
  { name: "fold-call", kinds: ["assign"], gives: [], propose: foldCall },
];

/** Methods whose result is of another type than what they are called on. */
const CHANGING =
  /^(length|size|len|count|is[A-Z_]\w*|charAt|get|toCharArray|chars|contains|equals|indexOf|\w*Value|\w*Of)$/;
const ADDED_MAX = 12;
const PAIRED_MAX = 8;

function* argumentsSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const given = callOf(piece)?.arguments ?? [];
  for (const [index, first] of given.entries()) {
    for (const second of given.slice(index + 1)) {
      if (first.kind === "keyword" || second.kind === "keyword") continue;
      if (scope.text(first) === scope.text(second)) continue;
      const next = given[index + 1] === second;
      yield next ? exchanged(first, second, scope, "adjacent") : exchanged(first, second, scope);
    }
  }
}

function* argumentDrop(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  if (call === null || call.arguments.length === 0) return;
  for (const gone of call.arguments) {
    const kept = call.arguments.filter((argument) => argument !== gone);
    yield put(call.list, `(${kept.map(scope.text).join(", ")})`);
  }
}

function* argumentAdd(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  if (call === null || call.list.kind !== "arguments") return;
  const given = call.arguments.map(scope.text);
  // After one that has a name, none without a name can come.
  if (call.arguments.some((argument) => argument.kind === "keyword")) return;
  const added = scope.visible(piece).filter((variable) => variable.kind !== "free");
  for (const variable of added.slice(0, ADDED_MAX)) {
    if (given.includes(variable.text)) continue;
    yield put(call.list, `(${[...given, variable.text].join(", ")})`, "own");
    if (given.length > 0) yield put(call.list, `(${[variable.text, ...given].join(", ")})`, "own");
  }
  const said = scope.text(call.callee);
  for (const [callee, option] of scope.source.grammar.options) {
    if (callee === said) yield put(call.list, `(${[...given, option].join(", ")})`, "cousin");
  }
  for (const option of ["1", "0"]) {
    yield put(call.list, `(${[...given, option].join(", ")})`, "stock");
  }
}

/** `f(x)` as `x`, and `x.f()` as `x`. */
function* callUnwrap(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  if (call === null || !isValue(piece)) return;
  for (const argument of call.arguments.slice(0, 3)) {
    if (argument.kind === "keyword") continue;
    yield put(piece, unwrapped(argument, piece, scope));
  }
  const fixed = scope.source.grammar.static;
  if (call.receiver === null || (fixed && CHANGING.test(scope.text(call.callee)))) return;
  if (fixed && /^[A-Z]\w*$/.test(scope.text(call.receiver))) return;
  yield put(piece, scope.text(call.receiver), "own");
}

function unwrapped(inner: Piece, outer: Piece, scope: Scope): string {
  const text = scope.text(inner);
  const parent = outer.parent?.kind;
  const tightly = parent === "binary" || parent === "unary" || parent === "attribute";
  const loose = inner.kind === "binary" || inner.kind === "ternary";
  return tightly && loose ? `(${text})` : text;
}

function* callWrap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!wrappable(piece)) return;
  const text = scope.text(piece);
  for (const [callee, arity] of scope.members.callees) {
    if (arity !== 1 || text.startsWith(`${callee}(`)) continue;
    yield put(piece, `${callee}(${scope.text(bare(piece))})`, "own");
  }
  const used = new Set(scope.members.methods.get("") ?? []);
  for (const pattern of scope.source.grammar.wraps) {
    const said = /[A-Za-z]+(?=\()/.exec(pattern)?.[0] ?? "";
    if (pattern.startsWith("await") && !scope.source.text.includes("async")) continue;
    const made = wrapped(pattern, piece, scope);
    const features: EditFeature[] = [used.has(said) ? "own" : "stock"];
    if (NUMERIC.test(pattern) === numeric(piece, scope)) features.push("fits");
    yield put(piece, made, ...features);
  }
}

/** Both sides of a comparison in the same call, as two things are compared after the same treatment. */
function* sidesWrap(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null) return;
  const sign = scope.source.text.slice(binary.from, binary.to);
  if (!scope.source.grammar.comparisons.includes(sign)) return;
  const { left, right } = binary;
  if (ATOMS.includes(left.kind) || ATOMS.includes(right.kind)) return;
  for (const pattern of scope.source.grammar.wraps) {
    const cuts = [left, right].map((side) => ({
      from: side.from,
      to: side.to,
      text: wrapped(pattern, side, scope),
    }));
    yield { cuts, features: ["whole"] };
  }
}

const ATOMS: readonly string[] = ["integer", "float", "constant", "string"];

const NUMERIC = /abs|floor|ceil|round|trunc|sqrt|int|float|double|long|Number|i32|i64/i;

/** A difference, a product, a quotient: nothing else is made with their signs. */
function numeric(piece: Piece, scope: Scope): boolean {
  const binary = binaryOf(bare(piece));
  if (binary === null) return false;
  const sign = scope.source.text.slice(binary.from, binary.to);
  return sign !== "+" && scope.source.grammar.arithmetic.includes(sign);
}

/** The larger or the smaller of a value and another. */
function* pairWrap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!wrappable(piece) || piece.kind === "string" || piece.kind === "list") return;
  const { pairs } = scope.source.grammar;
  const text = scope.text(piece);
  const others = scope.visible(piece).filter((variable) => variable.kind !== "free");
  const texts = ["0", "1", ...others.slice(0, PAIRED_MAX).map((variable) => variable.text)];
  for (const pattern of pairs) {
    for (const other of texts) {
      if (other === text) continue;
      yield put(piece, wrapped(pattern, piece, scope, other));
    }
  }
  const target = targetOf(piece, scope);
  if (target === null) return;
  for (const pattern of pairs) yield put(piece, wrapped(pattern, piece, scope, target), "own");
}

/** `best = max(all)` as `best = max(best, one)`: what is gathered goes into the call that gathers. */
function* foldCall(piece: Piece, scope: Scope): Generator<Proposal> {
  const assign = assignOf(piece);
  const call = assign?.value == null ? null : callOf(assign.value);
  if (assign === null || call === null) return;
  const target = scope.text(assign.target);
  const others = scope.visible(piece).filter((variable) => variable.text !== target);
  for (const given of call.arguments) {
    if (scope.text(given) === target) return;
    yield put(call.list, `(${target}, ${scope.text(given)})`);
  }
  for (const variable of others.slice(0, PAIRED_MAX)) {
    if (variable.kind !== "free") yield put(call.list, `(${target}, ${variable.text})`);
  }
}

function targetOf(piece: Piece, scope: Scope): string | null {
  const parent = piece.parent;
  const assign = parent === null ? null : assignOf(parent);
  return assign === null || assign.value !== piece ? null : scope.text(assign.target);
}

/** A whole value that something is done with: not a part of a chain that is wrapped as a whole. */
function wrappable(piece: Piece): boolean {
  if (!isValue(piece) || piece.kind === "paren") return false;
  if (ATOMS.includes(piece.kind) && piece.kind !== "string") return false;
  const parent = piece.parent;
  return !(parent?.kind === "attribute" && parent.field === "function" && piece.kind === "name");
}
