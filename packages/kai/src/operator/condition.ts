import {
  bare,
  binaryOf,
  conditionOf,
  field,
  isValue,
  type Kind,
  type Piece,
  parts,
} from "../syntax/piece.ts";
import {
  binding,
  exchanged,
  filled,
  negated,
  type Operator,
  type Proposal,
  put,
  strength,
} from "./operator.ts";
import type { Donor, Scope } from "./scope.ts";
import { blanksOf } from "./typing.ts";

/** What is asked before something is done. */
export const conditions: readonly Operator[] = [
  {
    name: "condition-negate",
    kinds: ["if", "while", "for", "ternary", "filter"],
    gives: [],
    propose: negate,
  },
  { name: "condition-part-negate", kinds: ["binary"], gives: [], propose: negatePart },
  {
    name: "condition-add",
    kinds: ["if", "while", "for", "ternary", "filter"],
    gives: ["mirror", "own", "stock"],
    most: 2,
    propose: addTerm,
  },
  {
    name: "condition-swap",
    kinds: ["if", "while", "for", "ternary", "filter"],
    gives: ["own", "stock"],
    propose: swap,
  },
  {
    name: "condition-fixed",
    kinds: ["if", "while", "ternary", "filter"],
    gives: [],
    propose: fixed,
  },
  {
    name: "condition-compare",
    kinds: ["if", "while", "ternary", "filter"],
    gives: [],
    propose: compare,
  },
  { name: "comparison-widen", kinds: ["binary"], gives: [], propose: widen },
  { name: "branches-swap", kinds: ["if"], gives: ["whole"], propose: branchesSwap },
  { name: "filter-drop", kinds: ["filter"], gives: [], propose: filterDrop },
  { name: "filter-add", kinds: ["comprehension"], gives: [], propose: filterAdd },
];

const TERMS_MAX = 24;

function* negate(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  if (condition === null || condition.type === "let_condition") return;
  // A lone comparison is turned by the flip of its sign.
  const binary = binaryOf(condition);
  const sign = binary === null ? "" : scope.source.text.slice(binary.from, binary.to);
  if (strength(sign) === 4 && binary !== null) return;
  yield put(condition, negated(condition, scope));
}

function* negatePart(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null) return;
  const sign = scope.source.text.slice(binary.from, binary.to);
  if (sign !== scope.source.grammar.and && sign !== scope.source.grammar.or) return;
  for (const side of [binary.left, binary.right]) {
    if (bare(side).kind !== "binary") yield put(side, negated(side, scope));
  }
}

function* addTerm(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  if (condition === null) return;
  const { and, or } = scope.source.grammar;
  const said = scope.text(condition);
  for (const term of terms(condition, scope)) {
    if (said.includes(term.text)) continue;
    for (const sign of [or, and]) {
      const loose = binding(condition, scope) < strength(sign);
      const base = loose ? `(${said})` : said;
      const added = strength(sign) > term.strength ? `(${term.text})` : term.text;
      const own: readonly ("own" | "stock")[] = term.own ? ["own"] : ["stock"];
      yield put(condition, `${base} ${sign} ${added}`, ...own);
      // What guards a term has to stand before it.
      yield put(condition, `${added} ${sign} ${base}`, ...own, "mirror");
    }
  }
}

type Term = { readonly text: string; readonly strength: number; readonly own: boolean };

/** Conditions from the function's own pieces: those asked elsewhere, and its variables being empty. */
function* terms(at: Piece, scope: Scope): Generator<Term> {
  let count = 0;
  // A receiver that may be missing is the commonest of all.
  for (const root of receivers(at)) {
    for (const blank of scope.source.grammar.blanks.slice(0, 3)) {
      yield { text: filled(blank, scope.text(root), ""), strength: 4, own: true };
    }
  }
  for (const donor of scope.conditions()) {
    if (count >= TERMS_MAX) break;
    count += 1;
    if (donor.piece !== at)
      yield { text: donor.text, strength: donorStrength(donor, scope), own: true };
    yield* stepped(donor, scope);
  }
  const visible = scope.visible(at).filter((variable) => variable.kind !== "free");
  for (const variable of visible.slice(0, 6)) {
    for (const blank of blanksOf(variable, scope)) {
      yield { text: filled(blank, variable.text, ""), strength: 4, own: false };
    }
  }
  for (const donor of scope
    .donors()
    .filter((each) => each.kind === "call")
    .slice(0, 4)) {
    yield { text: donor.text, strength: 9, own: false };
  }
}

/** A comparison with the next element, or with one more: `a[i] == a[i + 2]` beside `a[i] == a[i + 1]`. */
function* stepped(donor: Donor, scope: Scope): Generator<Term> {
  const text = donor.text;
  for (const found of text.matchAll(/\b(\d{1,4})\b/g)) {
    const next = `${Number(found[1]) + 1}`;
    const made = text.slice(0, found.index) + next + text.slice(found.index + found[0].length);
    yield { text: made, strength: donorStrength(donor, scope), own: true };
  }
}

function donorStrength(donor: Donor, scope: Scope): number {
  return binding(donor.piece, scope);
}

function receivers(condition: Piece): readonly Piece[] {
  const found = new Map<number, Piece>();
  const visit = (piece: Piece): void => {
    if (piece.kind === "attribute" || piece.kind === "index") {
      const base = parts(piece)[0];
      if (base !== undefined && (base.kind === "name" || base.kind === "attribute")) {
        found.set(base.from, base);
      }
    }
    for (const child of piece.children) visit(child);
  };
  visit(condition);
  return [...found.values()].slice(0, 4);
}

function* swap(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  if (condition === null) return;
  const said = scope.text(condition);
  for (const term of terms(condition, scope)) {
    if (term.text !== said) yield put(condition, term.text, term.own ? "own" : "stock");
  }
}

function* fixed(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  if (condition === null || condition.kind === "constant") return;
  const { true: yes, false: no } = scope.source.grammar;
  yield put(condition, yes);
  yield put(condition, no);
}

/** What is asked for its truth, compared with nothing, zero or one; and back. */
function* compare(piece: Piece, scope: Scope): Generator<Proposal> {
  const condition = conditionOf(piece);
  if (condition === null) return;
  const binary = binaryOf(condition);
  if (binary !== null) {
    const sign = scope.source.text.slice(binary.from, binary.to);
    if (strength(sign) === 4 && scope.source.grammar.loose)
      yield put(condition, scope.text(binary.left));
    return;
  }
  if (condition.kind === "unary" || !isValue(condition)) return;
  // Where a truth has a type, nothing else can be asked.
  if (scope.source.grammar.static) return;
  const { none, length, indented } = scope.source.grammar;
  const text = scope.text(condition);
  const long = filled(length, text, "");
  yield put(condition, indented ? `${text} is not ${none}` : `${text} != ${none}`);
  for (const test of ["> 0", "> 1", "== 0", "== 1", "!= 0", ">= 0", "< 0"]) {
    yield put(condition, `${text} ${test}`);
  }
  for (const test of ["> 0", "> 1", "== 0"]) yield put(condition, `${long} ${test}`);
}

/** A sign and its bound at once: `== 0` as `<= 1`. */
function* widen(piece: Piece, scope: Scope): Generator<Proposal> {
  const binary = binaryOf(piece);
  if (binary === null || binary.right.kind !== "integer") return;
  const sign = scope.source.text.slice(binary.from, binary.to);
  const { comparisons } = scope.source.grammar;
  const value = Number(scope.text(binary.right));
  if (!comparisons.includes(sign) || !Number.isSafeInteger(value)) return;
  for (const other of ["<=", "<", ">=", ">", "==", "!="]) {
    for (const bound of [value + 1, value - 1, value + 2]) {
      if (other === sign || bound < 0 || !comparisons.includes(other)) continue;
      // `< 1` is `<= 0` in whole numbers, and the flip of the sign alone has it.
      yield {
        cuts: [{ from: binary.from, to: binary.right.to, text: `${other} ${bound}` }],
        features: [],
      };
    }
  }
}

/** What is done if, and what is done else, exchanged. */
function* branchesSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  yield* branchesReorder(piece, scope);
  const then = field(piece, "consequence");
  const other = field(piece, "alternative");
  if (then === null || other === null || other.kind === "if") return;
  const body = other.kind === "else" ? parts(other)[0] : other;
  const block: readonly Kind[] = ["if"];
  if (body === undefined || block.includes(body.kind)) return;
  yield exchanged(then, body, scope);
}

/** An `if` and the `else if` after it, each in the other's place. */
function* branchesReorder(piece: Piece, scope: Scope): Generator<Proposal> {
  const other = nextBranch(piece);
  if (other === null) return;
  const [asked, then] = [conditionOf(piece), field(piece, "consequence")];
  const [next, after] = [conditionOf(other), field(other, "consequence")];
  if (asked === null || then === null || next === null || after === null) return;
  const first = exchanged(asked, next, scope).cuts;
  const second = exchanged(then, after, scope).cuts;
  const cuts = [...first, ...second].toSorted((a, b) => a.from - b.from);
  yield { cuts, features: ["whole"] };
}

function nextBranch(piece: Piece): Piece | null {
  if (piece.type === "elif_clause") {
    const all = piece.parent === null ? [] : parts(piece.parent);
    const next = all[all.indexOf(piece) + 1];
    return next?.kind === "if" ? next : null;
  }
  const other = field(piece, "alternative");
  const inner = other?.kind === "else" ? parts(other)[0] : other;
  return inner?.kind === "if" ? inner : null;
}

function* filterDrop(piece: Piece, scope: Scope): Generator<Proposal> {
  const before = scope.source.text.slice(0, piece.from).trimEnd().length;
  yield { cuts: [{ from: before, to: piece.to, text: "" }], features: [] };
}

function* filterAdd(piece: Piece, scope: Scope): Generator<Proposal> {
  const clause = piece.children.findLast((child) => child.type === "for_in_clause");
  if (clause === undefined || piece.children.some((child) => child.kind === "filter")) return;
  const name = field(clause, "left");
  if (name === null) return;
  const text = scope.text(name);
  const asked = scope
    .conditions()
    .slice(0, TERMS_MAX)
    .map((donor) => donor.text);
  const terms = [text, `${text} is not None`, `${text} > 0`, ...asked];
  for (const term of terms) {
    yield { cuts: [{ from: clause.to, to: clause.to, text: ` if ${term}` }], features: [] };
  }
}
