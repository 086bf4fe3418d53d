import type { Candidate } from "./candidate.ts";
import type { Example } from "./compare.ts";
import type { Command, Report } from "./report/report.ts";
import type { Workspace } from "./report/workspace.ts";
import type { Revision } from "./revision.ts";
import type { Scene } from "./scene.ts";
import type { FileText } from "./verify.ts";

/** What a run knows when it asks for help; the same state is asked about under the same revision. */
export type State = {
  readonly revision: Revision;
  readonly command: Command;
  readonly report: Report;
  readonly scene: Scene;
  /** The files, in a copy that is only read. */
  readonly workspace: Workspace;
  /** What was tried at this revision and did not do, in order. */
  readonly history: readonly Miss[];
};

/** An answer that was tried and did not bring the command to pass. */
export type Miss = {
  readonly candidate: Candidate;
  readonly source: "model" | "recover";
  readonly report: Report;
  /** Of what failed then; the same as the one before means that nothing was gained. */
  readonly fingerprint: string;
};

export type Help =
  | {
      readonly kind: "candidate";
      readonly candidate: Candidate;
      readonly source: "model" | "recover";
      readonly cost: Cost;
    }
  | { readonly kind: "none"; readonly why: string; readonly cost: Cost };

export type Choice = {
  /** The place of the fix among those given; null where none is chosen. */
  readonly chosen: number | null;
  readonly why: string;
  readonly cost: Cost;
};

export type Cost = {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly usd: number;
};

export const NO_COST: Cost = { inputTokens: 0, outputTokens: 0, usd: 0 };

export function costSum(one: Cost, other: Cost): Cost {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    usd: one.usd + other.usd,
  };
}

/**
 * Whoever knows more than a search does: a model, a decision service, a person. Nothing that it says is
 * believed; it is run. Each call ends soon after its signal aborts, and bills what it spent.
 */
export interface Helper {
  /** Begun beside the search as soon as the state is ranked, and cancelled when the state moves. */
  ahead(state: State, signal: AbortSignal): Promise<Help>;
  /** Asked when the search has settled nothing, and what was asked ahead did not do. */
  next(state: State, signal: AbortSignal): Promise<Help>;
  /** Asked to choose among fixes that all pass and do different things. */
  settle(
    state: State,
    fixes: readonly (readonly FileText[])[],
    example: Example | null,
    signal: AbortSignal,
  ): Promise<Choice>;
}
