import {
  ancestor,
  conditionOf,
  type Kind,
  type Piece,
  parts,
  statementsOf,
} from "../syntax/piece.ts";
import { after, before, leads } from "./line.ts";
import { filled, negated, type Operator, type Proposal } from "./operator.ts";
import type { Scope } from "./scope.ts";
import { documents } from "./statement.ts";
import { blanksOf, clashing } from "./typing.ts";

/** Statements that are missing, made of the function's own names, conditions and values. */
export const inserts: readonly Operator[] = [
  { name: "assign-insert", kinds: "statement", gives: [], propose: assignInsert },
  { name: "count-insert", kinds: "statement", gives: [], propose: countInsert },
  { name: "guard-insert", kinds: "statement", gives: [], propose: guardInsert },
  { name: "jump-insert", kinds: "statement", gives: [], propose: jumpInsert },
  { name: "call-insert", kinds: "statement", gives: ["own", "stock"], propose: callInsert },
  { name: "update-insert", kinds: "statement", gives: [], propose: updateInsert },
  { name: "return-insert", kinds: "statement", gives: [], propose: returnInsert },
];

const LOOPS: readonly Kind[] = ["while", "for", "each"];
const NAMES_MAX = 8;
const GUARDS_MAX = 16;

/** `a = b` of two names, or of two places, the assigned one a variable that changes anyway. */
function* assignInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope)) return;
  const names = own(piece, scope);
  const changing = scope.assigned();
  const places = scope.donors().filter((donor) => donor.kind === "index");
  const texts = places.slice(0, NAMES_MAX).map((donor) => donor.text);
  const targets = names.filter((name) => changing.has(name));
  for (const [some, values] of [
    [targets, names],
    [texts, [...texts, ...names]],
    [targets, texts],
  ] as const) {
    for (const target of some) {
      for (const value of values) {
        if (value === target || clash(target, value, scope)) continue;
        yield* around(piece, `${target} = ${value}${scope.members.end}`, scope);
      }
    }
  }
}

function clash(target: string, value: string, scope: Scope): boolean {
  const [a, b] = [target, value].map((text) => scope.variables().find((v) => v.text === text));
  return a !== undefined && b !== undefined && clashing(a, b, scope);
}

function* countInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope)) return;
  const { end } = scope.members;
  const changing = scope.assigned();
  for (const target of own(piece, scope)) {
    if (!changing.has(target)) continue;
    for (const sign of ["+=", "-="]) yield* around(piece, `${target} ${sign} 1${end}`, scope);
    for (const value of ["0", "1"]) yield* around(piece, `${target} = ${value}${end}`, scope);
  }
}

/** `if` something is missing or done: `return`, `continue` or `break`, before a statement. */
function* guardInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope)) return;
  const { end } = scope.members;
  const { guard } = scope.source.grammar;
  const loop = ancestor(piece, LOOPS) !== null;
  const results = returned(piece, scope);
  const asked = guards(piece, scope);
  const acts = [...results.map((value) => `return${value === "" ? "" : ` ${value}`}`)];
  if (loop) acts.unshift("continue", "break");
  const raised = scope.pieces.filter((each) => each.kind === "raise").map(scope.text);
  acts.push(...new Set(raised.map((text) => text.replace(/;$/, ""))));
  // The likeliest condition with the likeliest result first: along the diagonals of the two lists.
  for (let sum = 0; sum < asked.length + acts.length; sum += 1) {
    for (let at = 0; at <= sum; at += 1) {
      const condition = asked[at];
      const act = acts[sum - at];
      if (condition === undefined || act === undefined) continue;
      yield before(piece, filled(guard, `${act}${end}`, condition), scope);
    }
  }
}

function* jumpInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope) || ancestor(piece, LOOPS) === null) return;
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  if (siblings.at(-1) !== piece) return;
  if (["break", "continue", "return", "raise"].includes(piece.kind)) return;
  for (const jump of ["break", "continue"]) {
    yield after(piece, `${jump}${scope.members.end}`, scope);
  }
}

/** `a.sort()`, and the other calls that change what they are called on, as far as the file has them. */
function* callInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope)) return;
  const { end } = scope.members;
  const methods = scope.members.methods.get("") ?? [];
  const names = own(piece, scope);
  for (const target of names) {
    for (const method of MUTATING) {
      const known = methods.includes(method);
      const call = `${target}.${method}()${end}`;
      yield* around(piece, call, scope, ...(known ? (["own"] as const) : (["stock"] as const)));
    }
    for (const value of names) {
      if (value === target) continue;
      for (const method of methods.filter((each) => GATHERING.includes(each))) {
        yield* around(piece, `${target}.${method}(${value})${end}`, scope, "own");
      }
      for (const pattern of scope.source.grammar.gathers) {
        yield* around(piece, `${filled(pattern, target, value)}${end}`, scope, "stock");
      }
    }
  }
}

const MUTATING: readonly string[] = ["sort", "reverse", "pop", "clear"];
const GATHERING: readonly string[] = ["append", "add", "push", "extend", "remove", "addAll", "put"];

/** `a = a op b`: a value that a step of the work forgets to change. */
function* updateInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!open(piece, scope)) return;
  const { end } = scope.members;
  const changing = scope.assigned();
  const donors = scope.donors().filter((donor) => donor.kind === "index" || donor.kind === "call");
  const names = own(piece, scope);
  const values = [...names, ...donors.slice(0, NAMES_MAX).map((donor) => donor.text)];
  for (const target of names) {
    if (!changing.has(target)) continue;
    for (const value of values) {
      if (value === target) continue;
      for (const sign of ["+=", "-=", "%="]) {
        yield* around(piece, `${target} ${sign} ${value}${end}`, scope);
      }
    }
  }
}

/** What the function is to give back, at its end, where that is missing. */
function* returnInsert(piece: Piece, scope: Scope): Generator<Proposal> {
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  if (siblings.at(-1) !== piece || piece.kind === "return" || documents(piece)) return;
  if (ancestor(piece, ["function", "lambda"]) === null || !open(piece, scope)) return;
  for (const value of returned(piece, scope)) {
    if (value !== "") yield after(piece, `return ${value}${scope.members.end}`, scope);
  }
}

function* around(
  piece: Piece,
  text: string,
  scope: Scope,
  ...features: readonly ("own" | "stock")[]
): Generator<Proposal> {
  const siblings = piece.parent === null ? [] : statementsOf(piece.parent);
  const leaves = ["break", "continue", "return", "raise"].includes(piece.kind);
  if (siblings[0] === piece || leaves) yield before(piece, text, scope, ...features);
  if (!leaves) yield after(piece, text, scope, ...features);
}

/** Inside a function, and with a line of its own where lines are what makes blocks. */
function open(piece: Piece, scope: Scope): boolean {
  if (scope.region.kind === "block" || documents(piece)) return false;
  return !scope.source.grammar.indented || leads(piece, scope);
}

function own(piece: Piece, scope: Scope): readonly string[] {
  const visible = scope.visible(piece).filter((variable) => variable.kind !== "free");
  return visible.slice(0, NAMES_MAX).map((variable) => variable.text);
}

/** What the function gives back elsewhere, then its variables, then what stands for nothing. */
function returned(piece: Piece, scope: Scope): readonly string[] {
  const given = scope.pieces.filter((each) => each.kind === "return").map((each) => parts(each)[0]);
  const values = given.filter((each) => each !== undefined).map(scope.text);
  const short = values.filter((value) => value.length <= 24);
  const names = own(piece, scope).slice(0, 4);
  const { empties, loose, true: yes, false: no } = scope.source.grammar;
  const truths = short.includes(yes) || short.includes(no) ? [no, yes] : [];
  const all = [...truths, ...short, ...names, ...empties, ...(loose ? [""] : [])];
  return [...new Set(all)].slice(0, GUARDS_MAX);
}

function guards(piece: Piece, scope: Scope): readonly string[] {
  const visible = scope.visible(piece).filter((variable) => variable.kind !== "free");
  const empty = visible
    .slice(0, 4)
    .flatMap((each) => blanksOf(each, scope).map((blank) => filled(blank, each.text, "")));
  const asked = scope
    .conditions()
    .slice(0, NAMES_MAX)
    .map((donor) => donor.text);
  const holder = ancestor(piece, ["if", "while"]);
  const outer = holder === null ? null : conditionOf(holder);
  const contrary = outer === null ? [] : [negated(outer, scope)];
  return [...new Set([...interleaved(empty, asked), ...contrary])].slice(0, GUARDS_MAX * 2);
}

function interleaved(a: readonly string[], b: readonly string[]): readonly string[] {
  const found: string[] = [];
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const [first, second] = [a[at], b[at]];
    if (first !== undefined) found.push(first);
    if (second !== undefined) found.push(second);
  }
  return found;
}
