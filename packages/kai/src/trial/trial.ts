import type { Candidate } from "../candidate.ts";

/** What became of a candidate when the tests ran on it. */
export type Trial =
  | { readonly kind: "passed"; readonly durationMs: number }
  /** It loads, and some test fails: how many of the tests that were run, and which, as far as was looked. */
  | {
      readonly kind: "failed";
      readonly failedTests: readonly string[];
      readonly durationMs: number;
    }
  /** It does not parse, compile or load. */
  | { readonly kind: "broken"; readonly durationMs: number }
  | { readonly kind: "timeout"; readonly durationMs: number; readonly had: Had };

/**
 * How much one had that did not come to its end: `part` of its deadline, as much as what hangs needs; the
 * `whole`; or all of it, and it passed a test that is known to fail, so that it is worth more (`near`).
 */
export type Had = "part" | "whole" | "near";

/**
 * Runs the tests with a probe in them, the text of a Python module; says what the probe wrote, or null where
 * it wrote nothing. Rejects only when aborted.
 */
export type Cover = (
  probe: string,
  deadlineMs: number,
  signal: AbortSignal,
) => Promise<string | null>;

/**
 * Tries candidates, as cheaply as the runner of the tests allows. What it says of a candidate is no
 * proof: whoever accepts one runs the whole command, cold, on the tree as it will be left.
 */
export interface Trials {
  /** Such as `pytest forked`, for the ledger and for a person. */
  readonly name: string;
  /** How many may be tried at the same time. */
  readonly slotCount: number;
  /** How many may be asked for at the same time: where they are tried in batches, more than run. */
  readonly depth: number;
  /** Deadlines count the time on the processor, and are for the first test that fails: a busy machine makes nobody late. */
  readonly isSteady: boolean;
  /** How long the tests took here on the unchanged tree, to set deadlines by. */
  readonly baseMs: number;
  /** Runs the tests with a probe where they are loaded already; null where no worker can. */
  readonly cover: Cover | null;
  /** Rejects only when aborted. */
  try(candidate: Candidate, deadlineMs: number, signal: AbortSignal): Promise<Trial>;
  /** Ends its processes and removes all that it wrote. */
  close(): Promise<void>;
}
