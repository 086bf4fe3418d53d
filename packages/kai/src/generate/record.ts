import type { Usage } from "@dev/protocol";
import type { Answer, Decision, Questions } from "../decide.ts";
import type { Billed } from "../spend.ts";
import type { Heard, Stage } from "./call.ts";

/** What generation tells the ledger, in the order in which it happens. */
export type GenerateRecord =
  | GenerateCall
  /** A call that was stopped: nobody needs its answer any more. */
  | ({ readonly kind: "cancel"; readonly why: string } & CallFacts)
  /** From one way of asking to the next. */
  | {
      readonly kind: "transition";
      readonly revision: string;
      readonly from: Stage | "verify";
      readonly to: Stage | "recover";
      readonly why: string;
    }
  | ({ readonly kind: "decide"; readonly revision: string } & Omit<
      Decision<Questions>,
      "answers"
    > & {
        readonly answers: Readonly<Record<string, Answer>>;
      })
  /** Nothing more is asked in this run. */
  | { readonly kind: "stop"; readonly revision: string; readonly why: string };

export type GenerateCall = {
  readonly kind: "generate";
  readonly outcome: Outcome;
  /** Empty where the outcome says it all. */
  readonly why: string;
} & CallFacts;

/**
 * `edits`: there are some to try; `no_edits`: it says that there are none; `unreadable`: its JSON
 * does not read, or is no edit; `no_json`; `refused`: its edits cannot be made in the files as they
 * are; `tried`: they were given before; `empty`: it has no text; `chosen`, `undecided`: of
 * candidates.
 */
export type Outcome =
  | "edits"
  | "no_edits"
  | "unreadable"
  | "no_json"
  | "refused"
  | "tried"
  | "empty"
  | "failed"
  | "chosen"
  | "undecided";

export type CallFacts = {
  /** As in the file of what was spent. */
  readonly id: string;
  readonly revision: string;
  readonly model: string;
  readonly effort: string;
  readonly stage: Stage;
  readonly atMs: number;
  readonly firstMs: number | null;
  readonly ms: number;
  readonly usage: Usage;
  readonly costMicroUsd: number;
  readonly billed: Billed;
};

export function factsOf({
  id,
  call,
  atMs,
  firstMs,
  ms,
  usage,
  costMicroUsd,
  billed,
}: Heard): CallFacts {
  const { asker, effort, stage, revision } = call;
  const { model } = asker;
  return { id, revision, model, effort, stage, atMs, firstMs, ms, usage, costMicroUsd, billed };
}
