import {
  ancestor,
  assignOf,
  callOf,
  conditionOf,
  core,
  field,
  isTarget,
  isValue,
  type Kind,
  type Piece,
  parts,
  statementsOf,
  within,
} from "../syntax/piece.ts";
import { after, before, indentAt, indented, leads, outdented, removed } from "./line.ts";
import { exchanged, filled, type Operator, type Proposal, put } from "./operator.ts";
import type { Scope } from "./scope.ts";
import { blanksOf, unlike } from "./typing.ts";

/** Statements dropped, moved and copied; what is given back. What is put in new is in `insert.ts`. */
export const statements: readonly Operator[] = [
  { name: "statement-delete", kinds: "statement", gives: [], propose: statementDelete },
  { name: "statements-delete", kinds: "statement", gives: ["twice"], propose: statementsDelete },
  { name: "statement-move", kinds: "statement", gives: ["adjacent"], propose: statementMove },
  { name: "statement-outdent", kinds: "statement", gives: ["adjacent"], propose: statementOutdent },
  { name: "statement-indent", kinds: "statement", gives: ["adjacent"], propose: statementIndent },
  { name: "statement-copy", kinds: "statement", gives: ["twice"], propose: statementCopy },
  { name: "body-unwrap", kinds: ["if"], gives: [], propose: bodyUnwrap },
  { name: "return-drop", kinds: ["return"], gives: ["own"], propose: returnDrop },
  {
    name: "return-value",
    kinds: ["return"],
    gives: ["opposite", "own", "same-shape", "stock"],
    propose: returnValue,
  },
  { name: "returns-swap", kinds: ["return"], gives: ["opposite", "whole"], propose: returnsSwap },
  { name: "call-assign", kinds: "statement", gives: [], propose: callAssign },
  { name: "jump-swap", kinds: ["break", "continue", "return"], gives: [], propose: jumpSwap },
  { name: "else-add", kinds: ["if"], gives: [], propose: elseAdd },
  { name: "else-toggle", kinds: ["if", "else"], gives: [], propose: elseToggle },
];

const COMPOUND: readonly Kind[] = ["if", "while", "for", "each", "function", "class"];
const LOOPS: readonly Kind[] = ["while", "for", "each"];
const COPIES_MAX = 24;
const COPY_CHARS_MAX = 80;
const RETURNS_MAX = 24;
const RETURNS = /\b(return|break|continue)\b/;

function* statementDelete(piece: Piece, scope: Scope): Generator<Proposal> {
  if (COMPOUND.includes(piece.kind) && piece.to - piece.from > COPY_CHARS_MAX * 3) return;
  if (piece.kind === "function" || piece.kind === "class" || documents(piece)) return;
  if (needed(piece, scope)) return;
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  if (siblings.length === 1 && scope.source.grammar.indented) {
    yield put(piece, "pass");
    return;
  }
  yield { cuts: [removed(piece, scope)], features: [] };
}

/** Two statements that follow each other, where one alone does not bring it. */
function* statementsDelete(piece: Piece, scope: Scope): Generator<Proposal> {
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  const next = siblings[siblings.indexOf(piece) + 1];
  if (next === undefined || siblings.length < 3 || JUMPS.includes(core(next).kind)) return;
  if ([piece, next].some((each) => COMPOUND.includes(each.kind) || documents(each))) return;
  if (needed(piece, scope) || needed(next, scope)) return;
  const [from, { to }] = [removed(piece, scope).from, removed(next, scope)];
  yield { cuts: [{ from, to, text: "" }], features: ["twice"] };
}

/** What a compiler does not let go: a declaration, and the last `return` of a function. */
function needed(piece: Piece, scope: Scope): boolean {
  if (!scope.source.grammar.static) return false;
  if (declares(piece) || /let_|var_|declar/.test(piece.type)) return true;
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  return (
    core(piece).kind === "return" && parts(core(piece)).length > 0 && siblings.at(-1) === piece
  );
}

function* statementMove(piece: Piece, scope: Scope): Generator<Proposal> {
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  const at = siblings.indexOf(piece);
  const next = siblings[at + 1];
  if (next === undefined || piece.kind === "function" || documents(piece)) return;
  if (needed(piece, scope) || JUMPS.includes(core(next).kind)) return;
  yield exchanged(piece, next, scope, "adjacent");
  const last = siblings[at + 2];
  if (last === undefined) return;
  // Up over two, and down over two.
  const text = scope.source.text;
  const between = text.slice(piece.to, next.from);
  yield {
    cuts: [
      {
        from: piece.from,
        to: last.to,
        text: `${scope.text(last)}${between}${text.slice(piece.from, next.to)}`,
      },
    ],
    features: [],
  };
  yield {
    cuts: [
      {
        from: piece.from,
        to: last.to,
        text: `${text.slice(next.from, last.to)}${between}${scope.text(piece)}`,
      },
    ],
    features: [],
  };
}

/** The last statement of a block, after what holds the block. */
function* statementOutdent(piece: Piece, scope: Scope): Generator<Proposal> {
  const block = piece.parent;
  const siblings = block === null ? [] : statementsOf(block);
  if (siblings.length < 2 || siblings.at(-1) !== piece || documents(piece)) return;
  let holder: Piece | null = block;
  for (let level = 0; level < 3 && holder !== null; level += 1) {
    while (holder !== null && holder.parent?.kind !== "block") holder = holder.parent;
    if (holder === null || !COMPOUND.slice(0, 4).includes(core(holder).kind)) return;
    const indent = indentAt(scope.source.text, holder.from);
    const text = `\n${indent}${indented(outdented(piece, scope), indent)}`;
    const gone = removed(piece, scope);
    const cut = { from: holder.to, to: holder.to, text };
    // The last of an indented block ends where its holder does.
    const cuts =
      gone.to >= holder.to ? [{ ...gone, to: Math.max(gone.to, holder.to), text }] : [gone, cut];
    yield { cuts, features: level === 0 ? ["adjacent"] : [] };
    holder = holder.parent;
  }
}

/** A statement after a block, at the end of the block. */
function* statementIndent(piece: Piece, scope: Scope): Generator<Proposal> {
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  const holder = siblings[siblings.indexOf(piece) - 1];
  if (holder === undefined || piece.kind === "function" || needed(piece, scope)) return;
  if (!COMPOUND.slice(0, 4).includes(core(holder).kind)) return;
  for (const inner of within(holder)) {
    if (
      inner.kind !== "block" ||
      ancestor(inner, ["function", "lambda"])?.from !== scopeStart(piece)
    ) {
      continue;
    }
    const last = statementsOf(inner).at(-1);
    if (last === undefined || (scope.source.grammar.indented && !leads(last, scope))) continue;
    const put = after(last, outdented(piece, scope), scope, "adjacent");
    yield { ...put, cuts: [...put.cuts, removed(piece, scope)] };
  }
}

function scopeStart(piece: Piece): number | undefined {
  return ancestor(piece, ["function", "lambda"])?.from;
}

/** Other statements of the function, before and after this one, as they are and with one name changed. */
function* statementCopy(piece: Piece, scope: Scope): Generator<Proposal> {
  if (scope.source.grammar.indented && !leads(piece, scope)) return;
  const simple = scope.statements().filter((other) => {
    const short = other.to - other.from <= COPY_CHARS_MAX;
    const simple = !COMPOUND.includes(other.kind) || other.kind === "if";
    return short && simple && !documents(other) && !declares(other);
  });
  // Outside of functions nothing can be given back.
  const copies = simple
    .filter((other) => scope.region.parent !== null || !RETURNS.test(scope.text(other)))
    .slice(0, COPIES_MAX);
  for (const other of copies) {
    const text = outdented(other, scope);
    yield after(piece, text, scope);
    if (first(piece)) yield before(piece, text, scope);
  }
  for (const other of copies) {
    for (const text of adapted(other, scope)) yield after(piece, text, scope, "twice");
  }
}

/** A copy with one of its names another. */
function* adapted(statement: Piece, scope: Scope): Generator<string> {
  const visible = scope.visible(statement).filter((variable) => variable.kind !== "free");
  const text = scope.text(statement);
  for (const piece of within(statement)) {
    if (piece.kind !== "name" || (!isValue(piece) && !isTarget(piece))) continue;
    for (const variable of visible.slice(0, 6)) {
      if (variable.text === scope.text(piece)) continue;
      const start = piece.from - statement.from;
      yield text.slice(0, start) + variable.text + text.slice(piece.to - statement.from);
    }
  }
}

/** What is done under a condition, done always. */
function* bodyUnwrap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (piece.parent?.kind !== "block" && piece.parent?.kind !== "statement") return;
  if (conditionOf(piece) === null) return;
  const block = piece.children.find((child) => child.field === "consequence");
  const inner =
    block === undefined ? undefined : [...within(block)].find((p) => p.kind === "block");
  const body = inner === undefined ? [] : statementsOf(inner);
  const [head] = body;
  if (head === undefined) return;
  const indent = indentAt(scope.source.text, piece.from);
  const lines = body.map((statement) => indented(outdented(statement, scope), indent));
  yield put(piece, lines.join(`\n${indent}`));
}

/** `return x` as `x`, which a function of some languages then gives back nothing for. */
function* returnDrop(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = parts(piece)[0];
  const indent = scope.source.grammar.indented;
  const statement = piece.parent?.kind === "statement" ? piece.parent : piece;
  const siblings = statement.parent === null ? [] : statementsOf(statement.parent);
  if (siblings.length > 1) yield { cuts: [removed(statement, scope)], features: [] };
  else if (indent) yield put(piece, "pass");
  if (value?.kind === "call" || value?.kind === "assign") {
    yield put(piece, `${scope.text(value)}${scope.members.end}`, "own");
  }
}

function* returnValue(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = parts(piece)[0];
  const { end } = scope.members;
  const { empties, true: yes, false: no } = scope.source.grammar;
  const said = value === undefined ? "" : scope.text(value);
  const semicolon = piece.type === "return_expression" ? "" : end;
  const set = (
    text: string,
    ...features: readonly ("own" | "stock" | "opposite" | "same-shape")[]
  ) =>
    value === undefined
      ? put(piece, `return ${text}${semicolon}`, ...features)
      : put(value, text, ...features);
  if (said === yes) yield set(no, "opposite");
  if (said === no) yield set(yes, "opposite");
  for (const other of scope.pieces) {
    if (other.kind !== "return" || other === piece) continue;
    const given = parts(other)[0];
    if (given !== undefined && scope.text(given) !== said)
      yield set(scope.text(given), "same-shape");
  }
  const visible = scope.visible(piece).filter((variable) => variable.kind !== "free");
  for (const variable of visible.slice(0, RETURNS_MAX)) {
    if (variable.text !== said) yield set(variable.text, "own");
  }
  for (const other of empties)
    if (other !== said && !unlike(said, other, scope)) yield set(other, "stock");
  if (said !== yes && said !== no) return;
  for (const variable of visible.slice(0, 6)) {
    for (const blank of blanksOf(variable, scope)) yield set(filled(blank, variable.text, ""));
  }
}

/** What is given back here, given back there, and the other way around. */
function* returnsSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const value = parts(piece)[0];
  if (value === undefined) return;
  for (const other of scope.pieces) {
    if (other.kind !== "return" || other.from <= piece.from) continue;
    const given = parts(other)[0];
    if (given === undefined || scope.text(given) === scope.text(value)) continue;
    const constant = given.kind === "constant" && value.kind === "constant";
    yield exchanged(value, given, scope, constant ? "opposite" : "whole");
  }
}

/** `a.update(b)` as `a = b`. */
function* callAssign(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(core(piece));
  const [only, more] = call?.arguments ?? [];
  if (call?.receiver == null || only === undefined || more !== undefined) return;
  const { end } = scope.members;
  yield put(piece, `${scope.text(call.receiver)} = ${scope.text(only)}${end}`);
}

function* jumpSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (ancestor(piece, LOOPS) === null) return;
  const { end } = scope.members;
  const { indented: bare } = scope.source.grammar;
  const semicolon = piece.type.endsWith("_expression") ? "" : end;
  for (const jump of ["break", "continue"]) {
    if (!scope.text(piece).startsWith(jump)) yield put(piece, `${jump}${semicolon}`);
  }
  if (bare) yield put(piece, "pass");
}

/** An `if` that should be the `else if` of the one before it, and the other way around. */
function* elseToggle(piece: Piece, scope: Scope): Generator<Proposal> {
  const { indented: bare } = scope.source.grammar;
  if (bare && piece.type === "elif_clause") {
    yield { cuts: [{ from: piece.from, to: piece.from + 4, text: "if" }], features: [] };
    return;
  }
  if (piece.kind === "else") {
    const [body] = parts(piece);
    if (body === undefined || bare || body.kind === "if") return;
    yield { cuts: [{ from: piece.from, to: body.from, text: "" }], features: [] };
    return;
  }
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  const prior = siblings[siblings.indexOf(piece) - 1];
  if (prior === undefined || core(prior).kind !== "if") return;
  if (bare) yield { cuts: [{ from: piece.from, to: piece.from + 2, text: "elif" }], features: [] };
  else yield { cuts: [{ from: prior.to, to: piece.from, text: " else " }], features: [] };
}

/** What comes after an `if`, as what is done else. */
function* elseAdd(piece: Piece, scope: Scope): Generator<Proposal> {
  const statement = piece.parent?.kind === "statement" ? piece.parent : piece;
  const siblings = statement.parent === null ? [] : statementsOf(statement.parent);
  const next = siblings[siblings.indexOf(statement) + 1];
  if (next === undefined || field(piece, "alternative") !== null) return;
  if (!["statement", "assign", "return", "update", "raise"].includes(next.kind)) return;
  const block = field(piece, "consequence");
  const inner = block === null ? [] : [...within(block)].filter((each) => each.kind === "block");
  const last = inner[0] === undefined ? undefined : statementsOf(inner[0]).at(-1);
  // After a branch that leaves, what follows is done else as it stands.
  if (last === undefined || JUMPS.includes(core(last).kind)) return;
  const indent = indentAt(scope.source.text, piece.from);
  const deeper = indentAt(scope.source.text, last.from);
  const text = indented(outdented(next, scope), deeper);
  const made = scope.source.grammar.indented
    ? `\n${indent}else:\n${deeper}${text}`
    : ` else {\n${deeper}${text}\n${indent}}`;
  const to = removed(next, scope).to;
  yield { cuts: [{ from: statement.to, to, text: made }], features: [] };
}

const JUMPS: readonly Kind[] = ["return", "break", "continue", "raise"];

function first(piece: Piece): boolean {
  return piece.parent !== null && statementsOf(piece.parent)[0] === piece;
}

/** A string that stands alone, which only says something. */
export function documents(piece: Piece): boolean {
  return core(piece).kind === "string";
}

/** A copy of a declaration declares a name twice, which languages with blocks refuse. */
function declares(piece: Piece): boolean {
  return piece.type.includes("declar") || (piece.kind === "assign" && assignOf(piece) === null);
}
