import { Edit, type Language as Loaded, type Parser, type Tree } from "web-tree-sitter";
import type { Grammar, Language } from "./grammar.ts";
import { ancestor, field, type Kind, type Piece, within } from "./piece.ts";

/** A function that has a name, or a closure that is given one. */
export type FunctionSite = {
  readonly name: string;
  /** With the classes and functions around it, joined by `.`. */
  readonly qualified: string;
  readonly from: number;
  readonly to: number;
  /** Counted from 1, both ends included. */
  readonly firstLine: number;
  readonly lastLine: number;
  readonly parameterCount: number;
  readonly piece: Piece;
};

/** A replacement within one text. */
export type Cut = { readonly from: number; readonly to: number; readonly text: string };

/** A file as it was read: its text, its tree and its functions. It holds no memory of the parser's. */
export type Source = {
  readonly file: string;
  readonly language: Language;
  readonly text: string;
  readonly grammar: Grammar;
  readonly root: Piece;
  /** In order of the text; one inside another comes after it. */
  readonly functions: readonly FunctionSite[];
  /** Counted from 1. */
  line(offset: number): number;
  /** The innermost function that holds a place; null at the top of the file. */
  functionAt(offset: number): FunctionSite | null;
  /** A judge of edits inside a piece, for many of them. */
  judge(piece: Piece): Judge;
};

/** Says whether edits leave the text as free of errors as it was; closed when no more are asked. */
export type Judge = {
  parses(cuts: readonly Cut[]): boolean;
  close(): void;
};

/** What of a source does not come from the kind of its parser. */
export function sourceOf(
  file: string,
  language: Language,
  text: string,
  grammar: Grammar,
  root: Piece,
  judge: (piece: Piece) => Judge,
): Source {
  const starts = lineStarts(text);
  const line = (offset: number): number => lineOf(starts, offset);
  const functions = functionsOf(root, text, line);
  return {
    file,
    language,
    text,
    grammar,
    root,
    functions,
    line,
    functionAt: (offset) =>
      functions.findLast((site) => site.from <= offset && offset < site.to) ?? null,
    judge,
  };
}

/** Copies a tree out of the parser, with the kinds of our own; the tree can be freed then. */
export function copied(tree: Tree, loaded: Loaded, grammar: Grammar): Piece {
  const cursor = tree.walk();
  const copy = (parent: Piece | null, depth: number): Piece => {
    const id = cursor.nodeTypeId;
    const type = loaded.types[id] ?? cursor.nodeType;
    const fieldId = cursor.currentFieldId;
    const name = fieldId === 0 ? null : (loaded.fields[fieldId] ?? null);
    const named = cursor.nodeIsNamed;
    const children: Piece[] = [];
    const made: Piece = {
      type,
      kind: named ? kindOf(type, name, parent, grammar) : "other",
      field: name,
      named,
      from: cursor.startIndex,
      to: cursor.endIndex,
      parent,
      children,
    };
    if (depth < DEPTH_MAX && !LEAVES.has(made.kind) && cursor.gotoFirstChild()) {
      do children.push(copy(made, depth + 1));
      while (cursor.gotoNextSibling());
      cursor.gotoParent();
    }
    return made;
  };
  try {
    return copy(null, 0);
  } finally {
    cursor.delete();
  }
}

/**
 * Judges edits by parsing a fragment again: a function or a statement alone, where it can stand alone,
 * which costs a tenth of a millisecond where the whole of a long file costs five.
 */
export function treeJudge(parser: Parser, text: string, piece: Piece, grammar: Grammar): Judge {
  if (piece.parent !== null) {
    const from = text.lastIndexOf("\n", piece.from - 1) + 1;
    const slice = text.slice(from, piece.to);
    for (const shell of new Set(["%", grammar.shell])) {
      const [before = "", after = ""] = shell.split("%");
      const alone = `${before}${slice}${after}`;
      const tree = parsed(parser, alone, null);
      if (!tree.rootNode.hasError) return judgeOf(parser, tree, alone, before.length - from);
      tree.delete();
    }
  }
  return judgeOf(parser, parsed(parser, text, null), text, 0);
}

function judgeOf(parser: Parser, tree: Tree, alone: string, shift: number): Judge {
  const wrong = errorCount(tree);
  const starts = lineStarts(alone);
  return {
    parses(cuts) {
      const old = tree.copy();
      let made = "";
      let at = 0;
      for (const cut of cuts) {
        made += alone.slice(at, cut.from + shift) + cut.text;
        at = cut.to + shift;
      }
      made += alone.slice(at);
      // From the last to the first, so that places not yet edited stay where they are.
      for (const cut of cuts.toReversed()) old.edit(moved(cut, shift, starts));
      const now = parsed(parser, made, old);
      const right = wrong === 0 ? !now.rootNode.hasError : errorCount(now) <= wrong;
      now.delete();
      old.delete();
      return right;
    },
    close: () => tree.delete(),
  };
}

/** Parses a text; a parser that has a language, and is not told to stop, always gives a tree. */
export function parsed(parser: Parser, text: string, old: Tree | null): Tree {
  const tree = parser.parse(text, old);
  if (tree === null) throw new Error("a parser has no language, or was stopped");
  return tree;
}

function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/** What is nested deeper is left out, as code that people write never is. */
const DEPTH_MAX = 1_000;
/** Their insides are of no use to an operator, and are many. */
const LEAVES: ReadonlySet<Kind> = new Set<Kind>(["comment", "type"]);

function kindOf(type: string, name: string | null, parent: Piece | null, grammar: Grammar): Kind {
  if (name !== null && parent !== null) {
    const placed = grammar.fields[`${parent.type}.${name}`];
    if (placed !== undefined) return placed;
  }
  const kind = grammar.kinds[type];
  return kind ?? "other";
}

function functionsOf(
  root: Piece,
  text: string,
  line: (offset: number) => number,
): readonly FunctionSite[] {
  const sites: FunctionSite[] = [];
  const around: { readonly name: string; readonly to: number }[] = [];
  for (const piece of within(root)) {
    while ((around.at(-1)?.to ?? Number.POSITIVE_INFINITY) <= piece.from) around.pop();
    if (piece.kind !== "function" && piece.kind !== "lambda" && piece.kind !== "class") continue;
    const name = nameOf(piece, text);
    if (name === null) continue;
    const qualified = [...around.map((outer) => outer.name), name].join(".");
    around.push({ name, to: piece.to });
    if (piece.kind === "class") continue;
    const parameters = piece.children.find((child) => child.field === "parameters");
    sites.push({
      name,
      qualified,
      from: piece.from,
      to: piece.to,
      firstLine: line(piece.from),
      lastLine: line(piece.to - 1),
      parameterCount: parameters?.children.filter((child) => child.named).length ?? 0,
      piece,
    });
  }
  return sites;
}

/** A closure is named by what holds it: a variable, a property, an attribute. */
function nameOf(piece: Piece, text: string): string | null {
  const own = field(piece, "name") ?? (piece.kind === "class" ? field(piece, "type") : null);
  if (own !== null) return text.slice(own.from, own.to);
  if (piece.kind !== "lambda") return null;
  const holder = piece.parent;
  if (holder === null || piece.field === null) return null;
  const name = field(holder, "name", "left", "pattern", "key", "property");
  if (name === null || name === piece || ancestor(name, ["call"])?.from === name.from) return null;
  return text.slice(name.from, name.to).slice(-NAME_MAX);
}

const NAME_MAX = 80;

function errorCount(tree: Tree): number {
  if (!tree.rootNode.hasError) return 0;
  const nodes = tree.rootNode.descendantsOfType("ERROR").length;
  // A tree can be wrong by a missing token alone, which no query finds.
  return Math.max(1, nodes);
}

function moved(cut: Cut, shift: number, starts: readonly number[]): Edit {
  const startIndex = cut.from + shift;
  const oldEndIndex = cut.to + shift;
  const start = pointOf(starts, startIndex);
  const lines = cut.text.split("\n");
  const last = lines.at(-1)?.length ?? 0;
  return new Edit({
    startIndex,
    oldEndIndex,
    newEndIndex: startIndex + cut.text.length,
    startPosition: start,
    oldEndPosition: pointOf(starts, oldEndIndex),
    newEndPosition: {
      row: start.row + lines.length - 1,
      column: lines.length === 1 ? start.column + last : last,
    },
  });
}

function pointOf(starts: readonly number[], offset: number): { row: number; column: number } {
  const row = lineOf(starts, offset) - 1;
  return { row, column: offset - (starts[row] ?? 0) };
}

function lineOf(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle;
    else high = middle;
  }
  return low + 1;
}
