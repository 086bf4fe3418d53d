import { ancestor, isValue, type Piece, parts } from "../syntax/piece.ts";
import { filled, type Operator, type Proposal, put } from "./operator.ts";
import type { Scope } from "./scope.ts";
import { unlike } from "./typing.ts";

/** Numbers, strings, and the values that things start from. */
export const literals: readonly Operator[] = [
  {
    name: "integer-step",
    kinds: ["integer"],
    gives: ["step-down", "step-up"],
    propose: integerStep,
  },
  {
    name: "integer-swap",
    kinds: ["integer"],
    gives: ["far", "own", "unit", "zero"],
    propose: integerSwap,
  },
  { name: "integer-sign", kinds: ["integer"], gives: ["unit"], propose: integerSign },
  { name: "float-swap", kinds: ["float", "integer"], gives: [], propose: floatSwap },
  {
    name: "empty-swap",
    kinds: ["constant", "integer", "float", "string", "list", "map", "tuple", "call", "attribute"],
    gives: ["opposite", "zero"],
    propose: emptySwap,
  },
  {
    name: "string-swap",
    kinds: ["string"],
    gives: ["cousin", "far", "own", "stock"],
    propose: stringSwap,
  },
  { name: "string-name", kinds: ["string"], gives: ["own", "stock"], propose: stringName },
  { name: "string-shape", kinds: ["string"], gives: [], propose: stringShape },
  { name: "kind-swap", kinds: ["integer", "float", "string"], gives: [], propose: kindSwap },
  {
    name: "nest-change",
    kinds: ["list", "tuple", "name", "call"],
    gives: ["own"],
    propose: nestChange,
  },
];

const STOCK_STRINGS: readonly string[] = ["", " ", ",", ", ", ".", "-", "_", "/", ":", "\\n", "0"];
const BRACKETS: readonly string[] = ["(", ")", "[", "]", "{", "}", "<", ">"];
const SWAPS_MAX = 24;
const NAME_CHARS_MIN = 3;
const HELD_MAX = 6;

function* integerStep(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = integerOf(piece, scope);
  if (value === null) return;
  yield put(piece, String(value + 1), "step-up");
  if (value > 0) yield put(piece, String(value - 1), "step-down");
}

function* integerSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = integerOf(piece, scope);
  if (value === null) return;
  for (const text of scope.integers()) {
    if (text !== scope.text(piece)) yield put(piece, text, "own");
  }
  if (value !== 0) yield put(piece, "0", "zero");
  if (value !== 1) yield put(piece, "1", "unit");
  for (const other of [2, value + 2, value - 2, value * 2, Math.trunc(value / 2), value * 10]) {
    if (other !== value && other >= 0) yield put(piece, String(other));
  }
  if (value < (LETTER_ENDS[0] ?? 0) || value > (LETTER_ENDS.at(-1) ?? 0)) return;
  for (const other of LETTER_ENDS.toSorted((a, b) => Math.abs(a - value) - Math.abs(b - value))) {
    if (other !== value) yield put(piece, String(other), "far");
  }
}

/** The codes at both ends of the digits, the capitals and the small letters, and those beside them. */
const LETTER_ENDS: readonly number[] = [47, 48, 57, 58, 64, 65, 90, 91, 96, 97, 122, 123];

function* integerSign(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = integerOf(piece, scope);
  if (value === null || piece.parent?.kind === "unary") return;
  yield value === 0 ? put(piece, "-1", "unit") : put(piece, `-${value}`);
}

function* floatSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const text = scope.text(piece);
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || !Number.isFinite(value)) return;
  if (piece.kind === "integer" && !text.includes(".")) {
    if (value > 1) yield put(piece, `${1 / value}`.slice(0, 6));
    return;
  }
  const around = [1 / value, value + 1, value - 1, value * 2, value / 2, value * 10, value / 10];
  for (const other of around) {
    if (!Number.isFinite(other) || other < 0) continue;
    const shown = String(Number(other.toPrecision(6)));
    yield put(piece, shown.includes(".") ? shown : `${shown}.0`);
  }
  if (value === Math.trunc(value)) yield put(piece, String(value));
}

/** One starting or missing value for another. */
function* emptySwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const { empties, true: yes, false: no } = scope.source.grammar;
  const text = scope.text(piece);
  if (!isValue(piece) || piece.parent?.kind === "unary") return;
  const plain = piece.kind === "constant" || empties.includes(text) || text === '""';
  const started = piece.kind !== "call" && piece.kind !== "attribute" && settledAs(piece);
  if (!plain && !started) return;
  if (text === yes) yield put(piece, no, "opposite");
  if (text === no) yield put(piece, yes, "opposite");
  for (const other of empties) {
    if (other === text || (other === "''" && text === '""')) continue;
    if (unlike(text, other, scope)) continue;
    if (other === "0") yield put(piece, other, "zero");
    else yield put(piece, other);
  }
}

/** Whether a value is what something starts as, or what a function gives back. */
function settledAs(piece: Piece): boolean {
  const parent = piece.parent;
  return parent?.kind === "assign" || parent?.kind === "return";
}

function* stringSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece)) return;
  const text = scope.text(piece);
  const inside = text.slice(1, -1);
  const seen = new Set([text]);
  const quoted = (value: string): string => `${text[0] ?? '"'}${value}${text.at(-1) ?? '"'}`;
  const near = scope.strings().toSorted((a, b) => apart(a, text) - apart(b, text));
  for (const other of near.slice(0, SWAPS_MAX)) {
    if (!seen.has(other)) yield put(piece, other, "own");
    seen.add(other);
  }
  if (BRACKETS.includes(inside)) {
    for (const other of BRACKETS) if (other !== inside) yield put(piece, quoted(other), "cousin");
  }
  const far = scope.members.strings.toSorted((a, b) => apart(a, text) - apart(b, text));
  for (const other of far.slice(0, SWAPS_MAX)) {
    if (!seen.has(other)) yield put(piece, other, "far");
    seen.add(other);
  }
  for (const other of STOCK_STRINGS) {
    if (!seen.has(quoted(other))) yield put(piece, quoted(other), "stock");
  }
}

function apart(a: string, b: string): number {
  return Math.abs(a.length - b.length);
}

/** A name that somebody has put into quotes, as it is and turned into something else. */
function* stringName(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece)) return;
  const inside = scope.text(piece).slice(1, -1);
  // A letter may be a name and a text alike.
  if (inside.length < NAME_CHARS_MIN) return;
  const isName = scope.visible(piece).some(({ text, kind }) => text === inside && kind !== "free");
  if (!isName) return;
  yield put(piece, inside, "own");
  for (const pattern of scope.source.grammar.wraps) {
    yield put(piece, filled(pattern, inside, ""), "stock");
  }
}

function* stringShape(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece)) return;
  const text = scope.text(piece);
  const start = text.search(/["'`]/);
  if (start < 0 || text.length < start + 3 || text.startsWith('"""') || text.includes("\n")) return;
  const inside = text.slice(start + 1, -1);
  const made = [
    inside.toLowerCase(),
    inside.toUpperCase(),
    inside + inside.toUpperCase(),
    inside + inside.toLowerCase(),
    inside.trim(),
    `${inside} `,
    ` ${inside}`,
    inside.slice(1),
    inside.slice(0, -1),
    inside.charAt(0).toUpperCase() + inside.slice(1),
  ];
  for (const other of new Set(made)) {
    const whole = `${text.slice(0, start + 1)}${other}${text.at(-1) ?? ""}`;
    if (other !== inside && other !== "") yield put(piece, whole);
  }
}

function* kindSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece)) return;
  const text = scope.text(piece);
  const { language, grammar } = scope.source;
  if (grammar.static && piece.kind !== "integer") return;
  if (piece.kind === "string") {
    const inside = text.slice(1, -1);
    if (/^-?\d+(\.\d+)?$/.test(inside)) yield put(piece, inside);
    return;
  }
  const quote = quoteOf(scope);
  if (!grammar.static) yield put(piece, `${quote}${text}${quote}`);
  if (piece.kind === "integer" && /^\d+$/.test(text) && language !== "javascript") {
    yield put(piece, `${text}.0`);
  }
}

/** `[]` for `[[]]`, `x` for `[x]`, and back. */
function* nestChange(piece: Piece, scope: Scope): Generator<Proposal> {
  const text = scope.text(piece);
  if (!isValue(piece) || scope.source.grammar.static) return;
  if (piece.kind === "list") {
    const held = parts(piece);
    const [only] = held;
    yield put(piece, `[${text}]`);
    if (held.length === 0) {
      const named = scope.visible(piece).filter((variable) => variable.kind !== "free");
      for (const variable of named.slice(0, HELD_MAX))
        yield put(piece, `[${variable.text}]`, "own");
    }
    if (held.length === 1 && only !== undefined) yield put(piece, scope.text(only));
    return;
  }
  if (piece.kind === "tuple") return;
  const parent = piece.parent?.kind;
  const free = parent === "return" || parent === "arguments" || parent === "assign";
  if (!free && parent !== "binary") return;
  if (ancestor(piece, ["statement", "block"]) === null) return;
  yield put(piece, `[${text}]`);
}

/** The mark that the file writes its texts with; languages with one only for characters have no choice. */
export function quoteOf(scope: Scope): string {
  if (scope.source.grammar.static) return '"';
  const { text } = scope.source;
  return text.split("'").length > text.split('"').length ? "'" : '"';
}

function integerOf(piece: Piece, scope: Scope): number | null {
  const text = scope.text(piece);
  const value = Number(text);
  return /^\d{1,9}$/.test(text) && Number.isSafeInteger(value) ? value : null;
}
