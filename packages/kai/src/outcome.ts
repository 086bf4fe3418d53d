import type { Candidate, Site } from "./candidate.ts";
import type { Comparison } from "./compare.ts";
import type { Cost } from "./help.ts";
import type { FileText, Proof, Verification } from "./verify.ts";

/** A change that brings the command to pass, with what was seen of it. */
export type Fix = {
  readonly operator: string;
  readonly source: "rule" | "model" | "recover";
  readonly site: Site;
  readonly files: readonly FileText[];
  /** Of the weight of all that passed, what this and those that do the same have. */
  readonly share: number;
  readonly candidate: Candidate;
};

/** How a run ended, and what it did. */
export type Outcome = Ending & Account;

export type Ending =
  | {
      readonly kind: "verified";
      readonly fix: Fix;
      readonly proof: Extract<Verification, { kind: "verified" }>;
      readonly before: Proof;
    }
  /** The tree is as it was; the fixes all pass, and do different things. */
  | {
      readonly kind: "ambiguous";
      readonly fixes: readonly Fix[];
      readonly comparison: Comparison;
      readonly before: Proof;
    }
  | { readonly kind: "not_fixed"; readonly why: string; readonly before: Proof | null }
  | { readonly kind: "not_run"; readonly why: string }
  | { readonly kind: "passes"; readonly before: Proof };

export type Account = {
  readonly task: string;
  readonly triedCount: number;
  /** From the start to the first fix that the verifier confirmed; null where there is none. */
  readonly firstMs: number | null;
  readonly durationMs: number;
  readonly cost: Cost;
  readonly ledger: string;
};

/** What is told while a run goes on. */
export type Progress =
  | { readonly kind: "stage"; readonly text: string }
  /** A command ran to its end. */
  | { readonly kind: "ran"; readonly what: "base" | "verify"; readonly proof: Proof }
  | { readonly kind: "note"; readonly text: string }
  | {
      readonly kind: "trying";
      readonly site: Site;
      readonly triedCount: number;
      readonly how: string;
    };
