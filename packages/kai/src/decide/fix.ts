import type { Decision, Question } from "../decide.ts";

type Choice = Extract<Question, { readonly kind: "choice" }>;
type Noul = Extract<Question, { readonly kind: "noul" }>;
type Score = Extract<Question, { readonly kind: "score" }>;

/** What is asked before an action at a state that has been ranked. */
export type SiteQuestions = {
  readonly site: Choice;
  readonly action: Choice;
  readonly effort: Choice;
};

/** What is asked of a state that has been acted upon. */
export type TurnQuestions = {
  readonly next: Choice;
  readonly done: Noul;
  readonly correct: Noul;
  readonly grounded: Noul;
  readonly complete: Noul;
  readonly risk: Score;
};

export const SITE_LIMITS = {
  siteCount: 20,
  /** An answer that is less sure than this is not heeded. */
  confidence: 0.4,
} as const;

/**
 * `sites` are descriptions, the likeliest first and not none; without a service that order and low
 * effort stand.
 */
export function siteQuestions(sites: readonly string[]): SiteQuestions {
  const shown = sites.slice(0, SITE_LIMITS.siteCount).map((site, at) => [`site_${at + 1}`, site]);
  return {
    site: {
      kind: "choice",
      ask: "In which of these places is the cause of the failure?",
      options: Object.fromEntries(shown),
      rule: "site_1",
    },
    action: {
      kind: "choice",
      ask: "What should be done next to make the failing tests pass?",
      options: {
        generate: "have a model write an edit",
        escalate: "give up: no edit of this program's code can make them pass",
      },
      rule: "generate",
    },
    effort: {
      kind: "choice",
      ask: "How hard is it to write the right edit?",
      options: { low: "it is plain from the code that is shown", full: "it takes much thought" },
      rule: "low",
    },
  };
}

/** Whether an answer is the service's, and sure enough to be heeded. */
export function isSure(
  { source }: { readonly source: "kai" | "rule" },
  { confidence }: { readonly confidence: number },
): boolean {
  return source === "kai" && confidence >= SITE_LIMITS.confidence;
}

/** Which of the sites was chosen, counted from 0; null where the answer is not sure enough. */
export function chosenSite(decision: Decision<SiteQuestions>): number | null {
  const { site } = decision.answers;
  return isSure(decision, site) ? Number(site.choice.slice("site_".length)) - 1 : null;
}

/**
 * `moves` are what may be done next, by key; `rule` is the one that is done where nobody can be
 * asked.
 */
export function turnQuestions(
  moves: Readonly<Record<string, string>>,
  rule: string,
): TurnQuestions {
  const noul = (ask: string): Noul => ({ kind: "noul", ask, rule: 0.5 });
  return {
    next: { kind: "choice", ask: "What should be done next?", options: moves, rule },
    done: noul("Is the failure mended?"),
    correct: noul("Is the change right for all inputs, and not for those of the tests alone?"),
    grounded: noul("Is the change borne out by the code and the failure that are shown?"),
    complete: noul("Is nothing left to change?"),
    risk: {
      kind: "score",
      ask: "How likely is the change to break something else?",
      levels: ["not at all", "hardly", "possibly", "likely"],
      rule: 1,
    },
  };
}
