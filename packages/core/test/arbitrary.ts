import type { Config, DEFAULT_LIMITS, State } from "@dev/core";
import {
  type ActionId,
  type Call,
  type CallOp,
  type Event,
  FAULT_CODES,
  type ModelAnswer,
  type Outcome,
  type TurnId,
  type Usage,
} from "@dev/protocol";
import fc from "fast-check";
import { CONFIG, read, run } from "./notation.ts";

/** What happens next, before it is known which ids the core waits for. */
export type Move =
  | { readonly kind: "turn"; readonly skip: number; readonly prompt: string }
  | { readonly kind: "answer"; readonly answer: ModelAnswer; readonly usage: Usage }
  | { readonly kind: "land"; readonly which: number; readonly outcome: Outcome }
  | { readonly kind: "cancel"; readonly which: number }
  /** An event that was taken before, so many back. */
  | { readonly kind: "again"; readonly back: number }
  /** Any event at all. */
  | { readonly kind: "stray"; readonly event: Event };

/** The event that a move is in a state, with its history. */
export function eventOf(move: Move, state: State, history: readonly Event[]): Event {
  const { phase } = state.agent;
  switch (move.kind) {
    case "turn": {
      const id = Math.min(state.highestTurn + move.skip, Number.MAX_SAFE_INTEGER) as TurnId;
      return { kind: "turn", id, prompt: move.prompt, images: [], mode: "ask" };
    }
    case "answer": {
      const id = phase.kind === "asking" ? phase.action : (1 as ActionId);
      return { kind: "model", id, answer: move.answer, usage: move.usage };
    }
    case "land": {
      const slots = phase.kind === "acting" ? phase.slots : [];
      const waiting = slots.filter((slot) => slot.kind === "waiting");
      const slot = waiting[move.which % Math.max(1, waiting.length)];
      const { action, family } = slot ?? { action: 1 as ActionId, family: "exec" };
      if (family === "reply") return { kind: family, id: action, text: "so", choices: [] };
      if (family === "model" || family === "none") throw new Error("no call has this family");
      return { kind: family, id: action, outcome: move.outcome };
    }
    case "cancel": {
      const ids = [state.turn?.id ?? 0, ...state.queue.map(({ id }) => id)];
      return { kind: "cancel", turn: (ids[move.which % ids.length] ?? 0) as TurnId };
    }
    case "again":
      return history.at(-1 - (move.back % Math.max(1, history.length))) ?? { kind: "timer" };
    case "stray":
      return move.event;
  }
}

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("", "naïve ✓ 🜁", '\n\u0000"', "x".repeat(300), "✓".repeat(300)),
);
const count = fc.oneof(fc.nat({ max: 50 }), fc.maxSafeNat());
const usage: fc.Arbitrary<Usage> = record({
  inputTokens: count,
  cachedTokens: count,
  outputTokens: count,
  reasoningTokens: count,
});
const path = fc.constantFrom("a", ".", "../a", "/a", "a\\..\\..", "a\\b/../..", "C:\\a", "a/../b");

const callOp: fc.Arbitrary<CallOp> = fc.oneof(
  path.map(read),
  path.map((cwd) => ({ ...run("ls"), cwd })),
  text.map((word) => run("echo", word)),
  path.map((to): CallOp => ({ kind: "write", path: to, text: "x", expect: "any" })),
  text.map((word): CallOp => ({ kind: "question", text: word, choices: [], many: false })),
  text.map((word): CallOp => ({ kind: "tool", server: "s", name: word, arguments: "{}" })),
  text.map((word): CallOp => ({ kind: "git", argv: ["log", word] })),
  text.map((body): CallOp => ({ kind: "browse", url: "u", method: "GET", headers: [], body })),
  text.map((word): CallOp => ({ kind: "plan", items: [{ text: word, status: "done" }] })),
  text.map((word): CallOp => ({ kind: "invalid", name: "n", reason: word, arguments: word })),
  text.map((word): CallOp => ({ kind: "spawn", prompt: word, agent: "a", tools: [] })),
);
// Few refs, so that models often use one twice.
const calls: fc.Arbitrary<readonly Call[]> = fc.array(
  record<Call>({ ref: fc.constantFrom("", "a", "b", "a#1", "#0"), op: callOp }),
  { maxLength: 5 },
);
const fault = record({
  code: fc.constantFrom(...FAULT_CODES),
  message: text,
  subject: text,
  mend: text,
});
const answer: fc.Arbitrary<ModelAnswer> = fc.oneof(
  {
    weight: 6,
    arbitrary: record<ModelAnswer>({
      kind: fc.constant("reply"),
      text,
      reasoning: text,
      calls,
      stop: fc.constantFrom("end", "calls", "length", "refusal"),
    } as never),
  },
  {
    weight: 1,
    arbitrary: fault.map((what): ModelAnswer => ({ kind: "failed", fault: what, partial: "p" })),
  },
  { weight: 1, arbitrary: text.map((partial): ModelAnswer => ({ kind: "cancelled", partial })) },
);
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  text.map(
    (said): Outcome => ({ kind: "ok", result: { kind: "tool", text: said, failed: false } }),
  ),
  text.map(
    (line): Outcome => ({
      kind: "ok",
      result: { kind: "search", matches: [{ path: "p", line: 1, text: line }], cut: true },
    }),
  ),
  fault.map((what): Outcome => ({ kind: "failed", fault: what })),
  text.map((reason): Outcome => ({ kind: "refused", rule: "r", reason })),
  text.map((known): Outcome => ({ kind: "unknown", known })),
  text.map((known): Outcome => ({ kind: "cancelled", known })),
);

const ids = fc.oneof(fc.nat({ max: 40 }), fc.maxSafeNat());
const actionIds = ids.map((id) => id as ActionId);
const stray: fc.Arbitrary<Event> = fc.oneof(
  fc.tuple(ids, text).map(
    ([id, prompt]): Event => ({
      kind: "turn",
      id: id as TurnId,
      prompt,
      images: [],
      mode: "ask",
    }),
  ),
  fc
    .tuple(actionIds, answer, usage)
    .map(([id, said, used]): Event => ({ kind: "model", id, answer: said, usage: used })),
  fc
    .tuple(fc.constantFrom("exec", "file", "git", "browse", "tool"), actionIds, outcome)
    .map(([kind, id, ended]): Event => ({ kind, id, outcome: ended })),
  fc
    .tuple(actionIds, text)
    .map(([id, word]): Event => ({ kind: "reply", id, text: word, choices: [] })),
  fc.constant<Event>({ kind: "timer" }),
  text.map((word): Event => ({ kind: "steer", text: word })),
  ids.map((turn): Event => ({ kind: "cancel", turn: turn as TurnId })),
);

export const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .tuple(fc.integer({ min: 1, max: 3 }), text)
        .map(([skip, prompt]): Move => ({ kind: "turn", skip, prompt })),
    },
    {
      weight: 6,
      arbitrary: fc
        .tuple(answer, usage)
        .map(([said, used]): Move => ({ kind: "answer", answer: said, usage: used })),
    },
    {
      weight: 8,
      arbitrary: fc
        .tuple(fc.nat({ max: 9 }), outcome)
        .map(([which, ended]): Move => ({ kind: "land", which, outcome: ended })),
    },
    { weight: 1, arbitrary: fc.nat({ max: 3 }).map((which): Move => ({ kind: "cancel", which })) },
    { weight: 2, arbitrary: fc.nat({ max: 60 }).map((back): Move => ({ kind: "again", back })) },
    { weight: 3, arbitrary: stray.map((event): Move => ({ kind: "stray", event })) },
  ),
  { maxLength: 40, size: "max" },
);

/** Limits that are large, or so small that they are often reached. */
export const configs: fc.Arbitrary<Config> = record({
  modelCallsPerTurn: fc.constantFrom(1, 4, 200),
  identicalReplies: fc.constantFrom(1, 5),
  callsPerReply: fc.constantFrom(2, 64),
  messageBytes: fc.constantFrom(150, 1200, 1 << 22),
  resultBytes: fc.constantFrom(0, 7, 1 << 16),
  conversationBytes: fc.constantFrom(1000, 5000, 1 << 23),
  tokensPerSession: fc.constantFrom(0, 200),
  queuedTurns: fc.constantFrom(0, 1, 64),
  steers: fc.constantFrom(0, 1, 3, 64),
} satisfies { [Name in keyof typeof DEFAULT_LIMITS]: fc.Arbitrary<number> }).map((limits) => ({
  ...CONFIG,
  limits,
}));

/** Objects as a literal makes them, with the prototype that a reader gives them too. */
function record<T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }): fc.Arbitrary<T> {
  return fc.record(fields, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
