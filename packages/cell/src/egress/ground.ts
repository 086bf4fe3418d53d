import type { SecureContext } from "node:tls";
import type { CellId } from "@dev/protocol";
import type { Authority } from "./authority.ts";
import type { EgressLimits } from "./limits.ts";
import type { Draft, EgressRecord, Refusal } from "./record.ts";
import type { Allowance } from "./rule.ts";

/** What a cell's network needs of the world. */
export type EgressSeams = {
  /** Every address of a name; it rejects where there is none. */
  readonly resolve: (name: string) => Promise<readonly string[]>;
  /** A variable of this process's environment, for secrets. */
  readonly variable: (name: string) => string | undefined;
  /** Is told of every request, once, when it has ended. */
  readonly onRequest: (record: EgressRecord) => void;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly limits: EgressLimits;
};

/** What all connections of one cell share. */
export type Ground = {
  readonly cell: CellId | null;
  readonly seams: EgressSeams;
  readonly allowances: readonly Allowance[];
  /** Null where no rule asks to see what is said over TLS. */
  readonly authority: Authority | null;
  /** What origins are checked against. */
  readonly trust: SecureContext;
  /** False when there have been too many requests. */
  readonly admit: () => boolean;
  readonly record: (draft: Draft, passed: Passed, end: Refusal | null) => void;
};

export type Passed = { readonly up: number; readonly down: number };

export const NOTHING_PASSED: Passed = { up: 0, down: 0 };
