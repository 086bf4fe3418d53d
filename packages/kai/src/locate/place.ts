import type { Kind, Piece } from "../syntax/piece.ts";
import type { FunctionSite, Source } from "../syntax/source.ts";

/** A function with the lines that are in no function inside it; or what is outside of all in a file. */
export type Place = {
  readonly source: Source;
  /** Null for what is outside of all functions. */
  readonly function: FunctionSite | null;
  /** Those with code on them, in order; never empty. */
  readonly lines: readonly CodeLine[];
};

export type CodeLine = {
  /** Counted from 1. */
  readonly line: number;
  readonly text: string;
  /** What starts on it, as often as it does. */
  readonly kinds: ReadonlyMap<Kind, number>;
  /** Comparison operators, and others with two sides. */
  readonly comparisonCount: number;
  readonly arithmeticCount: number;
  /** How many pieces could be changed. */
  readonly pieceCount: number;
  /** In how many blocks it is. */
  readonly depth: number;
};

/** The places of a file, functions in order of the text and what is outside of them last. */
export function placesOf(source: Source): readonly Place[] {
  const owners = ownersOf(source);
  const byOwner = new Map<FunctionSite | null, CodeLine[]>();
  for (const line of codeLines(source)) {
    const owner = owners[line.line] ?? null;
    const lines = byOwner.get(owner);
    if (lines === undefined) byOwner.set(owner, [line]);
    else lines.push(line);
  }
  return [...source.functions, null].flatMap((site) => {
    const lines = byOwner.get(site);
    return lines === undefined ? [] : [{ source, function: site, lines }];
  });
}

/** By line, the innermost function that holds it. */
function ownersOf(source: Source): readonly (FunctionSite | null)[] {
  const owners: (FunctionSite | null)[] = [];
  for (const site of source.functions) {
    for (let line = site.firstLine; line <= site.lastLine; line += 1) owners[line] = site;
  }
  return owners;
}

type Counting = {
  readonly line: number;
  readonly text: string;
  readonly kinds: Map<Kind, number>;
  comparisonCount: number;
  arithmeticCount: number;
  pieceCount: number;
  readonly depth: number;
};

function codeLines(source: Source): readonly CodeLine[] {
  const lines = new Map<number, Counting>();
  const texts = source.text.split("\n");
  const comparisons = new Set(source.grammar.comparisons);
  const visit = (piece: Piece, depth: number): void => {
    if (piece.kind === "comment" || isDocument(piece)) return;
    if (piece !== source.root) {
      const line = source.line(piece.from);
      let at = lines.get(line);
      if (at === undefined) {
        const text = texts[line - 1] ?? "";
        const counts = { comparisonCount: 0, arithmeticCount: 0, pieceCount: 0 };
        at = { line, text, kinds: new Map(), ...counts, depth };
        lines.set(line, at);
      }
      at.kinds.set(piece.kind, (at.kinds.get(piece.kind) ?? 0) + 1);
      if (CHANGEABLE.has(piece.kind)) at.pieceCount += 1;
      if (piece.kind === "binary") {
        const operators = piece.children.filter(
          (child) => !child.named || child.field === "operator",
        );
        const said = operators.map(({ from, to }) => source.text.slice(from, to));
        if (said.some((operator) => comparisons.has(operator))) at.comparisonCount += 1;
        else at.arithmeticCount += 1;
      }
    }
    const below = piece.kind === "block" ? depth + 1 : depth;
    for (const child of piece.children) visit(child, below);
  };
  visit(source.root, 0);
  return [...lines.values()]
    .filter(({ kinds }) => [...kinds.keys()].some((kind) => kind !== "other" && kind !== "block"))
    .toSorted((a, b) => a.line - b.line);
}

/** A text that stands alone in a block changes nothing. */
function isDocument(piece: Piece): boolean {
  const only =
    piece.kind === "statement" && piece.children.length === 1 ? piece.children[0] : piece;
  return only?.kind === "string" && (only !== piece || piece.parent?.kind === "block");
}

const CHANGEABLE: ReadonlySet<Kind> = new Set<Kind>([
  "call",
  "binary",
  "unary",
  "update",
  "assign",
  "index",
  "slice",
  "attribute",
  "name",
  "integer",
  "float",
  "string",
  "ternary",
  "if",
  "while",
  "for",
  "each",
  "return",
  "break",
  "continue",
  "comprehension",
  "filter",
  "constant",
]);
