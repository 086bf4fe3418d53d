import { type Fault, type ModelAnswer, never, type Usage } from "@dev/protocol";
import type { Billed, Spend } from "../spend.ts";
import {
  type Asked,
  type Asker,
  ceilingMicroUsd,
  type Effort,
  type Prompt,
  promptChars,
} from "./asker.ts";

/** What one call is for. */
export type Call = {
  readonly asker: Asker;
  readonly prompt: Prompt;
  readonly effort: Effort;
  readonly stage: Stage;
  readonly revision: string;
};

/**
 * `low` and `full` are the efforts; `again` asks once more where no text came; `repair` sends back
 * an answer for how it is written; `context` shows a file that was asked for; `fallback` asks the
 * other model; `settle` asks which of several candidates is right.
 */
export type Stage = "low" | "full" | "again" | "repair" | "context" | "fallback" | "settle";

/** A call that was made, and billed, whatever became of it. */
export type Heard = {
  readonly id: string;
  readonly call: Call;
  readonly atMs: number;
  /** To the first piece of an answer; null where none came. */
  readonly firstMs: number | null;
  readonly ms: number;
  readonly usage: Usage;
  readonly costMicroUsd: number;
  readonly billed: Billed;
  readonly end: HeardEnd;
};

export type HeardEnd =
  | { readonly kind: "text"; readonly reply: Reply }
  /** It ended well, and has no text: reasoning alone, or a refusal. */
  | { readonly kind: "empty"; readonly why: string }
  | { readonly kind: "failed"; readonly fault: Fault }
  | { readonly kind: "cancelled" };

export type Reply = ModelAnswer & { readonly kind: "reply" };

export type Called =
  | { readonly kind: "heard"; readonly heard: Heard }
  /** The call would go past what the run may spend, and was not made. */
  | { readonly kind: "budget"; readonly why: string }
  /** What was spent cannot be written down: nothing more may be. */
  | { readonly kind: "unrecorded"; readonly fault: Fault };

export const CALL_LIMITS = {
  /** Calls of one run, whatever they cost: models without a price have no other bound. */
  callCount: 60,
} as const;

export type CallerOptions = {
  readonly spend: Spend;
  /** In millionths of a US dollar; null: as much as it takes. */
  readonly budgetMicroUsd: number | null;
  readonly nowMs: () => number;
};

/** Makes calls: asks no more once the budget is used up, and writes a line for each call. */
export interface Caller {
  /**
   * An abort gives a `cancelled` call, with its line written; rejects where it came before the
   * call.
   */
  call(call: Call, signal: AbortSignal): Promise<Called>;
}

export function openCaller({ spend, budgetMicroUsd, nowMs }: CallerOptions): Caller {
  let count = spend.callCount;
  return {
    async call(call, signal) {
      signal.throwIfAborted();
      const { asker, prompt, effort, stage } = call;
      const sentChars = promptChars(prompt);
      const stop = stopOf(
        spend,
        budgetMicroUsd,
        ceilingMicroUsd(asker.ceiling, sentChars, 0),
        count,
      );
      if (stop !== null) return { kind: "budget", why: stop };
      count += 1;
      const id = `g${count}`;
      const atMs = nowMs();
      let firstMs: number | null = null;
      let heardChars = 0;
      const onHeard = (text: string): void => {
        firstMs ??= nowMs() - atMs;
        heardChars += text.length;
      };
      const asked = await asker.ask(prompt, effort, onHeard, signal);
      const ms = nowMs() - atMs;
      const bill = billOf(asked, asker, sentChars, heardChars);
      const end = endOf(asked.answer);
      const heard: Heard = { id, call, atMs, firstMs, ms, usage: asked.usage, ...bill, end };
      const { usage } = asked;
      const said = { status: STATUS[asked.answer.kind], error: errorOf(end) };
      const line = {
        id,
        atMs,
        model: asker.model,
        effort,
        stage,
        usage,
        ...bill,
        firstMs,
        ms,
        ...said,
      };
      const written = await spend.append(line);
      return written.ok ? { kind: "heard", heard } : { kind: "unrecorded", fault: written.fault };
    },
  };
}

const STATUS = { reply: "answered", failed: "failed", cancelled: "cancelled" } as const;

/** Why no call may be made that costs this much before it is answered; null where it may. */
function stopOf(
  spend: Spend,
  budgetMicroUsd: number | null,
  leastMicroUsd: number,
  count: number,
): string | null {
  if (count >= CALL_LIMITS.callCount) return `${CALL_LIMITS.callCount} calls were made`;
  const { spentMicroUsd } = spend;
  if (budgetMicroUsd === null) return null;
  if (spentMicroUsd + leastMicroUsd <= budgetMicroUsd) return null;
  const [spent, budget] = [usd(spentMicroUsd), usd(budgetMicroUsd)];
  return `${spent} of ${budget} is spent, and the next call may cost ${usd(leastMicroUsd)} to ask alone`;
}

function usd(microUsd: number): string {
  return `$${(microUsd / 1e6).toFixed(4)}`;
}

type Bill = { readonly costMicroUsd: number; readonly billed: Billed };

function billOf(
  { answer, usage, costMicroUsd }: Asked,
  asker: Asker,
  sent: number,
  heard: number,
): Bill {
  if (usage.inputTokens > 0 || usage.outputTokens > 0) {
    // A call that was stopped may have been told only of its input; what was heard was written all
    // the same.
    const most = answer.kind === "reply" || usage.outputTokens > 0 ? 0 : heard;
    return {
      costMicroUsd: costMicroUsd + ceilingMicroUsd(asker.ceiling, 0, most),
      billed: "usage",
    };
  }
  const reached =
    answer.kind !== "failed" || heard > 0 || BILLABLE.has(answer.fault.code) || costMicroUsd > 0;
  if (!reached) return { costMicroUsd: 0, billed: "none" };
  const estimate = ceilingMicroUsd(asker.ceiling, sent, heard);
  return { costMicroUsd: Math.max(estimate, costMicroUsd), billed: "estimate" };
}

/** Faults of a call that a provider had begun to answer, or may have. */
const BILLABLE: ReadonlySet<Fault["code"]> = new Set(["cut", "silent", "garbled", "too_large"]);

function endOf(answer: ModelAnswer): HeardEnd {
  switch (answer.kind) {
    case "cancelled":
      return { kind: "cancelled" };
    case "failed":
      return { kind: "failed", fault: answer.fault };
    case "reply":
      if (answer.stop === "refusal") return { kind: "empty", why: "the model refused" };
      if (answer.text.trim() !== "") return { kind: "text", reply: answer };
      return { kind: "empty", why: emptyText(answer) };
    default:
      return never(answer);
  }
}

function emptyText({ reasoning, stop }: Reply): string {
  const what = reasoning === "" ? "nothing came" : "it is reasoning alone";
  return stop === "length" ? `${what}, up to its limit` : what;
}

function errorOf(end: HeardEnd): string {
  switch (end.kind) {
    case "text":
    case "cancelled":
      return "";
    case "empty":
      return end.why;
    case "failed":
      return `${end.fault.code}: ${end.fault.message}`;
    default:
      return never(end);
  }
}
