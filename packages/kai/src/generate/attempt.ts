import { type Fault, type Message, never } from "@dev/protocol";
import type { Candidate } from "../candidate.ts";
import type { Asker, Effort, Prompt } from "./asker.ts";
import type { Called, Caller, Heard, Reply, Stage } from "./call.ts";
import type { Outages } from "./outage.ts";
import { promptOf, repairOf } from "./prompt.ts";
import { factsOf, type GenerateRecord } from "./record.ts";
import type { Subject } from "./subject.ts";
import type { Tally } from "./tally.ts";
import { faultText, keyOf, type Verdict, verdictOf } from "./verdict.ts";

/** What came of asking a model once, with what had to be asked after. */
export type Attempt =
  | {
      readonly kind: "candidate";
      readonly candidate: Candidate;
      /** `recover`: others were tried at this revision, and failed. */
      readonly source: "model" | "recover";
    }
  | { readonly kind: "none"; readonly why: string }
  /** Nothing more may be asked in this run. */
  | { readonly kind: "stopped"; readonly why: string };

export type Means = {
  readonly caller: Caller;
  readonly outages: Outages;
  readonly record: (record: GenerateRecord) => void;
};

/** One way of asking at a subject. */
export type Asking = {
  readonly subject: Subject;
  readonly asker: Asker;
  readonly effort: Effort;
  readonly stage: Stage;
  readonly seen: Seen;
};

/** What was shown and given at a revision so far. */
export type Seen = {
  /** Files that answers asked to see. */
  readonly extra: string[];
  /** By the edits of a candidate that was given, what gave it. */
  readonly given: Map<string, Stage>;
};

export const ATTEMPT_LIMITS = {
  /**
   * Of one attempt: calls for want of a text, for how an answer is written, and for a file (also
   * once a revision).
   */
  againCount: 1,
  repairCount: 1,
  extraCount: 1,
} as const;

/**
 * Asks, and once more where no text came, where the answer is refused for how it is written, and
 * where it names a file that it has to see. Rejects only when aborted.
 */
export async function attempt(
  means: Means,
  asking: Asking,
  tally: Tally,
  signal: AbortSignal,
): Promise<Attempt> {
  const { subject, asker, effort, seen } = asking;
  const { revision } = subject;
  const out = means.outages.of(asker.model);
  if (out !== null) return { kind: "none", why: `${asker.model} is left alone for now: ${out}` };
  const left: { again: number; repair: number } = {
    again: ATTEMPT_LIMITS.againCount,
    repair: ATTEMPT_LIMITS.repairCount,
  };
  let prompt = await promptOf(subject, effort, seen.extra);
  let stage = asking.stage;
  for (;;) {
    const called = await means.caller.call({ asker, prompt, effort, stage, revision }, signal);
    if (called.kind !== "heard") return stopped(means, subject, called);
    const { heard } = called;
    tally.add(heard);
    if (heard.end.kind === "cancelled") {
      means.record({ kind: "cancel", why: whyStopped(signal), ...factsOf(heard) });
      signal.throwIfAborted();
      return { kind: "none", why: "the call was stopped" };
    }
    const verdict = await verdictOf(heard.end, subject, textOf(prompt), seen.given);
    means.record({ kind: "generate", ...factsOf(heard), ...told(verdict) });
    signal.throwIfAborted();
    switch (verdict.kind) {
      case "candidate":
        seen.given.set(keyOf(verdict.candidate), asking.stage);
        return {
          kind: "candidate",
          candidate: verdict.candidate,
          source: subject.tried.length > 0 ? "recover" : "model",
        };
      case "none":
        return { kind: "none", why: verdict.why };
      case "silence":
        if (isOut(means.outages, heard) || left.again === 0)
          return { kind: "none", why: verdict.why };
        left.again -= 1;
        stage = "again";
        break;
      case "refusal":
        if (left.repair === 0) return { kind: "none", why: verdict.refusal.why };
        left.repair -= 1;
        prompt = await repairOf(prompt, messageOf(verdict.reply), verdict.refusal, subject);
        stage = "repair";
        break;
      case "context":
        if (seen.extra.length >= ATTEMPT_LIMITS.extraCount) {
          return { kind: "none", why: `it asks to see ${verdict.file} as well` };
        }
        seen.extra.push(verdict.file);
        prompt = await promptOf(subject, effort, seen.extra);
        stage = "context";
        break;
      default:
        return never(verdict);
    }
  }
}

function stopped(
  { record }: Means,
  { revision }: Subject,
  called: Exclude<Called, { readonly kind: "heard" }>,
): Attempt {
  const why = called.kind === "budget" ? called.why : called.fault.message;
  record({ kind: "stop", revision, why });
  return { kind: "stopped", why };
}

function told(verdict: Verdict): Pick<GenerateRecord & { kind: "generate" }, "outcome" | "why"> {
  switch (verdict.kind) {
    case "candidate":
      return { outcome: "edits", why: "" };
    case "refusal":
      return { outcome: verdict.outcome, why: verdict.refusal.why };
    case "context":
      return { outcome: "no_edits", why: `it would need to see ${verdict.file}` };
    case "silence":
    case "none":
      return { outcome: verdict.outcome, why: verdict.why };
    default:
      return never(verdict);
  }
}

/** Faults that the same model answers with again, whatever it is asked. */
const LASTING: ReadonlySet<Fault["code"]> = new Set([
  "config",
  "unauthorized",
  "unsupported",
  "bad_request",
]);
/** The router has waited and tried again by the time that it tells one of these. */
const PASSING: ReadonlySet<Fault["code"]> = new Set([
  "unreachable",
  "silent",
  "overloaded",
  "rate_limited",
]);

/**
 * Notes who is out; a stream that had begun is no sign of it. Also what is too long is so the next
 * time.
 */
function isOut(outages: Outages, { call, firstMs, end }: Heard): boolean {
  if (end.kind !== "failed" || firstMs !== null) return false;
  const { code } = end.fault;
  if (LASTING.has(code)) outages.end(call.asker.model, faultText(end.fault));
  else if (PASSING.has(code)) outages.put(call.asker.model, faultText(end.fault));
  else return code === "context_overflow" || code === "too_large";
  return true;
}

/** Whoever stops a call may say why, as the signal's reason. */
export function whyStopped({ reason }: AbortSignal): string {
  return typeof reason === "string" ? reason : "the search settled, or the state moved";
}

function textOf(prompt: Prompt): string {
  return prompt.messages.map(({ text }) => text).join("\n");
}

function messageOf({ text, reasoning, opaque }: Reply): Message {
  return { kind: "assistant", text, reasoning, calls: [], opaque };
}
