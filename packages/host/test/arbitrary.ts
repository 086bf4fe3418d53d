import type { Config, DEFAULT_LIMITS } from "@dev/core";
import {
  type Action,
  type ActionId,
  type Call,
  type CallOp,
  type Event,
  FAULT_CODES,
  familyOf,
  isEffect,
  type ModelAnswer,
  type Outcome,
  type TurnId,
  type Usage,
} from "@dev/protocol";
import fc from "fast-check";
import { CONFIG } from "./notation.ts";

/** What happens next, whatever is out then. */
export type Move =
  | { readonly kind: "turn"; readonly prompt: string; readonly image: boolean }
  /** One of the actions that are out is answered: a model's with an answer, another with an outcome. */
  | {
      readonly kind: "answer";
      readonly which: number;
      readonly answer: ModelAnswer;
      readonly usage: Usage;
      readonly outcome: Outcome;
      readonly text: string;
    }
  | { readonly kind: "steer"; readonly text: string }
  | { readonly kind: "cancel"; readonly back: number }
  | { readonly kind: "timer" }
  /** An event that was taken before, so many back. */
  | { readonly kind: "again"; readonly back: number };

/** The event that a move is, after these events and the actions that they were answered by. */
export function eventOf(move: Move, history: readonly Event[], actions: readonly Action[]): Event {
  const turns = history.filter((event) => event.kind === "turn").length;
  switch (move.kind) {
    case "turn": {
      const images = move.image ? [{ mediaType: "image/png", data: "iVBORw0KGgo=" }] : [];
      return { kind: "turn", id: (turns + 1) as TurnId, prompt: move.prompt, images, mode: "ask" };
    }
    case "answer":
      return answerOf(move, history, actions);
    case "steer":
      return move;
    case "cancel":
      return { kind: "cancel", turn: Math.max(1, turns - move.back) as TurnId };
    case "timer":
      return { kind: "timer" };
    case "again":
      return history.at(-1 - (move.back % Math.max(1, history.length))) ?? { kind: "timer" };
  }
}

function answerOf(
  move: Extract<Move, { readonly kind: "answer" }>,
  history: readonly Event[],
  actions: readonly Action[],
): Event {
  const answered = new Set(history.map((event) => ("id" in event ? event.id : 0)));
  const out = actions.filter(({ id, op }) => familyOf(op) !== "none" && !answered.has(id));
  const { id, op } = out[move.which % Math.max(1, out.length)] ?? {};
  if (id === undefined || op === undefined || op.kind === "model") {
    const { answer, usage } = move;
    return { kind: "model", id: id ?? (1 as ActionId), answer, usage, costMicroUsd: 7 };
  }
  if (!isEffect(op)) return { kind: "reply", id, text: move.text, choices: [] };
  const kind = familyOf(op) as "exec";
  return { kind, id, outcome: move.outcome };
}

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("", "naïve ✓ 🜁", '\n\u0000"\u2028', "x".repeat(300), "✓é".repeat(200)),
  fc.constantFrom('"messages":[', "\\", "a".repeat(4095) + "🜁".repeat(9), "\x7f\x80\xff\u0100"),
);
const prompt = fc.oneof(
  { weight: 6, arbitrary: text },
  { weight: 1, arbitrary: fc.constantFrom("/compact", "/compact keep the plan", "/compact\nx") },
);
const count = fc.oneof(
  { weight: 12, arbitrary: fc.nat({ max: 300 }) },
  { weight: 1, arbitrary: fc.maxSafeNat() },
);
const usage: fc.Arbitrary<Usage> = fc.record({
  inputTokens: count,
  cachedTokens: count,
  outputTokens: count,
  reasoningTokens: count,
});
const tools = fc.subarray(["exec", "read", "spawn", "question"]);
const callOp: fc.Arbitrary<CallOp> = fc.oneof(
  fc
    .constantFrom("a", "../a", "a\\..\\..")
    .map((path): CallOp => ({ kind: "read", path, from: 0, to: 0 })),
  text.map((word) => run("echo", word)),
  text.map((word): CallOp => ({ kind: "question", text: word, choices: [], many: false })),
  text.map((word): CallOp => ({ kind: "tool", server: "s", name: word, arguments: "{}" })),
  text.map((word): CallOp => ({ kind: "plan", items: [{ text: word, status: "active" }] })),
  text.map((word): CallOp => ({ kind: "invalid", name: "n", reason: word, arguments: word })),
  fc
    .tuple(text, fc.constantFrom("", "scout", "nobody"), tools)
    .map(([task, agent, given]): CallOp => ({ kind: "spawn", prompt: task, agent, tools: given })),
  // One that is likely to be made.
  fc.constant<CallOp>({ kind: "spawn", prompt: "look", agent: "scout", tools: [] }),
);
const calls: fc.Arbitrary<readonly Call[]> = fc.array(
  fc.record({ ref: fc.constantFrom("", "a", "b"), op: callOp }),
  { maxLength: 4 },
);
const fault = fc.record({
  code: fc.oneof(fc.constant("context_overflow" as const), fc.constantFrom(...FAULT_CODES)),
  message: text,
  subject: text,
  mend: text,
});
const reply: fc.Arbitrary<ModelAnswer> = fc.record({
  kind: fc.constant("reply" as const),
  text,
  reasoning: text,
  calls,
  stop: fc.constantFrom("end" as const, "calls", "calls", "length", "refusal"),
  opaque: text,
});
const answer: fc.Arbitrary<ModelAnswer> = fc.oneof(
  { weight: 8, arbitrary: reply },
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
  fault.map((what): Outcome => ({ kind: "failed", fault: what })),
  text.map((reason): Outcome => ({ kind: "refused", rule: "r", reason })),
  text.map((known): Outcome => ({ kind: "unknown", known })),
);

export const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("turn" as const),
        prompt,
        image: fc.constantFrom(false, false, false, true),
      }),
    },
    {
      weight: 14,
      arbitrary: fc.record({
        kind: fc.constant("answer" as const),
        which: fc.nat({ max: 9 }),
        answer,
        usage,
        outcome,
        text,
      }),
    },
    { weight: 2, arbitrary: text.map((said): Move => ({ kind: "steer", text: said })) },
    { weight: 1, arbitrary: fc.nat({ max: 3 }).map((back): Move => ({ kind: "cancel", back })) },
    { weight: 1, arbitrary: fc.constant<Move>({ kind: "timer" }) },
    { weight: 1, arbitrary: fc.nat({ max: 20 }).map((back): Move => ({ kind: "again", back })) },
  ),
  { maxLength: 40, size: "max" },
);

/** Limits that are large, or so small that they are often reached. */
export const configs: fc.Arbitrary<Config> = fc
  .record({
    limits: fc.record({
      modelCallsPerTurn: fc.constantFrom(4, 200),
      identicalReplies: fc.constantFrom(1, 5),
      callsPerReply: fc.constantFrom(2, 64),
      messageBytes: fc.constantFrom(1200, 1 << 22),
      resultBytes: fc.constantFrom(0, 7, 1 << 16),
      conversationBytes: fc.constantFrom(5000, 1 << 23),
      tokensPerSession: fc.constantFrom(0, 2000),
      queuedTurns: fc.constantFrom(0, 1, 64),
      steers: fc.constantFrom(1, 64),
      costMicroUsdPerSession: fc.constantFrom(0, 100),
      compactPercent: fc.constantFrom(1, 80),
      keptBytes: fc.constantFrom(0, 300, 1 << 16),
      agentDepth: fc.constantFrom(0, 1, 2),
      agentCount: fc.constantFrom(1, 8),
    } satisfies { [Name in keyof typeof DEFAULT_LIMITS]: fc.Arbitrary<number> }),
    windowTokens: fc.constantFrom(0, 400, 100_000),
    images: fc.boolean(),
  })
  .map((some) => ({
    ...CONFIG,
    ...some,
    agents: [
      {
        name: "scout",
        description: "Looks around.",
        prelude: "You look.",
        model: "local/small",
        windowTokens: 400,
        tools: ["read"],
      },
    ],
  }));

function run(...argv: readonly string[]): CallOp {
  return { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
}
