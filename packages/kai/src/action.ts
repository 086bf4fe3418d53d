import type { Revision } from "./revision.ts";

/** One thing that a run does, or might have done; the flow owns it from its first status to its last. */
export type Action = {
  /** `a1`, `a2`, … in the order in which they came to be. */
  readonly id: string;
  /** The run that it belongs to. */
  readonly task: string;
  /** What it was decided upon; it is void once the files are others. */
  readonly revision: Revision;
  /** Why it was thought of: a weight, a site, a failure. */
  readonly evidence: string;
  readonly operation: Operation;
  /** What has to hold immediately before it is performed. */
  readonly preconditions: readonly string[];
  /** What allows it: it happens in a copy, or it was verified. */
  readonly authorization: "copy" | "verified";
  /** What should come of it. */
  readonly expected: string;
  /** What settles whether it did. */
  readonly verification: string;
  readonly source: "rule" | "kai" | "model" | "recover";
};

export type Operation =
  | { readonly kind: "search"; readonly what: string }
  | { readonly kind: "decide"; readonly question: string }
  | { readonly kind: "mutate"; readonly operator: string; readonly edits: readonly Change[] }
  | { readonly kind: "generate"; readonly edits: readonly Change[] }
  | { readonly kind: "edit"; readonly files: readonly string[] }
  | { readonly kind: "test"; readonly argv: readonly string[] }
  | { readonly kind: "revert"; readonly files: readonly string[] };

/** An edit as the ledger keeps it: with what was there, so that it can be read without the file. */
export type Change = {
  readonly file: string;
  /** Both counted from 1; a column is a UTF-16 unit of its line. */
  readonly line: number;
  readonly column: number;
  readonly old: string;
  readonly new: string;
};

export const STATUSES = [
  "eligible",
  "attempted",
  "completed",
  "validated",
  "selected",
  "applied",
  "verified",
  "abstained",
  "rejected",
  "timed_out",
  "failed",
  "escalated",
] as const;

export type Status = (typeof STATUSES)[number];

/** From each status, those that may come next; what is not named is an end. */
const NEXT: Readonly<Partial<Record<Status, readonly Status[]>>> = {
  eligible: ["attempted", "abstained"],
  attempted: ["completed", "rejected", "timed_out", "failed", "abstained", "escalated"],
  completed: ["validated", "rejected", "failed", "abstained"],
  validated: ["selected", "abstained", "rejected", "escalated"],
  selected: ["applied", "rejected", "abstained", "failed"],
  applied: ["verified", "failed"],
};

/** Whether an action of this status may come to that one. */
export function mayBecome(from: Status, to: Status): boolean {
  return NEXT[from]?.includes(to) ?? false;
}
