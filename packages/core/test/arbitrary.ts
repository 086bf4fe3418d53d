import type { AgentKind, Config, DEFAULT_LIMITS, State } from "@dev/core";
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
import { asked, CONFIG, read, run, waiting } from "./notation.ts";

/** What happens next, before it is known which ids the core waits for. */
export type Move =
  | {
      readonly kind: "turn";
      readonly skip: number;
      readonly prompt: string;
      readonly image: boolean;
    }
  /** An answer to one of the models that are asked. */
  | {
      readonly kind: "answer";
      readonly which: number;
      readonly answer: ModelAnswer;
      readonly usage: Usage;
      readonly cost: number;
    }
  | { readonly kind: "land"; readonly which: number; readonly outcome: Outcome }
  | { readonly kind: "cancel"; readonly which: number }
  /** An event that was taken before, so many back. */
  | { readonly kind: "again"; readonly back: number }
  /** Any event at all. */
  | { readonly kind: "stray"; readonly event: Event };

/** The event that a move is in a state, with its history. */
export function eventOf(move: Move, state: State, history: readonly Event[]): Event {
  switch (move.kind) {
    case "turn": {
      const id = Math.min(state.highestTurn + move.skip, Number.MAX_SAFE_INTEGER) as TurnId;
      const images = move.image ? [{ mediaType: "image/png", data: "iVBORw0KGgo=" }] : [];
      return { kind: "turn", id, prompt: move.prompt, images, mode: "ask" };
    }
    case "answer": {
      const id = picked(asked(state), move.which) ?? (1 as ActionId);
      const { answer, usage, cost } = move;
      return { kind: "model", id, answer, usage, costMicroUsd: cost };
    }
    case "land": {
      const slot = picked(waiting(state), move.which);
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

function picked<T>(list: readonly T[], which: number): T | undefined {
  return list[which % Math.max(1, list.length)];
}

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("", "naïve ✓ 🜁", '\n\u0000"', "x".repeat(300), "✓".repeat(300)),
);
const count = fc.oneof(
  { weight: 12, arbitrary: fc.nat({ max: 50 }) },
  { weight: 1, arbitrary: fc.maxSafeNat() },
);
const usage: fc.Arbitrary<Usage> = record({
  inputTokens: count,
  cachedTokens: count,
  outputTokens: count,
  reasoningTokens: count,
});
const path = fc.constantFrom("a", ".", "../a", "/a", "a\\..\\..", "a\\b/../..", "C:\\a", "a/../b");

const toolNames = fc.oneof(
  { weight: 3, arbitrary: fc.constant([]) },
  { weight: 2, arbitrary: fc.subarray(["exec", "read", "spawn", "question", "s__"]) },
  { weight: 1, arbitrary: fc.constant(["none"]) },
);
const anyCall: fc.Arbitrary<CallOp> = fc.oneof(
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
  fc
    .tuple(text, fc.constantFrom("", "scout", "nobody"), toolNames)
    .map(([prompt, agent, tools]): CallOp => ({ kind: "spawn", prompt, agent, tools })),
);
/** Any call, and often one that is likely to succeed. */
const callOp: fc.Arbitrary<CallOp> = fc.oneof(
  { weight: 3, arbitrary: anyCall },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom("", "scout"), toolNames)
      .map(([agent, tools]): CallOp => ({ kind: "spawn", prompt: "look", agent, tools })),
  },
  { weight: 1, arbitrary: fc.constant(run("ls")) },
  {
    weight: 1,
    arbitrary: text.map(
      (word): CallOp => ({ kind: "question", text: word, choices: [], many: false }),
    ),
  },
);
// Few refs, so that models often use one twice.
const calls: fc.Arbitrary<readonly Call[]> = fc.array(
  record<Call>({ ref: fc.constantFrom("", "a", "b", "a#1", "#0"), op: callOp }),
  { maxLength: 3 },
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
      stop: fc.constantFrom("end", "calls", "calls", "calls", "calls", "length", "refusal"),
      opaque: text,
    } as never),
  },
  {
    weight: 1,
    arbitrary: fault.map((what): ModelAnswer => ({ kind: "failed", fault: what, partial: "p" })),
  },
  {
    weight: 1,
    arbitrary: fault.map((what): ModelAnswer => {
      const overflow = { ...what, code: "context_overflow" } as const;
      return { kind: "failed", fault: overflow, partial: "p" };
    }),
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

const prompt = fc.oneof(
  { weight: 4, arbitrary: text },
  { weight: 1, arbitrary: fc.constantFrom("/compact", "/compact the tests", "/compacted") },
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
  fc.tuple(actionIds, answer, usage).map(
    ([id, said, used]): Event => ({
      kind: "model",
      id,
      answer: said,
      usage: used,
      costMicroUsd: 0,
    }),
  ),
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
      arbitrary: fc.tuple(fc.integer({ min: 1, max: 3 }), prompt, fc.nat({ max: 9 })).map(
        ([skip, said, image]): Move => ({
          kind: "turn",
          skip,
          prompt: said,
          image: image === 0,
        }),
      ),
    },
    {
      weight: 6,
      arbitrary: fc.tuple(fc.nat({ max: 9 }), answer, usage, count).map(
        ([which, said, used, cost]): Move => ({
          kind: "answer",
          which,
          answer: said,
          usage: used,
          cost,
        }),
      ),
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
  { maxLength: 60, size: "max" },
);

const SCOUT: AgentKind = {
  name: "scout",
  description: "Looks.",
  prelude: "You look.",
  model: "local/small",
  windowTokens: 40,
  tools: ["read", "exec", "spawn", "question"],
};

/** Limits that are large, or so small that they are often reached. */
export const configs: fc.Arbitrary<Config> = fc
  .tuple(
    record({
      modelCallsPerTurn: mostly(200, 1, 4),
      identicalReplies: mostly(5, 1),
      callsPerReply: mostly(64, 2),
      messageBytes: mostly(1 << 22, 150, 1200),
      resultBytes: mostly(1 << 16, 0, 7),
      conversationBytes: mostly(1 << 23, 1000, 5000),
      tokensPerSession: mostly(0, 200),
      queuedTurns: mostly(64, 0, 1),
      steers: mostly(64, 0, 1, 3),
      costMicroUsdPerSession: mostly(0, 200),
      compactPercent: fc.constantFrom(1, 80),
      keptBytes: fc.constantFrom(0, 300, 1 << 16),
      agentDepth: fc.constantFrom(2, 2, 1, 0),
      agentCount: fc.constantFrom(8, 8, 1, 0),
    } satisfies { [Name in keyof typeof DEFAULT_LIMITS]: fc.Arbitrary<number> }),
    fc.constantFrom(0, 60, 400, 100_000),
    fc.boolean(),
  )
  .map(([limits, windowTokens, images]) => ({
    ...CONFIG,
    tools: ["exec", "read", "spawn", "question", "plan", "git", "s__"].map((name) => ({
      name,
      description: "A tool.",
      parameters: "{}",
    })),
    limits,
    windowTokens,
    images,
    agents: [SCOUT],
  }));

/** One value, or now and then another. */
function mostly(usual: number, ...others: readonly number[]): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
}

/** Objects as a literal makes them, with the prototype that a reader gives them too. */
function record<T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }): fc.Arbitrary<T> {
  return fc.record(fields, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
