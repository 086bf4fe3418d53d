/** What operators do, at large. */
export type Group =
  | "flip"
  | "augment"
  | "number"
  | "literal"
  | "name"
  | "order"
  | "argument"
  | "wrap"
  | "drop"
  | "term"
  | "condition"
  | "statement"
  | "result"
  | "insert"
  | "other";

/**
 * Operators that are likely for the same reasons: what is known of few is known of all in a group. An
 * operator that is in none is one of the last.
 */
export const GROUPS: Readonly<Record<Group, readonly string[]>> = {
  flip: [
    "comparison-flip",
    "arithmetic-flip",
    "bit-flip",
    "logic-flip",
    "augment-flip",
    "update-flip",
  ],
  augment: ["augment-assign", "augment-expand", "call-assign", "fold-call"],
  number: ["integer-step", "integer-swap", "integer-sign", "float-swap", "sign-change"],
  literal: ["empty-swap", "string-swap", "string-shape", "string-name", "kind-swap", "nest-change"],
  name: ["name-swap", "member-swap", "callee-swap", "donor-swap", "target-swap", "index-value"],
  order: [
    "receiver-swap",
    "arguments-swap",
    "operands-swap",
    "index-swap",
    "elements-swap",
    "branches-swap",
    "returns-swap",
    "regroup",
  ],
  argument: [
    "argument-drop",
    "argument-add",
    "range-start",
    "slice-bound",
    "slice-drop",
    "slice-add",
  ],
  wrap: ["call-wrap", "pair-wrap", "sides-wrap", "expression-scale"],
  drop: ["call-unwrap", "term-drop", "filter-drop", "ternary-arm"],
  term: ["expression-step", "expression-offset", "text-join", "join-add"],
  condition: [
    "condition-negate",
    "condition-part-negate",
    "condition-add",
    "condition-swap",
    "condition-fixed",
    "condition-compare",
    "comparison-widen",
    "filter-add",
  ],
  statement: [
    "statement-delete",
    "statements-delete",
    "loop-advance",
    "result-gather",
    "statement-move",
    "statement-outdent",
    "statement-indent",
    "statement-copy",
    "body-unwrap",
    "jump-swap",
    "else-toggle",
    "else-add",
  ],
  result: ["return-drop", "return-value", "return-insert"],
  insert: [
    "assign-insert",
    "count-insert",
    "guard-insert",
    "jump-insert",
    "call-insert",
    "update-insert",
  ],
  other: [],
};

const byOperator: ReadonlyMap<string, Group> = new Map(
  (Object.keys(GROUPS) as Group[]).flatMap((group) =>
    GROUPS[group].map((operator): [string, Group] => [operator, group]),
  ),
);

export function groupOf(operator: string): Group {
  return byOperator.get(operator) ?? "other";
}
