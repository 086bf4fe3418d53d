import { binaryOf, callOf, type Piece } from "../syntax/piece.ts";
import { strength } from "./operator.ts";
import type { Scope, Variable } from "./scope.ts";

/**
 * What a compiler would refuse, as far as declared types and literals say it by themselves. Nothing is
 * said of languages that check no types before they run.
 */

export type Sort = "whole" | "real" | "truth" | "other" | "unknown";

/** What a piece's value is, by its shape, its literal or its declared type; most calls say nothing. */
export function sortOf(piece: Piece, scope: Scope): Sort {
  if (!scope.source.grammar.static) return "unknown";
  const text = scope.text(piece);
  if (piece.kind === "integer") return "whole";
  if (piece.kind === "float") return "real";
  if (piece.kind === "string" || piece.kind === "lambda" || piece.kind === "list") return "other";
  if (piece.kind === "unary") return text.startsWith("!") ? "truth" : "unknown";
  if (piece.kind === "name") {
    const found = scope.variables().find((variable) => variable.text === text);
    return sortOfType(found?.type ?? null);
  }
  const call = callOf(piece);
  if (call !== null) return OTHERS.test(scope.text(call.callee)) ? "other" : "unknown";
  const binary = binaryOf(piece);
  if (binary === null) return "unknown";
  const sign = scope.source.text.slice(binary.from, binary.to);
  if (strength(sign) <= 4) return "truth";
  const [left, right] = [sortOf(binary.left, scope), sortOf(binary.right, scope)];
  return left === right ? left : "unknown";
}

/** Whether it is a number; null where it is not known. */
export function numeric(piece: Piece, scope: Scope): boolean | null {
  const sort = sortOf(piece, scope);
  return sort === "unknown" ? null : sort === "whole" || sort === "real";
}

/** Whether two sorts are known, and not the same. */
export function apart(a: Sort, b: Sort): boolean {
  return a !== b && a !== "unknown" && b !== "unknown";
}

/** Whether one name cannot stand for another, as both have types that do not go together. */
export function clashing(a: Variable | null, b: Variable, scope: Scope): boolean {
  if (!scope.source.grammar.static || a?.type == null || b.type === null) return false;
  const [own, its] = [sortOfType(a.type), sortOfType(b.type)];
  if (own === "unknown" || its === "unknown") return false;
  return own === "other" ? a.type !== b.type : own !== its;
}

function sortOfType(type: string | null): Sort {
  if (type === null || type === "var") return "unknown";
  if (WHOLES.has(type)) return "whole";
  if (REALS.has(type)) return "real";
  return /^(bool|boolean|Boolean)$/.test(type) ? "truth" : "other";
}

/** Whether one literal cannot stand for another. */
export function unlike(text: string, other: string, scope: Scope): boolean {
  if (!scope.source.grammar.static) return false;
  const [own, its] = [literalOf(text), literalOf(other)];
  if (own === "unknown" || its === "unknown" || own === its) return false;
  return own === "number" || its === "number" || own === "truth" || its === "truth";
}

/** The ways of being nothing that a variable of its type can have. */
export function blanksOf(variable: Variable, scope: Scope): readonly string[] {
  const { blanks, static: fixed } = scope.source.grammar;
  if (!fixed || variable.type === null || variable.type === "var") return blanks;
  const number = WHOLES.has(variable.type) || REALS.has(variable.type);
  return blanks.filter((blank) => /^% [<=>!]+ \d/.test(blank) === number);
}

const WHOLES: ReadonlySet<string> = new Set(
  [
    "byte short int long char Integer Long Short Byte Character",
    "int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 rune uintptr",
    "i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize",
  ].flatMap((line) => line.split(" ")),
);
const REALS: ReadonlySet<string> = new Set(
  "double float Double Float float32 float64 f32 f64".split(" "),
);

/** Methods and functions whose names say that they give no number. */
const OTHERS =
  /^(to[A-Z_]|split|stream|filter|map$|collect|of$|as[A-Z_]|substring|subList|trim|is[A-Z_]|contains|equals|add$|keySet|values|entrySet|iter|chars|empty|new[A-Z])/;

function literalOf(text: string): "number" | "truth" | "text" | "none" | "unknown" {
  if (/^-?\d/.test(text) || /\b(MAX|MIN)(_VALUE)?$/.test(text)) return "number";
  if (text === "true" || text === "false") return "truth";
  if (/^["'`]/.test(text)) return "text";
  return /^(null|nil|None)$/.test(text) ? "none" : "unknown";
}
