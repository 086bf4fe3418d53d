import type { Action, ActionId, AgentId, ModelOp, TurnId } from "@dev/protocol";
import { expect, test } from "vitest";
import { Conversations } from "../src/conversation.ts";

const user = (text: string) => ({ kind: "user", text, images: [] }) as const;

function ask(id: number, from: number, texts: readonly string[], prelude = ""): Action {
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
  return { id: id as ActionId, agent: 0 as AgentId, turn: 1 as TurnId, op };
}

test("asks that continue each other add up to one conversation", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a"], "who"));
  conversations.take(ask(2, 1, ["b", "c"]));
  const whole = conversations.ask(0 as AgentId);
  expect(whole.prelude).toBe("who");
  expect(whole.messages).toEqual(["a", "b", "c"].map(user));
});

test("an ask from the start replaces what was told before", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a", "b"], "who"));
  conversations.take(ask(2, 0, ["summary"], "who else"));
  expect(conversations.ask(0 as AgentId)).toMatchObject({
    prelude: "who else",
    messages: [user("summary")],
  });
});

test("a gap between what was told and what is told is our own bug, and throws", () => {
  const conversations = new Conversations();
  conversations.take(ask(1, 0, ["a"], "who"));
  expect(() => conversations.take(ask(2, 3, ["b"]))).toThrow(
    "action 2 tells from 3, and 1 were told",
  );
});
