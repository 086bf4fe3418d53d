import { exec, line, part, root, said, spawn } from "../notation.ts";
import { PLAIN, type Scenario } from "../scenario.ts";

const STEPS = [
  line("", exec("say", "1")),
  line("", exec("say", "2")),
  line("", exec("say", "3")),
  said("done"),
] as const;

const SAME = line("", exec("say", "again"));

/** Limits that are reached, and the next turn after that. */
export const LIMIT_SCENARIOS: readonly Scenario[] = [
  {
    ...PLAIN,
    name: "limit-calls",
    shows: ["modelCallsPerTurn: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, modelCallsPerTurn: 3 },
    parts: [root(...STEPS)],
    ends: ["limit", "complete"],
  },
  {
    ...PLAIN,
    name: "limit-calls-agents",
    shows: ["modelCallsPerTurn: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, modelCallsPerTurn: 4 },
    parts: [
      root(line("", spawn("scout"), spawn("smith"), exec("build", "3")), said("done")),
      part("scout", ...STEPS),
      part("smith", ...STEPS),
    ],
    ends: ["limit", "complete"],
  },
  {
    ...PLAIN,
    name: "limit-same",
    shows: ["identicalReplies: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, identicalReplies: 2 },
    parts: [root(SAME, SAME, SAME, said("done"))],
    ends: ["limit", "complete"],
  },
  {
    ...PLAIN,
    name: "limit-same-agent",
    shows: ["scout's line 2"],
    limits: { ...PLAIN.limits, identicalReplies: 2 },
    parts: [root(line("", spawn("scout")), said("done")), part("scout", SAME, SAME, SAME, SAME)],
  },
  {
    ...PLAIN,
    name: "limit-reply",
    shows: ["callsPerReply: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, callsPerReply: 2 },
    parts: [root(line("", exec("say", "1"), exec("say", "2"), exec("say", "3")), ...STEPS)],
    ends: ["limit", "complete"],
  },
  {
    ...PLAIN,
    name: "limit-tokens",
    shows: ["tokensPerSession: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, tokensPerSession: 600 },
    parts: [root(...STEPS)],
    ends: ["limit", "limit"],
  },
  {
    ...PLAIN,
    name: "limit-cost",
    shows: ["costMicroUsdPerSession: "],
    prompts: ["first", "second"],
    limits: { ...PLAIN.limits, costMicroUsdPerSession: 1500 },
    parts: [
      root(line("", spawn("scout"), spawn("smith")), said("done")),
      part("scout", ...STEPS),
      part("smith", ...STEPS),
    ],
    ends: ["limit", "limit"],
  },
  {
    ...PLAIN,
    name: "limit-bytes",
    shows: ["conversationBytes: "],
    prompts: ["first", "second", "/compact", "third"],
    limits: { ...PLAIN.limits, conversationBytes: 1000, keptBytes: 200 },
    parts: [
      root(
        line("", exec("build", "9")),
        line("", exec("build", "8")),
        line("", exec("build", "7")),
        line("", exec("say", "1")),
        said("done"),
      ),
    ],
    ends: ["limit", "limit", "complete", "complete"],
  },
];
