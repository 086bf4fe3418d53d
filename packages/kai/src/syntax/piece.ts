/** What a node is, the same in every language; operators know nothing else of a grammar. */
export type Kind =
  | "function"
  | "lambda"
  | "class"
  | "parameters"
  | "block"
  | "call"
  | "arguments"
  | "keyword"
  | "binary"
  | "unary"
  | "update"
  | "assign"
  | "index"
  | "slice"
  | "attribute"
  | "name"
  | "member"
  | "title"
  | "type"
  | "integer"
  | "float"
  | "string"
  | "list"
  | "tuple"
  | "map"
  | "ternary"
  | "if"
  | "else"
  | "while"
  | "for"
  | "each"
  | "return"
  | "break"
  | "continue"
  | "raise"
  | "statement"
  | "comprehension"
  | "filter"
  | "paren"
  | "constant"
  | "comment"
  | "pattern"
  | "other";

/** A node of a syntax tree, copied out of the parser, so that it outlives the tree. */
export type Piece = {
  /** As the grammar names it; a token's own text where it has no name. */
  readonly type: string;
  readonly kind: Kind;
  /** The part that it plays in its parent; null where the grammar gives none. */
  readonly field: string | null;
  readonly named: boolean;
  readonly from: number;
  readonly to: number;
  readonly parent: Piece | null;
  readonly children: readonly Piece[];
};

/** `left operator right`; the operator is a place in the text, as `not in` is two tokens. */
export type Binary = {
  readonly left: Piece;
  readonly right: Piece;
  readonly from: number;
  readonly to: number;
};

/** A call, a method's too: `receiver` is what the method is called on. */
export type Call = {
  readonly callee: Piece;
  readonly receiver: Piece | null;
  readonly list: Piece;
  readonly arguments: readonly Piece[];
};

/** `target operator value`, a declaration's too; `value` is null where none is given. */
export type Assign = {
  readonly target: Piece;
  readonly value: Piece | null;
  /** Of the token `=`, `:=`, `+=`; null with no value. */
  readonly operator: Piece | null;
};

const VALUES: ReadonlySet<Kind> = new Set<Kind>([
  "call",
  "binary",
  "unary",
  "index",
  "attribute",
  "name",
  "integer",
  "float",
  "string",
  "list",
  "tuple",
  "map",
  "ternary",
  "comprehension",
  "paren",
  "constant",
]);

const TARGET_FIELDS: ReadonlySet<string> = new Set(["left", "name", "pattern"]);
const NAMING = /^(scoped_|import|package|dotted_name|export_spec|aliased_import|use_)/;
const CALLEE_FIELDS: ReadonlySet<string> = new Set(["function", "constructor", "type", "macro"]);
const CONDITION_FIELDS: ReadonlySet<string> = new Set(["condition"]);

export function field(piece: Piece, ...names: readonly string[]): Piece | null {
  for (const child of piece.children) {
    if (child.field !== null && names.includes(child.field) && child.named) return child;
  }
  return null;
}

/** The named children that are no comments. */
export function parts(piece: Piece): readonly Piece[] {
  return piece.children.filter((child) => child.named && child.kind !== "comment");
}

/** All of a piece, itself first, in order of the text. */
export function* within(piece: Piece): Generator<Piece, void> {
  const waiting: Piece[] = [piece];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    yield next;
    for (let at = next.children.length - 1; at >= 0; at -= 1) {
      const child = next.children[at];
      if (child !== undefined) waiting.push(child);
    }
  }
}

export function ancestor(piece: Piece, kinds: readonly Kind[]): Piece | null {
  for (let at = piece.parent; at !== null; at = at.parent) if (kinds.includes(at.kind)) return at;
  return null;
}

/** Whether it is read for its value: no target, no name of a thing, no callee. */
export function isValue(piece: Piece): boolean {
  if (!piece.named || !VALUES.has(piece.kind) || piece.field === "operator") return false;
  const parent = piece.parent;
  if (parent === null || isTarget(piece)) return false;
  if (parent.kind === "call" && piece.field !== null && CALLEE_FIELDS.has(piece.field))
    return false;
  // What stands alone as a statement is read by nobody, and what is imported is no value.
  if (parent.kind === "statement" || NAMING.test(parent.type)) return false;
  return parent.kind !== "parameters" && parent.kind !== "type" && parent.kind !== "pattern";
}

/** Whether something is assigned to it, or it is declared there. */
export function isTarget(piece: Piece): boolean {
  let at = piece;
  while (at.parent !== null && isPattern(at.parent)) at = at.parent;
  const parent = at.parent;
  if (parent?.kind === "update") return true;
  if (parent === null || at.field === null || !TARGET_FIELDS.has(at.field)) return false;
  if (parent.kind === "assign" || parent.kind === "each") return true;
  return parent.type === "for_in_clause" || parent.type === "range_clause";
}

export function binaryOf(piece: Piece): Binary | null {
  if (piece.kind !== "binary") return null;
  const [left, right, more] = parts(piece).filter((part) => part.field !== "operator");
  if (left === undefined || right === undefined || more !== undefined) return null;
  const between = piece.children.filter((child) => child.from >= left.to && child.to <= right.from);
  const tokens = between.filter((child) => child.kind !== "comment");
  const first = tokens[0];
  const last = tokens.at(-1);
  if (first === undefined || last === undefined) return null;
  return { left, right, from: first.from, to: last.to };
}

export function callOf(piece: Piece): Call | null {
  if (piece.kind !== "call") return null;
  const list = field(piece, "arguments");
  if (list === null) return null;
  // A lone generator of Python's is an argument with the call's own brackets.
  const held = list.kind === "arguments" ? parts(list) : [list];
  const called = field(piece, "function", "constructor", "type");
  if (called === null) {
    const callee = field(piece, "name");
    return callee && { callee, receiver: field(piece, "object"), list, arguments: held };
  }
  if (called.kind !== "attribute") return { callee: called, receiver: null, list, arguments: held };
  const callee = called.children.findLast((child) => child.kind === "member");
  const receiver = parts(called)[0] ?? null;
  return callee === undefined ? null : { callee, receiver, list, arguments: held };
}

export function assignOf(piece: Piece): Assign | null {
  if (piece.kind !== "assign") return null;
  const target = field(piece, "left", "name", "pattern");
  if (target === null) return null;
  const value = field(piece, "right", "value");
  if (value === null) return { target: single(target), value: null, operator: null };
  const operator = piece.children.findLast((child) => !child.named && child.to <= value.from);
  return { target: single(target), value: single(value), operator: operator ?? null };
}

/** What is asked by an `if`, a loop, a ternary or a comprehension, with no brackets around it. */
export function conditionOf(piece: Piece): Piece | null {
  const given = piece.children.find(
    (child) => child.named && child.field !== null && CONDITION_FIELDS.has(child.field),
  );
  if (given !== undefined) return bare(given);
  if (piece.kind === "filter") return parts(piece)[0] ?? null;
  if (piece.type === "conditional_expression") return parts(piece)[1] ?? null;
  // A loop of Go's has its condition as it stands, or in a clause.
  if (piece.type !== "for_statement" || piece.children[0]?.type !== "for") return null;
  const first = parts(piece)[0];
  if (first === undefined || first.field !== null) return null;
  return first.type === "for_clause" ? field(first, "condition") : isAsked(first) ? first : null;
}

/** The statements of a block, in order. */
export function statementsOf(block: Piece): readonly Piece[] {
  return block.kind === "block" ? parts(block) : [];
}

/** What a statement does, without what only makes it a statement. */
export function core(statement: Piece): Piece {
  if (statement.kind !== "statement") return statement;
  return parts(statement)[0] ?? statement;
}

/** The expression inside any brackets that only group. */
export function bare(piece: Piece): Piece {
  const inner = piece.kind === "paren" ? parts(piece)[0] : undefined;
  return inner === undefined ? piece : bare(inner);
}

/** The innermost statement that a piece is in, or is. */
export function statementAt(piece: Piece): Piece | null {
  for (let at: Piece | null = piece; at !== null; at = at.parent) {
    if (at.parent?.kind === "block") return at;
  }
  return null;
}

function isAsked(piece: Piece): boolean {
  return piece.type !== "for_clause" && piece.type !== "range_clause" && VALUES.has(piece.kind);
}

function isPattern(piece: Piece): boolean {
  return piece.kind === "pattern" || piece.kind === "tuple" || piece.type === "expression_list";
}

function single(piece: Piece): Piece {
  const held = piece.type === "expression_list" ? parts(piece) : [];
  const [only] = held;
  return held.length === 1 && only !== undefined ? only : piece;
}
