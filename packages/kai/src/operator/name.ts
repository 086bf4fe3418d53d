import {
  ancestor,
  assignOf,
  callOf,
  field,
  isTarget,
  isValue,
  type Piece,
} from "../syntax/piece.ts";
import type { EditFeature } from "./feature.ts";
import { contraries, similar } from "./naming.ts";
import { exchanged, type Operator, type Proposal, put } from "./operator.ts";
import type { Scope, Variable } from "./scope.ts";
import { clashing } from "./typing.ts";

/** A wrong name: of a variable, an attribute, a method, a function. */
export const names: readonly Operator[] = [
  {
    name: "name-swap",
    kinds: ["name"],
    gives: ["far", "frequent", "opposite", "parameter", "same-shape", "same-type", "similar-name"],
    most: 6,
    propose: nameSwap,
  },
  {
    name: "member-swap",
    kinds: ["member"],
    gives: ["cousin", "far", "opposite", "own", "similar-name"],
    most: 2,
    propose: memberSwap,
  },
  {
    name: "callee-swap",
    kinds: ["call"],
    gives: ["cousin", "opposite", "same-shape", "similar-name"],
    most: 2,
    propose: calleeSwap,
  },
  { name: "receiver-swap", kinds: ["call"], gives: [], propose: receiverSwap },
];

const NAMES_MAX = 24;

function* nameSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  if (!isValue(piece) && !isTarget(piece)) return;
  if (piece.parent?.type === "let_declaration" || piece.parent?.type.includes("declar")) return;
  const said = scope.text(piece);
  // Where names have types, a loop declares its own, and a capital is a type's.
  const declared = isTarget(piece) && piece.parent?.kind === "each";
  if (scope.source.grammar.static && (declared || /^[A-Z]/.test(said))) return;
  const visible = scope.visible(piece);
  const own = visible.find((variable) => variable.text === said) ?? null;
  const against = new Set(contraries(said));
  const others = visible.filter((variable) => variable.text !== said && variable.kind !== "free");
  const free = visible.filter((variable) => variable.text !== said && variable.kind === "free");
  for (const variable of [...others, ...free].slice(0, NAMES_MAX)) {
    if (clashing(own, variable, scope) || unborn(variable, piece, scope)) continue;
    const features = nameFeatures(variable, own, said);
    yield put(piece, variable.text, ...features, ...(against.has(variable.text) ? OPPOSITE : []));
  }
}

/** Whether a variable has no value yet where a name stands, by a compiler's rules. */
function unborn(variable: Variable, piece: Piece, scope: Scope): boolean {
  if (!scope.source.grammar.static || variable.kind !== "local") return false;
  if (variable.from > piece.from) return true;
  const assign = ancestor(piece, ["assign"]);
  return assign !== null && assignOf(assign)?.target.from === variable.from;
}

const OPPOSITE: readonly EditFeature[] = ["opposite"];

function nameFeatures(
  variable: Variable,
  own: Variable | null,
  said: string,
): readonly EditFeature[] {
  const features: EditFeature[] = [];
  if (similar(said, variable.text)) features.push("similar-name");
  if (own?.type != null && own.type === variable.type) features.push("same-type");
  if (own?.kind === variable.kind) features.push("same-shape");
  if (variable.kind === "parameter") features.push("parameter");
  if (variable.kind === "free") features.push("far");
  if (variable.count > 2) features.push("frequent");
  return features;
}

/** An attribute or a method that is known of the same receiver, or in the file, or of its kin. */
function* memberSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const holder = piece.parent;
  if (holder === null || (holder.kind !== "attribute" && holder.kind !== "call")) return;
  const called = holder.kind === "call" || holder.field === "function";
  const receiver = holder.kind === "call" ? field(holder, "object") : (holder.children[0] ?? null);
  const said = scope.text(piece);
  const known = called ? scope.members.methods : scope.members.attributes;
  const { arities } = scope.members;
  const arity = called && scope.source.grammar.static ? arities.get(said) : undefined;
  // A compiler refuses a method with more arguments than it takes, or fewer.
  const unfit = [...arities].filter(([, count]) => arity !== undefined && count !== arity);
  const seen = new Set([said, ...unfit.map(([name]) => name)]);
  const own = receiver === null ? [] : (known.get(scope.text(receiver)) ?? []);
  for (const other of kinOf(said, scope)) {
    if (!seen.has(other)) yield put(piece, other, "cousin");
    seen.add(other);
  }
  for (const other of own) {
    if (seen.has(other)) continue;
    seen.add(other);
    yield put(piece, other, "own", ...(similar(said, other) ? SIMILAR : []));
  }
  for (const other of contraries(said)) {
    if (!seen.has(other)) yield put(piece, other, "opposite");
    seen.add(other);
  }
  for (const other of (known.get("") ?? []).slice(0, NAMES_MAX)) {
    if (seen.has(other)) continue;
    seen.add(other);
    yield put(piece, other, "far", ...(similar(said, other) ? SIMILAR : []));
  }
}

const SIMILAR: readonly EditFeature[] = ["similar-name"];

/** A function of the same shape: its kin, or one that is called here with as many arguments. */
function* calleeSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  if (call === null || call.callee.kind !== "name") return;
  const said = scope.text(call.callee);
  const seen = new Set([said]);
  for (const other of kinOf(said, scope)) {
    seen.add(other);
    yield put(call.callee, other, "cousin");
  }
  for (const other of contraries(said)) {
    if (!seen.has(other) && scope.members.callees.has(other)) {
      yield put(call.callee, other, "opposite");
    }
    seen.add(other);
  }
  let count = 0;
  for (const [other, arity] of scope.members.callees) {
    if (seen.has(other) || count >= NAMES_MAX) continue;
    count += 1;
    const features: readonly EditFeature[] = arity === call.arguments.length ? SHAPED : [];
    yield put(call.callee, other, ...features, ...(similar(said, other) ? SIMILAR : []));
  }
}

const SHAPED: readonly EditFeature[] = ["same-shape"];

/** `a.f(b)` for `b.f(a)`. */
function* receiverSwap(piece: Piece, scope: Scope): Generator<Proposal> {
  const call = callOf(piece);
  const [only] = call?.arguments ?? [];
  if (call?.receiver == null || only === undefined || call.arguments.length !== 1) return;
  if (scope.text(call.receiver) === scope.text(only) || only.kind === "lambda") return;
  if (scope.source.grammar.static) {
    const type = (piece: Piece): string | null =>
      scope.variables().find((variable) => variable.text === scope.text(piece))?.type ?? null;
    if (type(call.receiver) === null || type(call.receiver) !== type(only)) return;
  }
  yield exchanged(call.receiver, only, scope);
}

function kinOf(said: string, scope: Scope): readonly string[] {
  const groups = scope.source.grammar.kin.filter((group) => group.includes(said));
  return [...new Set(groups.flat())].filter((other) => other !== said);
}
