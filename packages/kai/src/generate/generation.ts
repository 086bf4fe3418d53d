import type { Example } from "../compare.ts";
import { chosenSite, isSure, SITE_LIMITS, siteQuestions, turnQuestions } from "../decide/fix.ts";
import type { Decisions } from "../decide.ts";
import type { Choice, Help, Helper, State } from "../help.ts";
import { recover, type Setback } from "../recover.ts";
import { fingerprint } from "../report/fingerprint.ts";
import type { Revision } from "../revision.ts";
import type { Spend } from "../spend.ts";
import type { FileText } from "../verify.ts";
import type { Asker } from "./asker.ts";
import { type Attempt, attempt, type Means, type Seen, whyStopped } from "./attempt.ts";
import { type Call, openCaller, type Stage } from "./call.ts";
import { CHOICE_LIMITS, type Chosen, choicePrompt, readChoice } from "./choice.ts";
import { openOutages } from "./outage.ts";
import { failureText } from "./prompt.ts";
import { factsOf, type GenerateRecord } from "./record.ts";
import { type Subject, subjectOf } from "./subject.ts";
import { openTally, type Tally } from "./tally.ts";
import { keyOf } from "./verdict.ts";

/** Models, and a service that decides, as a helper; closed when the run is over. */
export interface Generation extends Helper {
  /** Ends what is under way, and resolves when all of it is in the file of what was spent. */
  close(): Promise<void>;
}

export type GenerationOptions = {
  readonly asker: Asker;
  /** Asked once where an attempt with full effort has no edit; null: there is no other model. */
  readonly fallback: Asker | null;
  readonly decisions: Decisions;
  /** Whoever opened it closes it, after the generation. */
  readonly spend: Spend;
  /** In millionths of a US dollar; null: as much as it takes. */
  readonly budgetMicroUsd: number | null;
  readonly nowMs: () => number;
  readonly record: (record: GenerateRecord) => void;
};

/**
 * At each revision the model is asked with low effort, then with full effort, and then the fallback
 * model: each once, whatever comes of it, and none is given the same edits twice. `ahead` is the
 * low effort; it asks no decision. An abort ends the call under way, and gives no candidate;
 * nothing rejects.
 */
export function openGeneration(options: GenerationOptions): Generation {
  return new Ladder(options);
}

/** The ways of asking, the cheapest first. */
const RUNGS = ["low", "full", "fallback"] as const;
type Rung = (typeof RUNGS)[number];

/** What was done at a revision. */
type Standing = {
  readonly seen: Seen;
  readonly asked: Set<Rung>;
  /** What the decision service said of it; null before it was asked. */
  decided: Decided | null;
};

/** Where to look first and how hard to think; `none`: no edit will do. */
type Decided = { readonly first: number; readonly effort: "low" | "full" | "none" };

class Ladder implements Generation {
  readonly #options: GenerationOptions;
  readonly #means: Means;
  readonly #standings = new Map<Revision, Standing>();
  readonly #over = new AbortController();
  /**
   * One thing after the other: what was asked ahead comes to its end before anything else is asked.
   */
  #last: Promise<unknown> = Promise.resolve();
  /** What was begun last; what is asked at another revision stops it. */
  #begun: { readonly revision: Revision; readonly stop: AbortController } | null = null;
  #stopped: string | null = null;

  constructor(options: GenerationOptions) {
    this.#options = options;
    const { nowMs, record } = options;
    this.#means = { caller: openCaller(options), outages: openOutages(nowMs), record };
  }

  ahead(state: State, signal: AbortSignal): Promise<Help> {
    return this.#inTurn(state, signal, async (own, tally) => {
      const standing = this.#standing(state.revision);
      if (standing.asked.has("low")) return { kind: "none", why: "it was asked before" };
      return this.#climb("low", await subjectOf(state), standing, own, tally);
    });
  }

  next(state: State, signal: AbortSignal): Promise<Help> {
    return this.#inTurn(state, signal, async (own, tally) => {
      const standing = this.#standing(state.revision);
      const given = await subjectOf(state);
      standing.decided ??= await this.#decide(given, own);
      const { first, effort } = standing.decided;
      if (effort === "none") return { kind: "none", why: "the decision service sees no edit" };
      if (effort === "full") standing.asked.add("low");
      const subject = { ...given, ranking: moved(given.ranking, first) };
      return this.#escalated(state, subject, standing, own, tally);
    });
  }

  async settle(
    state: State,
    fixes: readonly (readonly FileText[])[],
    example: Example | null,
    signal: AbortSignal,
  ): Promise<Choice> {
    // Nobody waits any more for what was asked beside a search that has found something.
    this.#begun?.stop.abort("the search settled");
    const said: { chosen: Chosen | null } = { chosen: null };
    const help = await this.#inTurn(state, signal, async (own, tally) => {
      const subject = await subjectOf(state);
      const chosen =
        (await this.#decidedFix(subject, fixes, own)) ??
        (await this.#askWhich(subject, fixes, example, own, tally));
      said.chosen = chosen;
      return { kind: "none", why: chosen.why };
    });
    const why = help.kind === "none" ? help.why : "";
    const { chosen } = said;
    return { chosen: chosen?.kind === "chosen" ? chosen.index : null, why, cost: help.cost };
  }

  async close(): Promise<void> {
    this.#stopped ??= "the run is over";
    this.#over.abort(this.#stopped);
    await this.#last;
  }

  /** Does one thing after those before it; what it costs is told whatever becomes of it. */
  #inTurn(
    { revision }: State,
    signal: AbortSignal,
    work: (own: AbortSignal, tally: Tally) => Promise<Attempt>,
  ): Promise<Help> {
    if (this.#begun?.revision !== revision) this.#begun?.stop.abort("the state moved");
    const stop = new AbortController();
    this.#begun = { revision, stop };
    const own = AbortSignal.any([signal, this.#over.signal, stop.signal]);
    const tally = openTally();
    const turn = async (): Promise<Help> => {
      const found = await this.#done(work, own, tally);
      const { cost } = tally;
      if (found.kind === "candidate") {
        return { kind: "candidate", candidate: found.candidate, source: found.source, cost };
      }
      if (found.kind === "stopped") this.#stopped = found.why;
      return { kind: "none", why: found.why, cost };
    };
    const result = this.#last.then(turn);
    // The next in line waits for the end, and whoever asked hears of what went wrong.
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #done(
    work: (own: AbortSignal, tally: Tally) => Promise<Attempt>,
    own: AbortSignal,
    tally: Tally,
  ): Promise<Attempt> {
    if (this.#stopped !== null) return { kind: "none", why: this.#stopped };
    try {
      own.throwIfAborted();
      return await work(own, tally);
    } catch (error) {
      if (!own.aborted || error !== own.reason) throw error;
      return { kind: "none", why: "it was stopped" };
    }
  }

  /** Goes up from where the asking stands until there is an edit. */
  async #escalated(
    state: State,
    subject: Subject,
    standing: Standing,
    signal: AbortSignal,
    tally: Tally,
  ): Promise<Attempt> {
    const { revision } = state;
    const { record } = this.#means;
    const setbacks = setbacksOf(state, standing);
    const now = { revision, fingerprint: fingerprint(state.report) };
    let from: Rung | "verify" | null = setbacks.length > 0 ? "verify" : null;
    let before: string | null = null;
    for (;;) {
      const plan = recover(setbacks, now, this.#left(standing));
      const to = plan.kind === "escalate" ? "recover" : plan.action;
      const why = before ?? plan.why;
      if (from !== null) record({ kind: "transition", revision, from, to, why });
      if (plan.kind === "escalate") return { kind: "none", why };
      const found = await this.#climb(plan.action, subject, standing, signal, tally);
      if (found.kind !== "none") return found;
      from = plan.action;
      before = found.why;
    }
  }

  #left({ asked }: Standing): readonly Rung[] {
    const { fallback } = this.#options;
    return RUNGS.filter((rung) => !asked.has(rung) && (rung !== "fallback" || fallback !== null));
  }

  async #climb(
    rung: Rung,
    subject: Subject,
    { seen, asked }: Standing,
    signal: AbortSignal,
    tally: Tally,
  ): Promise<Attempt> {
    const { asker, fallback } = this.#options;
    const effort = rung === "low" ? "low" : "full";
    const whom = rung === "fallback" && fallback !== null ? fallback : asker;
    const asking = { subject, asker: whom, effort, stage: rung, seen } as const;
    const found = await attempt(this.#means, asking, tally, signal);
    asked.add(rung);
    // The fallback is for an attempt that has no edit, not for an edit that fails.
    if (rung === "full" && found.kind === "candidate") asked.add("fallback");
    return found;
  }

  async #decide(subject: Subject, signal: AbortSignal): Promise<Decided> {
    const { ranking, revision } = subject;
    if (ranking.length === 0) return { first: 0, effort: "low" };
    const shown = ranking
      .slice(0, SITE_LIMITS.siteCount)
      .map((place) => `${place.function ?? "outside of functions"} in ${place.file}`);
    const said = failureText(subject);
    const questions = siteQuestions(shown);
    const decision = await this.#options.decisions.decide("fix.site@1", said, questions, signal);
    this.#means.record({ kind: "decide", revision, ...decision });
    const { action, effort } = decision.answers;
    const first = chosenSite(decision) ?? 0;
    if (action.choice === "escalate" && isSure(decision, action)) return { first, effort: "none" };
    const isHard = effort.choice === "full" && isSure(decision, effort);
    return { first, effort: isHard ? "full" : "low" };
  }

  /** Which fix the service means; null where it does not say. */
  async #decidedFix(
    subject: Subject,
    fixes: readonly (readonly FileText[])[],
    signal: AbortSignal,
  ): Promise<Chosen | null> {
    const shown = fixes.slice(0, CHOICE_LIMITS.candidateCount);
    const { messages } = choicePrompt(subject, shown, null);
    const moves = shown.map((_, at) => [`change_${at + 1}`, `leave change ${at + 1} in place`]);
    const none = { unclear: "it cannot be told which of them is meant" };
    const questions = turnQuestions({ ...Object.fromEntries(moves), ...none }, "unclear");
    const said = messages.map(({ text }) => text).join("\n");
    const decision = await this.#options.decisions.decide("fix.turn@1", said, questions, signal);
    this.#means.record({ kind: "decide", revision: subject.revision, ...decision });
    const { next } = decision.answers;
    const { choice, confidence } = next;
    if (choice === "unclear" || !isSure(decision, next)) return null;
    const index = Number(choice.slice("change_".length)) - 1;
    return { kind: "chosen", index, why: `the decision service is ${confidence.toFixed(2)} sure` };
  }

  async #askWhich(
    subject: Subject,
    fixes: readonly (readonly FileText[])[],
    example: Example | null,
    signal: AbortSignal,
    tally: Tally,
  ): Promise<Chosen> {
    const { asker } = this.#options;
    const { caller, outages, record } = this.#means;
    const out = outages.of(asker.model);
    if (out !== null) return { kind: "undecided", why: out };
    const { revision } = subject;
    const prompt = choicePrompt(subject, fixes, example);
    const call: Call = { asker, prompt, effort: "full", stage: "settle", revision };
    const called = await caller.call(call, signal);
    if (called.kind !== "heard") {
      const why = called.kind === "budget" ? called.why : called.fault.message;
      record({ kind: "stop", revision, why });
      this.#stopped = why;
      return { kind: "undecided", why };
    }
    const { heard } = called;
    tally.add(heard);
    const { end } = heard;
    if (end.kind === "cancelled")
      record({ kind: "cancel", why: whyStopped(signal), ...factsOf(heard) });
    signal.throwIfAborted();
    const chosen: Chosen =
      end.kind === "text"
        ? readChoice(end.reply.text, fixes.length)
        : { kind: "undecided", why: end.kind === "empty" ? end.why : `the call ${end.kind}` };
    record({ kind: "generate", ...factsOf(heard), outcome: chosen.kind, why: chosen.why });
    return chosen;
  }

  #standing(revision: Revision): Standing {
    const known = this.#standings.get(revision);
    if (known !== undefined) return known;
    const seen = { extra: [], given: new Map<string, Stage>() };
    const standing: Standing = { seen, asked: new Set(), decided: null };
    this.#standings.set(revision, standing);
    return standing;
  }
}

/** The place at this index before all others. */
function moved<T>(all: readonly T[], index: number): readonly T[] {
  return [...all.slice(index, index + 1), ...all.slice(0, index), ...all.slice(index + 1)];
}

/** What was tried here and failed, by what gave it. */
function setbacksOf(state: State, { seen }: Standing): readonly Setback[] {
  const { revision, report, history } = state;
  return history.map(({ candidate, fingerprint: after }) => {
    const action = seen.given.get(keyOf(candidate)) ?? candidate.operator;
    const outcome = { kind: "failed", fingerprint: after } as const;
    const diff = keyOf(candidate);
    return { revision, fingerprint: fingerprint(report), action, diff, outcome };
  });
}
