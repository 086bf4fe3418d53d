import {
  ancestor,
  assignOf,
  bare,
  conditionOf,
  core,
  type Kind,
  type Piece,
  parts,
  statementAt,
  statementsOf,
  within,
} from "../syntax/piece.ts";
import type { Scope } from "./scope.ts";
import { SYMPTOMS, type Symptom, type Symptoms } from "./symptom.ts";
import { TEXT_FEATURES, type TextFeature } from "./texture.ts";

/**
 * What is known of a candidate before it runs. The weights file has a number for each of them and for
 * each operator; those of `SITE` come from where it is, those of `EDIT` from what it changes.
 */
export const SITE_FEATURES = [
  "in-condition",
  "in-loop-header",
  "in-return",
  "in-arguments",
  "in-index",
  "in-assignment",
  "in-loop",
  "in-branch",
  "in-closure",
  "in-recursion",
  "in-raise",
  "first-statement",
  "last-statement",
  "large",
  /** The line that failed, or one on the way to it. */
  "at-crash",
  "at-frame",
  /** Where what is seen would come from: what a loop that hangs goes on with, and the like. */
  "hangs-here",
  "recurs-here",
  "ranges-here",
  /** An argument of a call of a function to itself that is what the function was given there. */
  "stagnant",
  /** In a loop in a loop. */
  "deep",
  /** Of what the piece is, and what it is a part of. */
  "is-name",
  "is-call",
  "is-number",
  "is-binary",
  "is-attribute",
  "is-index",
  "is-list",
  "is-if",
  "is-loop",
  "is-return",
  "is-assign",
  "is-target",
  "of-comparison",
  "of-logic",
  "of-arithmetic",
  "of-index",
  "of-slice",
  "of-call",
  "of-attribute",
  "of-unary",
  "of-list",
  "of-ternary",
  "of-range",
] as const;

export const EDIT_FEATURES = [
  "boundary",
  "mirror",
  "opposite",
  "cousin",
  "similar-name",
  "same-type",
  "same-shape",
  "parameter",
  "frequent",
  "far",
  "step-up",
  "step-down",
  "zero",
  "unit",
  "own",
  "stock",
  "whole",
  "adjacent",
  "twice",
  "long",
  "fits",
] as const;

/** Natural logarithms of counts: how many others the operator has there, and how many come before. */
const COUNT_FEATURES = ["crowd", "rank"] as const;

/**
 * Natural logarithm of the places that an operator has in all, each counted by its suspicion against the
 * highest: how likely an operator is the right one grows less than how often it can be applied.
 */
const SPREAD_FEATURES = ["spread"] as const;

export type SiteFeature = (typeof SITE_FEATURES)[number];
export type EditFeature = (typeof EDIT_FEATURES)[number];
export type Feature =
  | Symptom
  | SiteFeature
  | EditFeature
  | TextFeature
  | (typeof COUNT_FEATURES)[number]
  | (typeof SPREAD_FEATURES)[number];

export const FEATURES: readonly Feature[] = [
  ...SYMPTOMS,
  ...SITE_FEATURES,
  ...EDIT_FEATURES,
  ...COUNT_FEATURES,
  ...TEXT_FEATURES,
  ...SPREAD_FEATURES,
];

const LOOPS: readonly Kind[] = ["while", "for", "each"];
const LARGE_CHARS = 40;
const DEEP_MAX = 3;

/** What a place says of itself, each no more than once. */
export function siteFeatures(
  piece: Piece,
  scope: Scope,
  symptoms: Symptoms,
): readonly SiteFeature[] {
  const found = new Set<SiteFeature>();
  const recursive = scope.recursive();
  for (let at: Piece = piece; at.parent !== null; at = at.parent) {
    const feature = placed(at, at.parent);
    if (feature !== null) found.add(feature);
    if (recursive.has(at)) found.add("in-recursion");
    if (at.parent.kind === "lambda" && at.field === "body") found.add("in-closure");
    if (at.parent.kind === "block") break;
  }
  const statement = statementAt(piece);
  if (statement !== null) {
    const depth = loopDepth(statement);
    if (depth > 0) found.add("in-loop");
    if (depth > 1) found.add("deep");
    if (ancestor(statement, ["if"]) !== null) found.add("in-branch");
    if (statement.parent?.parent?.kind === "function") {
      const all = statementsOf(statement.parent);
      if (all[0] === statement) found.add("first-statement");
      if (all.at(-1) === statement) found.add("last-statement");
    }
  }
  if (piece.to - piece.from > LARGE_CHARS) found.add("large");
  const key = `${scope.source.file}:${scope.source.line(piece.from)}`;
  if (symptoms.crashes.has(key)) found.add("at-crash");
  else if (symptoms.frames.has(key)) found.add("at-frame");
  for (const feature of suspected(found, piece, statement, scope, symptoms)) found.add(feature);
  for (const feature of formed(piece, scope)) found.add(feature);
  return [...found];
}

function placed(piece: Piece, parent: Piece): SiteFeature | null {
  if (LOOPS.includes(parent.kind) && piece.field !== "body") return "in-loop-header";
  if (piece.field === "condition" || parent.kind === "filter") return "in-condition";
  if (parent.kind === "return") return "in-return";
  if (parent.kind === "raise") return "in-raise";
  if (parent.kind === "arguments") return "in-arguments";
  if (parent.kind === "index" || parent.kind === "slice") return "in-index";
  if (core(piece).kind === "assign" || piece.kind === "assign") return "in-assignment";
  return null;
}

function loopDepth(statement: Piece): number {
  let depth = 0;
  for (let at = ancestor(statement, LOOPS); at !== null && depth < DEEP_MAX; depth += 1) {
    at = ancestor(at, LOOPS);
  }
  return depth;
}

/** What the kind of a failure makes likelier than its line does. */
function* suspected(
  found: ReadonlySet<SiteFeature>,
  piece: Piece,
  statement: Piece | null,
  scope: Scope,
  { kinds }: Symptoms,
): Generator<SiteFeature> {
  if (kinds.includes("hang") && (found.has("in-loop-header") || drives(statement, scope))) {
    yield "hangs-here";
  }
  const turns = found.has("in-recursion") || found.has("in-condition") || piece.kind === "if";
  if (kinds.includes("recursion") && turns) yield "recurs-here";
  const reaches = found.has("in-index") || found.has("in-loop-header") || found.has("in-condition");
  if (kinds.includes("range") && reaches) yield "ranges-here";
}

/** Whether a statement changes what the loop around it goes on with. */
function drives(statement: Piece | null, scope: Scope): boolean {
  if (statement === null) return false;
  const loop = ancestor(statement, ["while", "for"]);
  const condition = loop === null ? null : conditionOf(loop);
  const target = assignOf(core(statement))?.target;
  if (condition === null || target === undefined) return false;
  const asked = new Set(
    [...within(condition)].filter(({ kind }) => kind === "name").map(scope.text),
  );
  return [...within(target)].some((part) => part.kind === "name" && asked.has(scope.text(part)));
}

const FORMS: Readonly<Partial<Record<Kind, SiteFeature>>> = {
  name: "is-name",
  call: "is-call",
  integer: "is-number",
  float: "is-number",
  binary: "is-binary",
  attribute: "is-attribute",
  index: "is-index",
  slice: "is-index",
  list: "is-list",
  tuple: "is-list",
  map: "is-list",
  if: "is-if",
  while: "is-loop",
  for: "is-loop",
  each: "is-loop",
  return: "is-return",
  assign: "is-assign",
};

const HOLDERS: Readonly<Partial<Record<Kind, SiteFeature>>> = {
  index: "of-index",
  slice: "of-slice",
  arguments: "of-call",
  attribute: "of-attribute",
  unary: "of-unary",
  list: "of-list",
  tuple: "of-list",
  map: "of-list",
  ternary: "of-ternary",
};

function* formed(piece: Piece, scope: Scope): Generator<SiteFeature> {
  const own = FORMS[core(bare(piece)).kind];
  if (own !== undefined) yield own;
  if (piece.field === "left" && piece.parent?.kind === "assign") yield "is-target";
  let holder = piece.parent;
  while (holder?.kind === "paren") holder = holder.parent;
  if (holder === null) return;
  if (holder.kind === "binary") {
    const sign = holder.children.find((child) => !child.named);
    yield sign === undefined ? "of-logic" : signed(scope.text(sign), scope);
  }
  const of = HOLDERS[holder.kind];
  if (of !== undefined) yield of;
  const call = holder.kind === "arguments" ? holder.parent : null;
  if (call !== null && scope.recursive().has(call) && stagnates(piece, scope)) yield "stagnant";
  const callee = call?.children[0];
  if (callee !== undefined && scope.text(callee) === "range") yield "of-range";
}

/** Whether a function that calls itself hands on what it was given at the same place. */
function stagnates(piece: Piece, scope: Scope): boolean {
  if (piece.kind !== "name" || piece.parent === null) return false;
  const list = ancestor(piece, ["function"])?.children.find(({ kind }) => kind === "parameters");
  if (list === undefined) return false;
  const own = parts(list)[parts(piece.parent).indexOf(piece)];
  return (
    own !== undefined && new RegExp(`\\b${escaped(scope.text(piece))}\\b`).test(scope.text(own))
  );
}

function escaped(text: string): string {
  return text.replaceAll("$", "\\$");
}

function signed(sign: string, { source }: Scope): SiteFeature {
  if (source.grammar.arithmetic.includes(sign)) return "of-arithmetic";
  return source.grammar.comparisons.includes(sign) ? "of-comparison" : "of-logic";
}
