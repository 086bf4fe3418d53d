import { bare, binaryOf, type Kind, type Piece } from "../syntax/piece.ts";
import type { Cut } from "../syntax/source.ts";
import type { EditFeature } from "./feature.ts";
import type { Scope } from "./scope.ts";

/** One way of changing a piece, written once for all languages; it yields its best proposals first. */
export type Operator = {
  readonly name: string;
  /** Of the pieces that it is asked for. */
  readonly kinds: readonly Kind[] | "value" | "statement";
  /** The features that its proposals may have: each no more of them than `most`, which is 1 if left out. */
  readonly gives: readonly EditFeature[];
  readonly most?: number;
  propose(piece: Piece, scope: Scope): Iterable<Proposal>;
};

export type Proposal = {
  /** In order of the text, and apart from each other. */
  readonly cuts: readonly Cut[];
  readonly features: readonly EditFeature[];
};

/** A piece with another text in its place. */
export function put(piece: Piece, text: string, ...features: readonly EditFeature[]): Proposal {
  return { cuts: [{ from: piece.from, to: piece.to, text }], features };
}

/** Two pieces apart from each other, each with the other's text. */
export function exchanged(
  a: Piece,
  b: Piece,
  scope: Scope,
  ...features: readonly EditFeature[]
): Proposal {
  const [first, second] = a.from < b.from ? [a, b] : [b, a];
  return {
    cuts: [
      { from: first.from, to: first.to, text: scope.text(second) },
      { from: second.from, to: second.to, text: scope.text(first) },
    ],
    features,
  };
}

/** How tightly an expression holds together: the higher, the tighter. */
export function binding(piece: Piece, scope: Scope): number {
  if (piece.kind === "ternary" || piece.kind === "lambda" || piece.kind === "assign") return 0;
  if (piece.kind === "unary") return scope.text(piece).startsWith("not") ? 2.5 : 7;
  if (piece.kind !== "binary") return piece.type.startsWith("await") ? 7 : 9;
  const binary = binaryOf(piece);
  return binary === null ? 3 : strength(scope.source.text.slice(binary.from, binary.to));
}

export function strength(operator: string): number {
  return STRENGTHS[operator] ?? 4;
}

/** An operand as it has to be written beside an operator; `right` operands need more of it. */
export function operand(piece: Piece, operator: string, right: boolean, scope: Scope): string {
  const own = binding(piece, scope);
  const needed = strength(operator) + (right ? 0.1 : 0);
  return own < needed ? `(${scope.text(piece)})` : scope.text(piece);
}

/** An expression made with an operator, as it has to be written where a piece stands. */
export function settled(text: string, operator: string, place: Piece): string {
  const parent = place.parent;
  if (parent === null) return text;
  if (parent.kind === "unary" || parent.type.startsWith("await")) return `(${text})`;
  if (parent.kind === "attribute" && parent.children[0] === place) return `(${text})`;
  if (parent.kind === "index" && parent.children[0] === place) return `(${text})`;
  if (parent.kind === "call" && place.field !== null && place.kind !== "arguments") {
    return `(${text})`;
  }
  if (parent.kind !== "binary") return text;
  const tokens = parent.children.filter((child) => !child.named);
  const token = tokens.find((child) => child.from >= place.to) ?? tokens[0];
  const right = parent.children[0] !== place;
  const outer = strength(token?.type ?? "");
  return strength(operator) < outer + (right ? 0.1 : 0) ? `(${text})` : text;
}

/** The text of a piece in `%` of a pattern, and another's in `$`. */
export function filled(pattern: string, value: string, other: string): string {
  return pattern.replace(/[%$]/g, (mark) => (mark === "%" ? value : other));
}

/** A piece's text for a place after which a dot, a bracket or a prefix comes. */
export function tight(piece: Piece, scope: Scope): string {
  const inner = bare(piece);
  const whole = inner.kind === "binary" || inner.kind === "ternary" || inner.kind === "unary";
  return whole ? `(${scope.text(inner)})` : scope.text(inner);
}

/** A value in a wrap's pattern, with brackets of its own only where the pattern gives it none. */
export function wrapped(pattern: string, piece: Piece, scope: Scope, other = ""): string {
  const held = pattern.includes("(%") || pattern.includes(", %");
  return filled(pattern, held ? scope.text(bare(piece)) : tight(piece, scope), other);
}

/** What is false where the condition is true, as a person would write it. */
export function negated(condition: Piece, scope: Scope): string {
  const { not } = scope.source.grammar;
  const piece = bare(condition);
  const text = scope.text(piece);
  if (piece.kind === "unary") {
    const argument = piece.children.findLast((child) => child.named);
    const sign = argument === undefined ? "" : text.slice(0, argument.from - piece.from).trim();
    if (argument !== undefined && sign === not.replace("%", "").trim()) {
      return scope.text(bare(argument));
    }
  }
  const loose = not.startsWith("!") ? 8 : 2.5;
  return not.replace("%", () => (binding(piece, scope) < loose ? `(${text})` : text));
}

const LEVELS: readonly (readonly string[])[] = [
  ["??", "||", "or"],
  ["&&", "and"],
  ["not"],
  ["==", "!=", "===", "!==", "<", "<=", ">", ">=", "is", "is not", "in", "not in", "instanceof"],
  ["|", "^", "&", "&^", "<<", ">>", ">>>"],
  ["+", "-"],
  ["*", "/", "//", "%"],
  ["**"],
];

const STRENGTHS: Readonly<Record<string, number>> = Object.fromEntries(
  LEVELS.flatMap((level, index) =>
    level.map((operator) => [operator, index === 7 ? 8 : index + 1] as const),
  ),
);
