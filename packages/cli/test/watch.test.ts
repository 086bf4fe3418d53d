import type { Action, ActionId, AgentId, ModelEvent, ModelOp, Op, TurnId } from "@dev/protocol";
import { fault, NO_USAGE } from "@dev/protocol";
import type { Member, Progress, TurnEnd } from "@dev/session";
import { expect, test } from "vitest";
import { noActivity } from "../src/activity.ts";
import { openLabels } from "../src/label.ts";
import { textWatch } from "../src/text-watch.ts";
import { jsonWatch } from "../src/watch.ts";

const TURN = 1 as TurnId;

function action(id: number, agent: number, op: Op): Action {
  return { id: id as ActionId, agent: agent as AgentId, turn: TURN, op };
}

function asks(purpose: ModelOp["purpose"]): ModelOp {
  const told = { prelude: "", messages: [], tools: [], from: 0 };
  return { kind: "model", purpose, model: "p/m", effort: "default", ...told };
}

const QUESTION: Op = { kind: "question", text: "which?", choices: [], many: false };
const COMMAND: Op = {
  kind: "exec",
  argv: ["true"],
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
};
const MEMBER: Member = {
  agent: 1 as AgentId,
  parent: 0 as AgentId,
  turn: TURN,
  kind: "",
  task: "",
};
const REVIEWER: Member = { ...MEMBER, kind: "reviewer", task: "look at it\nall of it" };

function answers({ id }: Action, answer: ModelEvent["answer"]): ModelEvent {
  return { kind: "model", id, answer, usage: NO_USAGE, costMicroUsd: 0 };
}

const says = (text: string, hasCalls = false): ModelEvent["answer"] => {
  const op = { kind: "plan", items: [] } as const;
  const calls = hasCalls ? [{ ref: "r", op }] : [];
  return { kind: "reply", text, reasoning: "", calls, stop: "end", opaque: "" };
};
const failed = (message: string): ModelEvent["answer"] => {
  return { kind: "failed", fault: fault("cut", message), partial: "" };
};
const answered = (of: Action, answer: ModelEvent["answer"]): Progress => {
  return { kind: "answered", action: of, event: answers(of, answer) };
};
const delta = (of: Action, text: string): Progress => {
  return { kind: "delta", action: of, delta: { kind: "text", text } };
};

const END: TurnEnd = {
  session: "s" as TurnEnd["session"],
  turn: TURN,
  outcome: "complete",
  reason: "",
  usage: NO_USAGE,
  costMicroUsd: 0,
  message: "",
  answer: "",
  refused: false,
};

// biome-ignore lint/suspicious/noExplicitAny: it is what a program would read, and tests pick from it.
function asJson(told: readonly Progress[], end: Partial<TurnEnd> = {}): readonly any[] {
  const lines: string[] = [];
  const watch = jsonWatch((line) => lines.push(line));
  for (const each of told) watch.progress(each);
  watch.ended({ ...END, ...end });
  return lines.map((line) => JSON.parse(line) as unknown);
}

/** What goes to stderr and to stdout. */
function shownBy(told: readonly Progress[], end: Partial<TurnEnd> = {}): [string, string] {
  const all: [string, string] = ["", ""];
  const activity = noActivity((text) => {
    all[0] += text;
  });
  const out = (text: string): void => {
    all[1] += text;
  };
  const watch = textWatch({ out, activity, labels: openLabels(), colour: false });
  for (const each of told) watch.progress(each);
  watch.ended({ ...END, ...end });
  return all;
}

function asText(told: readonly Progress[], end: Partial<TurnEnd> = {}): string {
  return shownBy(told, end)[0];
}

test("what one model had said when it failed ends, and what others say goes on", () => {
  const [one, two] = [action(1, 1, asks("turn")), action(2, 2, asks("turn"))];
  const told = asJson([
    delta(one, "half a"),
    delta(two, "the "),
    answered(one, failed("cut off")),
    delta(two, "whole"),
    answered(two, says("the whole")),
  ]);
  const ended = told.filter(({ type }) => type === "item.completed").map(({ item }) => item);
  expect(ended).toMatchObject([
    { id: "item_1_agent_message", agent: 1, status: "failed", text: "half a" },
    { id: "item_2_agent_message", agent: 2, status: "completed", text: "the whole" },
  ]);
  expect(told.filter(({ type }) => type === "item.started")).toHaveLength(2);
});

test("a turn fails for its own reason, unless that is what its own model failed of", () => {
  const [root, sub] = [action(1, 0, asks("turn")), action(2, 1, asks("turn"))];
  const outcome = "failed";
  const error = (told: readonly Progress[], reason: string): unknown =>
    asJson(told, { outcome, reason }).at(-1).error;
  const cut = answered(root, failed("cut off"));
  expect(error([cut], "p: cut off")).toMatchObject({ code: "cut", message: "cut off" });
  expect(error([cut], "it does not fit")).toMatchObject({ message: "it does not fit" });
  const subs = answered(sub, failed("cut off"));
  expect(error([subs], "cut off by hand")).toMatchObject({ code: "failed" });
});

test("an item says whose it is, unless it is the session's own agent's", () => {
  const told = asJson([
    { kind: "started", action: action(1, 0, QUESTION) },
    { kind: "started", action: action(2, 3, QUESTION) },
  ]);
  expect(told[0].item).not.toHaveProperty("agent");
  expect(told[1].item).toMatchObject({ id: "item_2", action_id: 2, agent: 3 });
});

test("a sub-agent is one item from its start to its end, and is no action", () => {
  const told = asJson([
    { kind: "agent_started", member: REVIEWER },
    { kind: "agent_ended", member: REVIEWER, end: { outcome: "stopped", text: "half" } },
  ]);
  const known = { id: "agent_1", type: "sub_agent", agent: 1, parent: 0, kind: "reviewer" };
  expect(told.slice(0, 2)).toMatchObject([
    { type: "item.started", item: { ...known, status: "in_progress" } },
    { type: "item.completed", item: { ...known, status: "cancelled", text: "half" } },
  ]);
  expect(told[0].item).not.toHaveProperty("action_id");
});

test("the cost is told where it is known", () => {
  expect(asJson([]).at(-1).usage).not.toHaveProperty("cost_micro_usd");
  expect(asJson([], { costMicroUsd: 7 }).at(-1).usage).toMatchObject({ cost_micro_usd: 7 });
  const usage = { ...NO_USAGE, inputTokens: 1000, outputTokens: 1 };
  const costs: readonly [number, string][] = [
    [0, "1,000 tokens in, 1 out\n"],
    [3, "1,000 tokens in, 1 out, under $0.0001\n"],
    [700, "1,000 tokens in, 1 out, $0.0007\n"],
    [34_000, "1,000 tokens in, 1 out, $0.034\n"],
    [12_000_000, "1,000 tokens in, 1 out, $12.00\n"],
  ];
  for (const [costMicroUsd, text] of costs) {
    expect(asText([], { usage, costMicroUsd })).toBe(text);
  }
});

test("each line of a sub-agent says whose it is", () => {
  const sub = action(2, 1, asks("turn"));
  const shown = asText([
    { kind: "agent_started", member: REVIEWER },
    answered(sub, says("first\n\nthen", true)),
    { kind: "retried", action: sub, after: fault("cut", "cut off") },
    { kind: "overtaken", action: action(3, 1, QUESTION), text: "red" },
    answered(action(4, 0, asks("turn")), says("mine", true)),
    { kind: "agent_ended", member: REVIEWER, end: { outcome: "failed", text: "no\nmore" } },
  ]);
  expect(shown).toBe(`▸ [reviewer 1] look at it
  [reviewer 1] first

  [reviewer 1] then
  [reviewer 1] asking the model again: cut off
  [reviewer 1] ✓ question: which?  answered by your message
mine
✗ [reviewer 1] failed: no
`);
});

test("a compaction that failed or was stopped says so, and how much it was about", () => {
  const of = action(2, 1, asks("compact"));
  const begun: readonly Progress[] = [
    { kind: "agent_started", member: MEMBER },
    { kind: "compacting", action: of, extent: { messageCount: 182, sizeBytes: 1_200_000 } },
    { kind: "started", action: of },
  ];
  const shown = (answer: ModelEvent["answer"]): string | undefined =>
    asText([...begun, answered(of, answer)])
      .split("\n")
      .at(-2);
  const what = "shortening the conversation: 182 messages, 1.2 MB";
  expect(shown(failed("cut off"))).toBe(`  [agent 1] ✗ ${what}  cut off`);
  expect(shown({ kind: "cancelled", partial: "" })).toBe(`  [agent 1] ⊘ ${what}  stopped`);
  const [, item, ...more] = asJson([...begun, answered(of, failed("cut off"))]);
  expect(item.item).toMatchObject({ type: "compaction", message_count: 182, agent: 1 });
  expect(more[0].item).toMatchObject({ status: "failed", error: { code: "cut" } });
});

test("an answer to a compaction that is no summary is one that failed", () => {
  const of = action(2, 0, asks("compact"));
  const begun: readonly Progress[] = [
    { kind: "compacting", action: of, extent: { messageCount: 3, sizeBytes: 100 } },
    { kind: "started", action: of },
  ];
  const refusal = { ...says("I will not"), stop: "refusal" } as ModelEvent["answer"];
  for (const [answer, why] of [
    [says(" "), "the answer is empty"],
    [refusal, "the model refused to answer"],
  ] as const) {
    const told = [...begun, answered(of, answer)];
    expect(asText(told)).toBe(`✗ shortening the conversation: 3 messages, 100 B  ${why}\n`);
    const [, { item }] = asJson(told);
    expect(item).toMatchObject({ status: "failed", error: { message: why } });
    expect(item).not.toHaveProperty("summary_bytes");
  }
});

test("an answer that was cut or refused goes to stdout, and why to stderr", () => {
  for (const outcome of ["limit", "failed"] as const) {
    const [err, out] = shownBy([], { outcome, reason: "why", message: "half", answer: "half" });
    expect(out).toBe("half\n");
    expect(err).toContain("why");
  }
  const said = { outcome: "failed", reason: "why", message: "on the way" } as const;
  expect(shownBy([], said)[1]).toBe("");
});

test("what has begun has an end before its turn has, in both ways to read", () => {
  const [stopped, silent] = [action(2, 0, COMMAND), action(3, 0, COMMAND)];
  const [asked, ask] = [action(4, 0, QUESTION), action(5, 1, asks("turn"))];
  const outcome = { kind: "cancelled", known: "" } as const;
  const told: readonly Progress[] = [
    ...[stopped, silent, asked].map((each) => ({ kind: "started", action: each }) as const),
    { kind: "agent_started", member: MEMBER },
    delta(ask, "half"),
    { kind: "turn_ended", turn: TURN },
    { kind: "late", action: stopped, event: { kind: "exec", id: stopped.id, outcome } },
    { kind: "late", action: asked, event: { kind: "reply", id: asked.id, text: "", choices: [] } },
  ];
  const lines = asJson(told, { outcome: "cancelled", reason: "it was cancelled" });
  expect(lines.at(-1)).toMatchObject({ type: "turn.failed" });
  const idsOf = (type: string) =>
    lines.filter((line) => line.type === type).map(({ item }) => item.id);
  expect(idsOf("item.completed").toSorted()).toEqual(idsOf("item.started").toSorted());
  const ends = lines.filter(({ type }) => type === "item.completed");
  expect(Object.fromEntries(ends.map(({ item }) => [item.id, item.status]))).toEqual({
    item_2: "cancelled",
    item_3: "unknown",
    item_4: "cancelled",
    agent_1: "cancelled",
    item_5_agent_message: "cancelled",
  });
  expect(asText(told)).toContain("⊘ $ true  stopped\n");
});

test("a sub-agent that ended at a limit says at which, by the name that the settings have", () => {
  const text = "callsPerReply: 3 of 2";
  const told: readonly Progress[] = [
    { kind: "agent_started", member: MEMBER },
    { kind: "agent_ended", member: MEMBER, end: { outcome: "limit", text } },
  ];
  expect(asText(told)).toContain("⊘ [agent 1] a limit was reached: calls_per_reply: 3 of 2\n");
  expect(asJson(told)[1].item).toMatchObject({
    status: "limit",
    reason: "calls_per_reply: 3 of 2",
  });
});

test("a plan is shown when it changes, each item with its mark", () => {
  const [one, two] = [action(1, 0, asks("turn")), action(2, 1, asks("turn"))];
  const plans = (of: Action, text: string): Progress => {
    const items = [
      { text: "look", status: "done" },
      { text, status: "active" },
      { text: "test", status: "pending" },
    ] as const;
    const calls = [{ ref: "r", op: { kind: "plan", items } }] as const;
    return answered(of, { ...says(""), calls } as ModelEvent["answer"]);
  };
  const told = [plans(one, "mend"), plans(one, "mend"), plans(two, "m\u001b[2J")];
  expect(asText([{ kind: "agent_started", member: MEMBER }, ...told])).toBe(`▸ [agent 1] \nthe plan:
  ✓ look
  ▸ mend
  · test
  [agent 1] the plan:
  [agent 1]   ✓ look
  [agent 1]   ▸ m␛[2J
  [agent 1]   · test
`);
  const ended = asJson(told).filter(({ type }) => type === "item.completed");
  expect(ended.map(({ item }) => item)).toMatchObject([
    { id: "item_1_plan", type: "plan", action_id: 1, items: [{}, { text: "mend" }, {}] },
    { id: "item_2_plan", agent: 1, status: "completed" },
  ]);
});

test("a question that nobody was there to answer is told of", () => {
  const of = action(1, 0, QUESTION);
  const told: readonly Progress[] = [
    { kind: "started", action: of },
    { kind: "unanswered", action: of },
    {
      kind: "answered",
      action: of,
      event: { kind: "reply", id: of.id, text: "(nobody)", choices: [] },
    },
  ];
  expect(asText(told)).toBe("? question: which?  nobody was there to answer\n");
  const { item } = asJson(told)[1];
  expect(item).toMatchObject({ type: "question", answered_by: "nobody", answer: "" });
});

test("a limit goes by its name in the settings, and one of a session asks for a new one", () => {
  const endOf = (reason: string): Partial<TurnEnd> => ({ outcome: "limit", reason });
  const calls = endOf("modelCallsPerTurn: 200 were made");
  expect(asText([], calls)).toBe(
    "dev: a limit was reached: model_calls_per_turn: 200 were made\ngo on where it stopped: dev resume s\n",
  );
  const cost = asText([], endOf("costMicroUsdPerSession: $0.034 of $0.02 are used"));
  expect(cost).toContain("cost_per_session: $0.034 of $0.02 are used\n");
  const tokens = asText([], endOf("tokensPerSession: 600 of 500 are used"));
  for (const shown of [cost, tokens]) {
    expect(shown).toMatch(/begin a new one with a higher limit/);
    expect(shown).not.toContain("dev resume");
  }
  expect(asJson([], calls).at(-1).error).toEqual({
    code: "limit",
    message: "model_calls_per_turn: 200 were made",
  });
  expect(asText([], endOf("messageBytes: 9 of 8"))).toContain("reached: messageBytes: 9 of 8\n");
});
