import { assignOf, binaryOf, field, type Piece } from "../syntax/piece.ts";
import type { EditFeature } from "./feature.ts";
import { type Operator, type Proposal, put } from "./operator.ts";
import type { Scope } from "./scope.ts";

/** One operator sign for another: comparisons, arithmetic, bits, logic, assignments. */
export const flips: readonly Operator[] = [
  {
    name: "comparison-flip",
    kinds: ["binary"],
    gives: ["boundary", "mirror", "opposite"],
    propose: comparisonFlip,
  },
  { name: "arithmetic-flip", kinds: ["binary"], gives: ["cousin"], propose: arithmeticFlip },
  { name: "bit-flip", kinds: ["binary"], gives: ["cousin"], propose: bitFlip },
  { name: "logic-flip", kinds: ["binary"], gives: ["whole"], propose: logicFlip },
  { name: "augment-flip", kinds: ["assign"], gives: ["cousin"], propose: augmentFlip },
  { name: "augment-assign", kinds: ["assign"], gives: [], propose: augmentAssign },
  { name: "augment-expand", kinds: ["assign"], gives: [], propose: augmentExpand },
  { name: "update-flip", kinds: ["update"], gives: [], propose: updateFlip },
];

const FAMILIES: readonly (readonly string[])[] = [
  ["<", "<=", ">", ">=", "==", "!="],
  ["<", "<=", ">", ">=", "===", "!=="],
  ["==", "!=", "is", "is not"],
  ["===", "==", "!==", "!="],
  ["in", "not in", "==", "!="],
];

/** Of a comparison that differs in one value, that faces the other way, and that says the contrary. */
const BOUNDARY = paired("< <=", "> >=");
const MIRROR = paired("< >", "<= >=");
const OPPOSITE = paired("< >=", "> <=", "== !=", "=== !==", "is is not", "in not in");
const COUSINS = paired("+ -", "* /", "/ //", "// %", "/ %", "* **", "& |", "| ^", "& ^", "<< >>");

function* comparisonFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  for (const token of signs(piece)) {
    const said = scope.text(token);
    if (!scope.source.grammar.comparisons.includes(said)) continue;
    const others = FAMILIES.filter((family) => family.includes(said)).flat();
    for (const other of new Set(others)) {
      if (other === said || !scope.source.grammar.comparisons.includes(other)) continue;
      yield put(token, other, ...comparisonFeatures(`${said} ${other}`));
    }
  }
}

function comparisonFeatures(pair: string): readonly EditFeature[] {
  if (BOUNDARY.has(pair)) return ["boundary"];
  if (OPPOSITE.has(pair)) return ["opposite"];
  return MIRROR.has(pair) ? ["mirror"] : [];
}

function* arithmeticFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  yield* flipped(piece, scope, scope.source.grammar.arithmetic);
}

function* bitFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  const { bits, and, or } = scope.source.grammar;
  yield* flipped(piece, scope, bits);
  for (const token of signs(piece)) {
    const said = scope.text(token);
    if (said === "&") yield put(token, and, "cousin");
    if (said === "|") yield put(token, or, "cousin");
  }
}

function* flipped(piece: Piece, scope: Scope, family: readonly string[]): Generator<Proposal> {
  for (const token of signs(piece)) {
    const said = scope.text(token);
    if (!family.includes(said)) continue;
    for (const other of family) {
      if (other === said) continue;
      if (COUSINS.has(`${said} ${other}`)) yield put(token, other, "cousin");
      else yield put(token, other);
    }
  }
}

/** The sign alone, and all of a chain at once: a chain is written in one thought. */
function* logicFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  const { and, or } = scope.source.grammar;
  const binary = binaryOf(piece);
  if (binary === null) return;
  const said = scope.source.text.slice(binary.from, binary.to);
  if (said !== and && said !== or && said !== "??") return;
  const other = said === and ? or : and;
  yield { cuts: [{ from: binary.from, to: binary.to, text: other }], features: [] };
  if (piece.parent?.kind === "binary") return;
  const chain = [...chained(piece, said, scope)];
  if (chain.length < 2) return;
  const cuts = chain.toSorted((a, b) => a - b);
  yield {
    cuts: cuts.map((from) => ({ from, to: from + said.length, text: other })),
    features: ["whole"],
  };
}

function* chained(piece: Piece, said: string, scope: Scope): Generator<number> {
  const binary = binaryOf(piece);
  if (binary === null || scope.source.text.slice(binary.from, binary.to) !== said) return;
  yield binary.from;
  yield* chained(binary.left, said, scope);
  yield* chained(binary.right, said, scope);
}

function* augmentFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  const token = assignOf(piece)?.operator;
  if (!token) return;
  const said = scope.text(token);
  if (said.length < 2 || !said.endsWith("=") || said === ":=") return;
  const { arithmetic, bits } = scope.source.grammar;
  for (const family of [arithmetic, bits]) {
    if (!family.includes(said.slice(0, -1))) continue;
    for (const other of family) {
      if (other === said.slice(0, -1)) continue;
      const cousin = COUSINS.has(`${said.slice(0, -1)} ${other}`);
      yield cousin ? put(token, `${other}=`, "cousin") : put(token, `${other}=`);
    }
  }
}

/** A sum that forgets what it had, and a value that is added where it should be set. */
function* augmentAssign(piece: Piece, scope: Scope): Generator<Proposal> {
  const { target, operator: token } = assignOf(piece) ?? { target: piece, operator: null };
  if (token === null || field(piece, "type") !== null || piece.type.includes("declar")) return;
  // Nothing is added to two names at once.
  if (target.kind === "pattern" || target.kind === "tuple" || target.kind === "list") return;
  const said = scope.text(token);
  if (said === "=") for (const other of ["+=", "-=", "*="]) yield put(token, other);
  else if (said.endsWith("=") && said !== ":=") yield put(token, "=");
}

/** `a = b` as `a = a + b`, which makes a new value where `+=` changes the old one, and back. */
function* augmentExpand(piece: Piece, scope: Scope): Generator<Proposal> {
  const assign = assignOf(piece);
  if (assign?.operator == null || assign.value === null) return;
  const said = scope.text(assign.operator);
  if (piece.type.includes("declar") || said === ":=") return;
  const target = scope.text(assign.target);
  const value = scope.text(assign.value);
  if (said === "=") {
    for (const sign of ["+", "-", "%", "*"]) {
      yield put(assign.value, `${target} ${sign} ${value}`);
    }
  } else if (said === "+=") {
    yield put(piece, `${target} = ${target} + ${value}`);
    yield put(piece, `${target} = ${value} + ${target}`);
  }
}

function* updateFlip(piece: Piece, scope: Scope): Generator<Proposal> {
  for (const token of signs(piece)) {
    const said = scope.text(token);
    if (said === "++") yield put(token, "--");
    if (said === "--") yield put(token, "++");
  }
}

/** The tokens of an expression that are its operators. */
function signs(piece: Piece): readonly Piece[] {
  return piece.children.filter((child) => !child.named);
}

function paired(...pairs: readonly string[]): ReadonlySet<string> {
  const both = new Set<string>();
  for (const pair of pairs) {
    const at = pair.indexOf(" ");
    const [first, second] = [pair.slice(0, at), pair.slice(at + 1)];
    both.add(`${first} ${second}`).add(`${second} ${first}`);
  }
  return both;
}
