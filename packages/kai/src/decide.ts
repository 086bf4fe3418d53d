import { type Fault, fault, never, type Result } from "@dev/protocol";
import { openOutages } from "./generate/outage.ts";

/** A set of questions that are asked together; a change of what is asked is a new version. */
export type Program = "fix.site@1" | "fix.turn@1";

/** A question with what a rule says where nobody can be asked. */
export type Question =
  | {
      readonly kind: "choice";
      readonly ask: string;
      /** By key, what it means; never empty. */
      readonly options: Readonly<Record<string, string>>;
      readonly rule: string;
    }
  /** Yes or no, answered by how likely a yes is. */
  | { readonly kind: "noul"; readonly ask: string; readonly rule: number }
  /** A place on a scale; its levels, the lowest first, count from 0. */
  | {
      readonly kind: "score";
      readonly ask: string;
      readonly levels: readonly string[];
      readonly rule: number;
    };

/** By name; names are part of what is asked. */
export type Questions = Readonly<Record<string, Question>>;

/**
 * `confidence` is 1 where all the probability is on one answer, and 0 where it is spread evenly.
 */
export type Answer =
  | {
      readonly kind: "choice";
      readonly choice: string;
      readonly probabilities: Readonly<Record<string, number>>;
      readonly confidence: number;
    }
  | { readonly kind: "noul"; readonly probability: number; readonly confidence: number }
  | {
      readonly kind: "score";
      readonly score: number;
      /** Of each level, in its order. */
      readonly probabilities: readonly number[];
      readonly confidence: number;
    };

export type Answers<Q extends Questions> = {
  readonly [Name in keyof Q]: Extract<Answer, { readonly kind: Q[Name]["kind"] }>;
};

export type DecisionRequest = {
  readonly model: string;
  readonly state: string;
  readonly questions: Questions;
};

/** Puts questions to a service that decides. */
export interface Transport {
  /** One answer for each question, of its kind. Rejects only when aborted. */
  decide(
    request: DecisionRequest,
    signal: AbortSignal,
  ): Promise<Result<Readonly<Record<string, Answer>>>>;
}

/** Who decided, why it was not the service where it was not, and what. */
export type Decision<Q extends Questions> = {
  readonly program: Program;
  readonly source: "kai" | "rule";
  /** Empty where the service decided. */
  readonly why: string;
  readonly answers: Answers<Q>;
  readonly ms: number;
};

export interface Decisions {
  /**
   * All of a state's questions in one request. Never fails: a rule decides where the service does
   * not.
   */
  decide<const Q extends Questions>(
    program: Program,
    state: string,
    questions: Q,
    signal: AbortSignal,
  ): Promise<Decision<Q>>;
}

export const DECIDE_LIMITS = {
  questionCount: 100,
  connectMs: 2_000,
  totalMs: 10_000,
  responseBytes: 1_000_000,
  /** Of the state, what is sent. */
  stateChars: 60_000,
} as const;

export type DecisionsOptions = {
  /** Null: no service is configured. */
  readonly transport: Transport | null;
  readonly model: string;
  readonly nowMs: () => number;
};

/** Each program has its own outages: one that did not answer keeps no other from being asked. */
export function openDecisions({ transport, model, nowMs }: DecisionsOptions): Decisions {
  const outages = openOutages(nowMs);
  return {
    async decide(program, state, questions, signal) {
      if (Object.keys(questions).length > DECIDE_LIMITS.questionCount) {
        throw new Error(`more than ${DECIDE_LIMITS.questionCount} questions`);
      }
      const beganMs = nowMs();
      const rule = (why: string) => ({
        program,
        source: "rule" as const,
        why,
        answers: ruled(questions),
        ms: nowMs() - beganMs,
      });
      if (transport === null) return rule("no decision service is configured");
      const out = outages.of(program);
      if (out !== null) return rule(`${program} is left alone for now: ${out}`);
      const named = Object.entries(questions).map(([name, each]) => [`${program}.${name}`, each]);
      const request = {
        model,
        state: state.slice(0, DECIDE_LIMITS.stateChars),
        questions: Object.fromEntries(named) as Questions,
      };
      const decided = await transport.decide(request, signal);
      if (!decided.ok) {
        const why = `${decided.fault.code}: ${decided.fault.message}`;
        if (LASTING.has(decided.fault.code)) outages.end(program, why);
        else outages.put(program, why);
        return rule(why);
      }
      const answers = unnamed(program, questions, decided.value);
      return { program, source: "kai", why: "", answers, ms: nowMs() - beganMs };
    },
  };
}

/** Faults of the settings, which waiting does not mend. */
const LASTING: ReadonlySet<Fault["code"]> = new Set(["config", "unauthorized", "bad_request"]);

function unnamed<Q extends Questions>(
  program: Program,
  questions: Q,
  answers: Readonly<Record<string, Answer>>,
): Answers<Q> {
  const entries = Object.keys(questions).map((name) => {
    const answer = answers[`${program}.${name}`];
    if (answer === undefined) throw new Error(`a transport left out ${name}`);
    return [name, answer];
  });
  return Object.fromEntries(entries) as Answers<Q>;
}

/** What the rules say; a rule has no probabilities, and claims no confidence. */
function ruled<Q extends Questions>(questions: Q): Answers<Q> {
  const entries = Object.entries(questions).map(([name, each]) => [name, ruleOf(each)]);
  return Object.fromEntries(entries) as Answers<Q>;
}

function ruleOf(question: Question): Answer {
  switch (question.kind) {
    case "choice":
      return { kind: "choice", choice: question.rule, probabilities: {}, confidence: 0 };
    case "noul":
      return { kind: "noul", probability: question.rule, confidence: 0 };
    case "score":
      return { kind: "score", score: question.rule, probabilities: [], confidence: 0 };
    default:
      return never(question);
  }
}

/**
 * Reads a service's answers against what was asked. Fault: `garbled`, with the question it is
 * about.
 */
export function readAnswers(
  questions: Questions,
  body: unknown,
): Result<Readonly<Record<string, Answer>>> {
  const answers = fieldsOf(fieldsOf(body)?.answers);
  const read: [string, Answer][] = [];
  for (const [name, question] of Object.entries(questions)) {
    const said = fieldsOf(answers !== null && Object.hasOwn(answers, name) ? answers[name] : null);
    const answer = said === null ? null : answerOf(question, said);
    if (answer === null) {
      const what = "the service's answer is not of the kind that was asked for";
      return { ok: false, fault: fault("garbled", what, name) };
    }
    read.push([name, answer]);
  }
  return { ok: true, value: Object.fromEntries(read) };
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields | null {
  return typeof value === "object" && value !== null ? (value as Fields) : null;
}

function answerOf(question: Question, said: Fields): Answer | null {
  switch (question.kind) {
    case "choice":
      return choiceOf(question.options, said);
    case "noul": {
      const { noul } = said;
      if (!isShare(noul)) return null;
      return { kind: "noul", probability: noul, confidence: Math.abs(2 * noul - 1) };
    }
    case "score":
      return scoreOf(question.levels.length, said);
    default:
      return never(question);
  }
}

function choiceOf(options: Readonly<Record<string, string>>, said: Fields): Answer | null {
  const { choice, confidence } = said;
  if (typeof choice !== "string" || !Object.hasOwn(options, choice)) return null;
  const keys = Object.keys(options);
  const shares = sharesOf(keys, said);
  if (shares === null || !isShare(confidence)) return null;
  const probabilities = Object.fromEntries(keys.map((key, at) => [key, shares[at] ?? 0]));
  return { kind: "choice", choice, probabilities, confidence };
}

function scoreOf(levelCount: number, said: Fields): Answer | null {
  const { score, confidence } = said;
  if (typeof score !== "number" || !(score >= 0 && score <= levelCount - 1)) return null;
  const levels = Array.from({ length: levelCount }, (_, level) => String(level));
  const probabilities = sharesOf(levels, said);
  if (probabilities === null || !isShare(confidence)) return null;
  return { kind: "score", score, probabilities, confidence };
}

/** The probability of each of these, in their order; null where one has none. */
function sharesOf(keys: readonly string[], said: Fields): readonly number[] | null {
  const given = fieldsOf(said.probabilities);
  const shares = keys.map((key) =>
    given !== null && Object.hasOwn(given, key) ? given[key] : null,
  );
  return shares.every(isShare) ? shares : null;
}

function isShare(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 1;
}
