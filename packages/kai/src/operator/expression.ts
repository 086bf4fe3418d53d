import { bare, binaryOf, callOf, isTarget, isValue, type Piece, parts } from "../syntax/piece.ts";
import { quoteOf } from "./literal.ts";
import { similar } from "./naming.ts";
import {
  binding,
  exchanged,
  type Operator,
  operand,
  type Proposal,
  put,
  settled,
  strength,
} from "./operator.ts";
import type { Donor, Scope } from "./scope.ts";
import { apart, numeric, sortOf } from "./typing.ts";

/** The shape of an expression: a step more or less, a term, an order, brackets, a sign, another. */
export const expressions: readonly Operator[] = [
  {
    name: "expression-step",
    kinds: "value",
    gives: ["step-down", "step-up"],
    propose: expressionStep,
  },
  { name: "expression-offset", kinds: "value", gives: [], propose: expressionOffset },
  { name: "expression-scale", kinds: "value", gives: [], propose: expressionScale },
  {
    name: "join-add",
    kinds: ["list", "comprehension", "string", "index"],
    gives: [],
    propose: joinAdd,
  },
  { name: "term-drop", kinds: ["binary"], gives: ["own"], propose: termDrop },
  { name: "operands-swap", kinds: ["binary"], gives: [], propose: operandsSwap },
  { name: "regroup", kinds: ["binary"], gives: [], propose: regroup },
  { name: "sign-change", kinds: "value", gives: [], propose: signChange },
  { name: "donor-swap", kinds: "value", gives: ["frequent", "same-shape"], propose: donorSwap },
  {
    name: "target-swap",
    kinds: ["index", "attribute", "name"],
    gives: ["same-shape"],
    propose: targetSwap,
  },
  { name: "ternary-arm", kinds: ["ternary"], gives: [], propose: ternaryArm },
  { name: "text-join", kinds: ["binary"], gives: ["own", "stock"], propose: textJoin },
];

const DONORS_MAX = 32;
const OFFSETS_MAX = 10;
const SEPARATORS: readonly string[] = [" ", ".", ",", "-", "_", "/", ":", "\\n"];

const COUNTABLE = ["name", "call", "binary", "index", "attribute", "unary"] as const;

function* expressionStep(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!countable(piece, scope) || stepped(piece, scope)) return;
  for (const [sign, feature] of [
    ["+", "step-up"],
    ["-", "step-down"],
  ] as const) {
    const made = `${operand(piece, sign, false, scope)} ${sign} 1`;
    yield put(piece, settled(made, sign, piece), feature);
  }
}

/** A sum that has a number in it already takes its step there. */
function stepped(piece: Piece, scope: Scope): boolean {
  return [piece, piece.parent].some((sum) => {
    const binary = sum === null ? null : binaryOf(sum);
    if (binary === null || ![binary.left, binary.right].some((side) => side.kind === "integer")) {
      return false;
    }
    return /^[-+]$/.test(scope.source.text.slice(binary.from, binary.to));
  });
}

function* expressionOffset(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!countable(piece, scope)) return;
  const text = scope.text(piece);
  const visible = scope.visible(piece).filter((variable) => variable.kind !== "free");
  const calls = scope.donors().filter((donor) => donor.kind === "call" || donor.kind === "index");
  const near = visible.slice(0, OFFSETS_MAX).map((variable) => variable.text);
  const others = [...near, ...calls.slice(0, 4).map((donor) => donor.text)];
  for (const sign of ["-", "+", "*", "%"]) {
    for (const other of others) {
      if (other === text && sign !== "*" && sign !== "+") continue;
      const left = operand(piece, sign, false, scope);
      yield put(piece, settled(`${left} ${sign} ${other}`, sign, piece));
      if (sign === "-" || (sign === "+" && piece.kind === "list")) {
        const right = operand(piece, sign, true, scope);
        yield put(piece, settled(`${other} ${sign} ${right}`, sign, piece));
      }
    }
  }
}

/** Twice, half and the square of a number. */
function* expressionScale(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!countable(piece, scope)) return;
  for (const sign of ["**", "*", "//", "/"]) {
    if (!scope.source.grammar.arithmetic.includes(sign)) continue;
    yield put(piece, settled(`${operand(piece, sign, false, scope)} ${sign} 2`, sign, piece));
  }
  if (piece.kind === "name") {
    yield put(piece, settled(`${scope.text(piece)} * ${scope.text(piece)}`, "*", piece));
  }
}

/** A list or a text with another before it, or after it. */
function* joinAdd(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece) || scope.source.language === "go") return;
  const text = scope.text(piece);
  const visible = scope.visible(piece).filter((variable) => variable.kind !== "free");
  for (const variable of visible.slice(0, OFFSETS_MAX)) {
    if (variable.text === text) continue;
    yield put(piece, settled(`${variable.text} + ${text}`, "+", piece));
    yield put(piece, settled(`${text} + ${variable.text}`, "+", piece));
  }
}

function* termDrop(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null) return;
  const sign = scope.source.text.slice(binary.from, binary.to);
  const logic = strength(sign) <= 2;
  // Where truths have a type, a side of a comparison is none.
  if (scope.source.grammar.static && strength(sign) === 4) return;
  for (const kept of [binary.left, binary.right]) {
    const inner = bare(kept);
    const whole = piece.parent?.kind === "binary" && inner !== kept;
    const text = scope.text(whole ? kept : inner);
    yield logic ? put(piece, text, "own") : put(piece, text);
  }
}

const COMMUTING: ReadonlySet<string> = new Set(["+", "*", "&", "|", "^", "==", "!=", "===", "!=="]);

function* operandsSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null) return;
  const sign = scope.source.text.slice(binary.from, binary.to);
  // The sum of two numbers is the same either way, and that of two texts is not.
  const text = [binary.left, binary.right].some((side) => TEXTS.includes(side.kind));
  if (COMMUTING.has(sign) && !(sign === "+" && text)) return;
  if (scope.text(binary.left) === scope.text(binary.right)) return;
  yield exchanged(binary.left, binary.right, scope);
}

const TEXTS: readonly string[] = ["string", "list", "call", "index", "name", "comprehension"];

/** `a * b + c` as `a * (b + c)`, and brackets that group taken away. */
function* regroup(piece: Piece, scope: Scope): Generator<Proposal> {
  const outer = binaryOf(piece);
  if (outer === null) return;
  const sign = scope.source.text.slice(outer.from, outer.to);
  const left = binaryOf(outer.left);
  if (left !== null) {
    const inner = scope.source.text.slice(left.from, left.to);
    const rest = `(${scope.text(left.right)} ${sign} ${scope.text(outer.right)})`;
    yield put(piece, `${scope.text(left.left)} ${inner} ${rest}`);
  }
  const right = binaryOf(outer.right);
  if (right !== null) {
    const inner = scope.source.text.slice(right.from, right.to);
    const first = `(${scope.text(outer.left)} ${sign} ${scope.text(right.left)})`;
    yield put(piece, `${first} ${inner} ${scope.text(right.right)}`);
  }
  for (const side of [outer.left, outer.right]) {
    if (side.kind === "paren") yield put(side, scope.text(bare(side)));
  }
}

function* signChange(piece: Piece, scope: Scope): Generator<Proposal> {
  const text = scope.text(piece);
  if (piece.kind === "unary") {
    const inner = parts(piece).at(-1);
    if (inner !== undefined) yield put(piece, scope.text(inner));
    return;
  }
  if (!countable(piece, scope)) return;
  const { not } = scope.source.grammar;
  if (binding(piece, scope) < 7) {
    if (binding(piece, scope) > 4) yield put(piece, `-(${text})`);
    return;
  }
  yield put(piece, settled(`-${text}`, "*", piece));
  if (piece.kind === "call")
    yield put(
      piece,
      not.replace("%", () => text),
    );
}

/** Another expression of the same function, one of the same kind before others. */
function* donorSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  // A name for a name and a literal for a literal have operators of their own.
  if (!isValue(piece) || piece.kind === "constant" || piece.parent?.kind === "paren") return;
  const said = scope.text(piece);
  const sort = sortOf(piece, scope);
  const fits = scope
    .donors()
    .filter((donor) => fitting(donor, piece, said) && !apart(sort, sortOf(donor.piece, scope)));
  const rank = (donor: Donor): number =>
    (donor.kind === piece.kind ? 0 : donor.kind === "name" ? 1 : 2) +
    (similar(donor.text, said) ? 0 : 1);
  const sorted = fits.toSorted((a, b) => rank(a) - rank(b) || b.count - a.count);
  for (const donor of sorted.slice(0, DONORS_MAX)) {
    const text =
      donor.kind === "binary" ? settled(donor.text, signOf(donor, scope), piece) : donor.text;
    if (donor.kind === piece.kind) yield put(piece, text, "same-shape");
    else if (donor.count > 2) yield put(piece, text, "frequent");
    else yield put(piece, text);
  }
}

function signOf(donor: Donor, scope: Scope): string {
  const binary = binaryOf(donor.piece);
  return binary === null ? "" : scope.source.text.slice(binary.from, binary.to);
}

const ATOMS: readonly string[] = ["name", "integer", "string", "float", "constant"];

function fitting(donor: Donor, piece: Piece, said: string): boolean {
  if (donor.text === said || donor.kind === "lambda") return false;
  if (donor.kind === piece.kind && ATOMS.includes(donor.kind)) return false;
  if (donor.kind === "integer" || donor.kind === "float") return piece.kind !== "string";
  // A donor that holds the place itself would nest it in a copy of what is around it.
  const holds = donor.piece.from <= piece.from && piece.to <= donor.piece.to;
  return !holds || donor.piece === piece;
}

function* targetSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isTarget(piece) || piece.parent?.type.includes("declar")) return;
  const said = scope.text(piece);
  const assignable = ["index", "attribute", "name"];
  for (const donor of scope.donors()) {
    if (donor.text === said || !assignable.includes(donor.kind)) continue;
    if (donor.kind === "name" && piece.kind === "name") continue;
    if (donor.kind === "attribute" && callOf(donor.piece.parent ?? donor.piece) !== null) continue;
    if (donor.kind === piece.kind) yield put(piece, donor.text, "same-shape");
    else yield put(piece, donor.text);
  }
}

function* ternaryArm(piece: Piece, scope: Scope): Generator<Proposal> {
  const held = parts(piece);
  const condition = piece.type === "conditional_expression" ? held[1] : held[0];
  for (const arm of held) {
    if (arm !== condition) yield put(piece, scope.text(arm));
  }
}

/** Two texts with something between them. */
function* textJoin(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null || scope.source.text.slice(binary.from, binary.to) !== "+") return;
  const sides = [binary.left, binary.right];
  if (sides.some((side) => side.kind === "integer" || numeric(side, scope) === true)) return;
  const mark = quoteOf(scope);
  const own = scope.strings().slice(0, OFFSETS_MAX);
  const stock = SEPARATORS.map((separator) => `${mark}${separator}${mark}`);
  for (const text of new Set([...own, ...stock])) {
    const cut = { from: binary.from, to: binary.to, text: `+ ${text} +` };
    yield { cuts: [cut], features: own.includes(text) ? ["own"] : ["stock"] };
  }
}

/** Whether it may be a number, by its shape alone. */
function countable(piece: Piece, scope: Scope): boolean {
  if (!isValue(piece) || !COUNTABLE.some((kind) => kind === piece.kind)) return false;
  if (numeric(piece, scope) === false) return false;
  const binary = binaryOf(piece);
  if (binary !== null) {
    const power = strength(scope.source.text.slice(binary.from, binary.to));
    return power >= 5;
  }
  if (piece.kind === "unary") return scope.text(piece).startsWith("-");
  const parent = piece.parent;
  if (parent === null || parent.kind === "paren") return true;
  if (parent.kind === "each" || piece.type.startsWith("object_creation")) return false;
  const held =
    parent.kind === "attribute" || (parent.kind === "index" && parts(parent)[0] === piece);
  return !held && parent.kind !== "keyword" && piece.field !== "object";
}
