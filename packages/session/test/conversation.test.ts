import type { Action, ActionId, AgentId, ModelOp, TurnId } from "@dev/protocol";
import { expect, test } from "vitest";
import { Conversations } from "../src/conversation.ts";

const user = (text: string) => ({ kind: "user", text, images: [] }) as const;

function ask(
  id: number,
  from: number,
  texts: readonly string[],
  { agent = 0, turn = 1, prelude = "" } = {},
): Action {
  const op: ModelOp = {
    kind: "model",
    purpose: "turn",
    model: "p/m",
    effort: "default",
    from,
    prelude,
    messages: texts.map(user),
    tools: [],
  };
  return { id: id as ActionId, agent: agent as AgentId, turn: turn as TurnId, op };
}

const textsOf = (conversations: Conversations, agent = 0): readonly string[] =>
  conversations.ask(agent as AgentId).messages.map((each) => ("text" in each ? each.text : ""));

test("asks that continue each other add up to one conversation", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a"], { prelude: "who" }));
  conversations.take(ask(2, 1, ["b", "c"]));
  const whole = conversations.ask(0 as AgentId);
  expect(whole.prelude).toBe("who");
  expect(whole.messages).toEqual(["a", "b", "c"].map(user));
});

test("an ask from the start replaces what was told before", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a", "b"], { prelude: "who" }));
  conversations.take(ask(2, 0, ["summary"], { prelude: "who else" }));
  expect(conversations.ask(0 as AgentId)).toMatchObject({
    prelude: "who else",
    messages: [user("summary")],
  });
});

test("a gap between what was told and what is told is our own bug, and throws", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a"], { prelude: "who" }));
  expect(() => conversations.take(ask(2, 3, ["b"]))).toThrow(
    "action 2 tells from 3, and 1 were told",
  );
});

test("what is told before what was told takes its place from there on", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a", "b", "c"], { prelude: "who" }));
  conversations.take(ask(2, 1, ["summarise"]));
  expect(textsOf(conversations)).toEqual(["a", "summarise"]);
  expect(conversations.ask(0 as AgentId).prelude).toBe("who");
  expect(conversations.extent(0 as AgentId)).toEqual({
    messageCount: 1,
    sizeBytes: JSON.stringify(user("a")).length,
  });
  conversations.take(ask(3, 2, ["d"]));
  expect(textsOf(conversations)).toEqual(["a", "summarise", "d"]);
});

test("an ask keeps its messages, whatever is told afterwards: it may be tried again", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a", "b"]));
  const { messages } = conversations.ask(0 as AgentId);
  conversations.take(ask(2, 1, ["c"]));
  expect(messages).toEqual(["a", "b"].map(user));
});

test("each agent has its own, and with a turn its sub-agents' are forgotten", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["mine"]));
  conversations.take(ask(2, 0, ["one's"], { agent: 1 }));
  conversations.take(ask(3, 0, ["another's"], { agent: 2, turn: 2 }));
  expect(textsOf(conversations, 1)).toEqual(["one's"]);
  conversations.retire(1 as TurnId);
  expect(textsOf(conversations)).toEqual(["mine"]);
  expect(textsOf(conversations, 2)).toEqual(["another's"]);
  expect(() => textsOf(conversations, 1)).toThrow("agent 1 has asked nothing");
  expect(() => conversations.take(ask(4, 1, ["x"], { agent: 1 }))).toThrow("0 were told");
});
