import type { AgentKind, Config, Limits } from "@dev/core";
import { DEFAULT_LIMITS } from "@dev/core";
import type { CallOp, Event, ModelEvent } from "@dev/protocol";
import { NO_USAGE } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  cancel,
  modelFailed,
  modelStopped,
  play,
  ran,
  read,
  resume,
  run,
  says,
  spawn,
  steer,
  turn,
  using,
} from "./notation.ts";

const SCOUT: AgentKind = {
  name: "scout",
  description: "Looks.",
  prelude: "You look.",
  model: "local/small",
  windowTokens: 500,
  tools: ["read", "git", "spawn"],
};

const WRITER: AgentKind = { ...SCOUT, name: "writer", model: "local/large", tools: null };

const NAMES = ["read", "exec", "spawn", "plan", "docs__find_it"];

/** A config with kinds of agents, and with these limits. */
function nesting(limits: Partial<Limits> = {}): Config {
  return {
    ...CONFIG,
    tools: NAMES.map((name) => ({ name, description: `Does ${name}.`, parameters: "{}" })),
    limits: { ...DEFAULT_LIMITS, ...limits },
    agents: [SCOUT, WRITER],
  };
}

/** The model's answer to action `id`, of which it says so. */
function saying(text: string, event: ModelEvent): ModelEvent {
  return { ...event, answer: { ...event.answer, text } as typeof event.answer };
}

test("a spawned agent has a conversation of its own, and its last text is its call's result", () => {
  const asked = play(nesting(), turn(1), calls(1, spawn("look at a")));
  expect(asked.last).toEqual(["2 @1 model from 0: user look at a"]);
  const { lines } = resume(asked.state, calls(2, run("ls")), ran(3, "a"), says(4, "a is there"));
  expect(lines).toEqual([
    "3 @1 exec ls",
    "4 @1 model from 1: assistant [a], tool a ok: exit code 0 after 5 ms\nstdout:\na",
    "5 @1 emit a is there",
    "6 model from 1: assistant [a], tool a ok: a is there",
  ]);
});

test("what an agent is told first is its prelude, its model and its tools", () => {
  const opOf = (op: CallOp) => play(nesting(), turn(1), calls(1, op)).actions[1]?.op;
  const tools = (names: readonly string[]) =>
    names.map((name) => expect.objectContaining({ name }));
  const usual = { purpose: "turn", from: 0, model: "local/any", prelude: "You are Dev." };
  const scout = { ...usual, model: "local/small", prelude: "You look." };
  expect(opOf(spawn("x"))).toMatchObject({ ...usual, tools: tools(NAMES) });
  expect(opOf(spawn("x", "", ["exec"]))).toMatchObject({ ...usual, tools: tools(["exec"]) });
  // Of its kind's tools it gets those that its parent has.
  expect(opOf(spawn("x", "scout"))).toMatchObject({ ...scout, tools: tools(["read", "spawn"]) });
  expect(opOf(spawn("x", "scout", ["exec", "read"]))).toMatchObject({
    ...scout,
    tools: tools(["read"]),
  });
  expect(opOf(spawn("x", "writer"))).toMatchObject({ model: "local/large", tools: tools(NAMES) });
  // The usual agent is as the one that spawns it.
  const nested = play(nesting(), turn(1), calls(1, spawn("x", "scout")), calls(2, spawn("y")));
  expect(nested.actions[2]).toMatchObject({
    agent: 2,
    op: { ...scout, tools: tools(["read", "spawn"]) },
  });
});

test("a sub-agent's call of a tool that it was not given fails in place", () => {
  const tool: CallOp = { kind: "tool", server: "docs", name: "find.it", arguments: "{}" };
  const outside = play(
    nesting(),
    turn(1),
    calls(1, spawn("x", "", ["read"])),
    calls(2, run("rm"), tool, spawn("y"), read("a")),
  );
  expect(outside.last).toEqual(["3 @1 read a"]);
  const { last } = resume(outside.state, {
    kind: "file",
    id: 3,
    outcome: { kind: "unknown", known: "" },
  } as Event);
  for (const name of ["exec", "docs__find_it", "spawn"]) {
    expect(last[0]).toContain(
      `failed: failed, nothing was done: this agent was not given the tool ${name}; it was given read`,
    );
  }
  const given = play(nesting(), turn(1), calls(1, spawn("x")), calls(2, tool));
  expect(given.last).toEqual(["3 @1 tool find.it"]);
  const none = play(
    nesting(),
    turn(1),
    calls(1, spawn("x", "scout", ["exec"])),
    calls(2, run("a")),
  );
  expect(none.last[0]).toContain("was not given the tool exec; it was given none");
});

test.each([
  [spawn("x", "nobody"), 'agent: there is no kind named "nobody"; there are scout, writer'],
  [
    spawn("x", "", ["read", "fly"]),
    `tools: there is no tool named "fly" here; there are ${NAMES.join(", ")}`,
  ],
  [spawn(""), "prompt: it is empty"],
])("a spawn that names what there is not fails in place", (op, why) => {
  expect(play(nesting(), turn(1), calls(1, op)).last).toEqual([
    `2 model from 1: assistant [a], tool a failed: failed, nothing was done: ${why}`,
  ]);
});

test("a sub-agent cannot give a tool that it was not given", () => {
  const { last } = play(
    nesting(),
    turn(1),
    calls(1, spawn("x", "scout")),
    calls(2, spawn("y", "", ["exec"])),
  );
  expect(last[0]).toContain('tools: there is no tool named "exec" here; there are read, spawn');
  const kind = play(
    nesting(),
    turn(1),
    calls(1, spawn("x", "scout")),
    calls(2, spawn("y", "writer")),
  );
  expect(kind.actions[2]?.op).toMatchObject({ tools: [{ name: "read" }, { name: "spawn" }] });
});

test("agents and calls of one reply are at work together, and told of in the order of their calls", () => {
  const out = play(nesting(), turn(1), calls(1, spawn("one"), run("ls"), spawn("two")));
  expect(out.last).toEqual([
    "2 exec ls",
    "3 @1 model from 0: user one",
    "4 @2 model from 0: user two",
  ]);
  const arrivals: readonly (readonly Event[])[] = [
    [ran(2), says(3, "1"), says(4, "2")],
    [says(4, "2"), ran(2), says(3, "1")],
    [says(4, "2"), says(3, "1"), ran(2)],
  ];
  for (const events of arrivals) {
    const { last } = resume(out.state, ...events);
    expect(last.at(-1)?.replace(/^\d+ /, "")).toBe(
      "model from 1: assistant [a][b][c], tool a ok: 1, tool b ok: exit code 0 after 5 ms, tool c ok: 2",
    );
  }
});

test("agentDepth and agentCount fail a spawn in place, with the figure", () => {
  const flat = play(nesting({ agentDepth: 0 }), turn(1), calls(1, spawn("x")));
  expect(flat.last[0]).toContain(
    "failed, nothing was done: agentDepth: an agent at depth 0 spawns none, of 0",
  );
  const deep = play(
    nesting({ agentDepth: 1 }),
    turn(1),
    calls(1, spawn("x")),
    calls(2, spawn("y")),
  );
  expect(deep.last[0]).toContain("agentDepth: an agent at depth 1 spawns none, of 1");
  const few = play(
    nesting({ agentCount: 2 }),
    turn(1),
    calls(1, spawn("x"), spawn("y"), spawn("z")),
  );
  expect(few.last).toHaveLength(2);
  const { last } = resume(few.state, says(2, "1"), says(3, "2"));
  expect(last.at(-1)).toContain(
    "tool c failed: failed, nothing was done: agentCount: 2 agents are at work, of 2",
  );
  // One that has ended is not counted, and its id is not used again.
  const again = resume(few.state, says(2, "1"), calls(3, spawn("w")));
  expect(again.last).toEqual(["5 @3 model from 0: user w"]);
});

test("a long last text is cut as a result is, and none is said to be none", () => {
  const config = nesting({ resultBytes: 8 });
  const long = play(config, turn(1), calls(1, spawn("x")), says(2, "abcdefghijkl"));
  expect(long.last).toEqual([
    "3 @1 emit abcdefghijkl",
    "4 model from 1: assistant [a], tool a ok: abcd\n(4 characters cut)\nijkl",
  ]);
  const mute = play(nesting(), turn(1), calls(1, spawn("x")), says(2, ""));
  expect(mute.last).toEqual([
    "3 model from 1: assistant [a], tool a ok: (the agent ended without a text)",
  ]);
  const plan: CallOp = { kind: "plan", items: [] };
  const early = saying("I found it.", calls(2, plan));
  const { last } = play(
    nesting(),
    turn(1),
    calls(1, spawn("x")),
    early,
    calls(4, plan),
    says(5, ""),
  );
  expect(last[0]).toContain("tool a ok: I found it.");
});

test.each([
  [modelFailed(2), "http://127.0.0.1:1: no answer (start it)"],
  [modelFailed(2, "too_large"), "http://127.0.0.1:1: no answer (start it)"],
  [modelFailed(2, "context_overflow"), "what must stay does not fit the model's window"],
  [modelStopped(2, ""), "the model was stopped"],
  [calls(2, run("a"), run("b"), run("c")), "callsPerReply: 3 calls in one reply, of 2"],
  [says(2, "x".repeat(600)), "messageBytes: the reply has 668 bytes, of 500"],
])("what ends a sub-agent early is a failed result, and its parent goes on", (event, why) => {
  const config = nesting({ callsPerReply: 2, messageBytes: 500 });
  const { last, state } = play(config, turn(1), calls(1, spawn("x")), event);
  expect(last.at(-1)).toMatch(/^3 model from 1: /);
  expect(last.at(-1)).toContain(`tool a failed: failed: the agent did not finish: ${why}`);
  expect(state.agents).toHaveLength(1);
});

test("a sub-agent that stops early is heard with the last that it said", () => {
  const { last } = play(nesting(), turn(1), calls(1, spawn("x")), modelStopped(2, "So far: a"));
  expect(last).toEqual([
    "3 model from 1: assistant [a], tool a failed: failed: the agent did not finish: the model was stopped\nThe last it said:\nSo far: a",
  ]);
});

test("identical replies are counted for each agent alone", () => {
  const config = nesting({ identicalReplies: 1 });
  const both = play(
    config,
    turn(1),
    calls(1, spawn("x"), run("a")),
    ran(2),
    calls(3, run("a")),
    ran(4),
  );
  const over = resume(both.state, calls(5, run("a")));
  expect(over.last).toEqual([
    "6 model from 1: assistant [a][b], tool a failed: failed: the agent did not finish: identicalReplies: the same calls 2 times in a row, tool b ok: exit code 0 after 5 ms",
  ]);
  expect(resume(over.state, calls(6, run("a"))).last).toEqual(["7 exec a"]);
});

test("modelCallsPerTurn counts the calls of all agents, and ends the whole turn", () => {
  const config = nesting({ modelCallsPerTurn: 3 });
  const out = play(
    config,
    turn(1),
    calls(1, spawn("x"), run("ls")),
    calls(2 + 1, run("a")),
    ran(4),
  );
  const { last, talk, state } = resume(out.state, calls(5, run("b")), ran(6));
  expect(last).toEqual(["7 save", "8 done 1 limit: modelCallsPerTurn: 3 were made"]);
  const stopped =
    "failed: stopped when the turn ended; what it had done stays done. (modelCallsPerTurn: 3 were made)";
  expect(talk.slice(1)).toEqual(["assistant [a][b]", `tool a ${stopped}`, `tool b ${stopped}`]);
  expect(state.agents).toHaveLength(1);
  // What is still out is heard no more.
  expect(resume(state, ran(2))).toMatchObject({ state, lines: [] });
});

test("a reply that spawns more than the turn may still ask for runs nothing", () => {
  const config = nesting({ modelCallsPerTurn: 2 });
  const { last, talk } = play(config, turn(1), calls(1, run("ls"), spawn("x"), spawn("y")));
  const over = "modelCallsPerTurn: 1 were made and 2 are asked for, of 2";
  expect(last).toEqual(["2 save", `3 done 1 limit: ${over}`]);
  expect(talk.slice(2)).toEqual(
    ["a", "b", "c"].map((ref) => `tool ${ref} failed: not run: ${over}`),
  );
});

test.each([
  ["tokensPerSession", { tokensPerSession: 50 }, "tokensPerSession: 65 of 50 are used"],
  [
    "costMicroUsdPerSession",
    { costMicroUsdPerSession: 50 },
    "costMicroUsdPerSession: $0.00006 of $0.00005 are used",
  ],
])("%s is spent by sub-agents too", (_name, limits, over) => {
  const spent = {
    ...calls(2, run("a")),
    usage: { ...NO_USAGE, outputTokens: 60 },
    costMicroUsd: 60,
  };
  const { last } = play(nesting(limits), turn(1), using(5, calls(1, spawn("x"))), spent, ran(3));
  expect(last).toEqual(["4 save", `5 done 1 limit: ${over}`]);
});

test("conversationBytes holds for all conversations together", () => {
  const config = nesting({ conversationBytes: 900 });
  const out = play(config, turn(1), calls(1, spawn("x")), calls(2, run("a")));
  const { last } = resume(out.state, ran(3, "x".repeat(600)));
  expect(last[1]).toMatch(/^5 done 1 limit: conversationBytes: it would have \d+ bytes, of 900$/);
  const wide = play(config, turn(1), calls(1, spawn("x".repeat(500))));
  expect(wide.last[1]).toMatch(/^3 done 1 limit: conversationBytes/);
});

test("a cancel reaches all agents, and every call of the session's own gets its result", () => {
  const out = play(
    nesting(),
    turn(1),
    calls(1, spawn("x"), run("a"), spawn("y")),
    calls(3, spawn("z"), run("b")),
  );
  expect(out.state.agents).toHaveLength(4);
  const { last, talk, state } = resume(out.state, cancel(1));
  expect(last.at(-1)).toMatch(/done 1 cancelled: it was cancelled$/);
  const stopped = "failed: cancelled: it was stopped; what it had done stays done.";
  expect(talk.slice(2)).toEqual(["a", "b", "c"].map((ref) => `tool ${ref} ${stopped}`));
  expect(state.agents.map(({ phase }) => phase.kind)).toEqual(["idle"]);
  for (const late of [ran(2), ran(5), says(3, "x")]) expect(resume(state, late).state).toBe(state);
  for (const late of [says(4, "x"), says(6, "x")]) expect(resume(state, late).lines).toEqual([]);
});

test("a steer is for the session's own agent", () => {
  const out = play(nesting(), turn(1), calls(1, spawn("x")), steer("use tabs"), calls(2, run("a")));
  const { last, state } = resume(out.state, ran(3));
  expect(last).toEqual(["4 @1 model from 1: assistant [a], tool a ok: exit code 0 after 5 ms"]);
  expect(resume(state, says(4, "done")).last.at(-1)).toBe(
    "6 model from 1: assistant [a], tool a ok: done, user use tabs",
  );
});

test("a sub-agent's conversation is compacted by its own model's window", () => {
  const out = play(
    nesting(),
    turn(1),
    calls(1, spawn("look", "scout")),
    using(400, calls(2, read("a"))),
  );
  const failed: Event = { kind: "file", id: 3, outcome: { kind: "unknown", known: "?" } } as Event;
  const full = resume(out.state, failed);
  expect(full.last[0]).toMatch(/^4 @1 compact from 1: user Summarise/);
  const { last, state } = resume(full.state, says(4, "It read a."));
  expect(last[0]).toMatch(
    /^5 @1 model from 0: user The conversation before this, in a summary:\n\nIt read a\., assistant \[a\]/,
  );
  expect(resume(state, says(5, "done")).last.at(-1)).toBe(
    "7 model from 1: assistant [a], tool a ok: done",
  );
  const lost = resume(full.state, modelFailed(4));
  expect(lost.last[0]).toContain(
    "tool a failed: failed: the agent did not finish: the conversation was not summarised",
  );
});

test("a sub-agent's plan is its own", () => {
  const plan = (text: string): CallOp => ({ kind: "plan", items: [{ text, status: "active" }] });
  const { state } = play(
    nesting(),
    turn(1),
    calls(1, plan("all"), spawn("x")),
    calls(2, plan("part")),
  );
  expect(state.agents.map(({ plan: items }) => items.map(({ text }) => text))).toEqual([
    ["all"],
    ["part"],
  ]);
  // A plan that it may not make is none.
  const given = spawn("x", "", ["read"]);
  const denied = play(nesting(), turn(1), calls(1, given), calls(2, plan("part"), read("a")));
  expect(denied.state.agents[1]?.plan).toEqual([]);
});
