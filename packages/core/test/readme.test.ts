import { type Config, create, DEFAULT_LIMITS, restore, snapshot, step } from "@dev/core";
import { type Event, turnId } from "@dev/protocol";
import { expect, test } from "vitest";

test("the README's example does what it says", () => {
  const config: Config = {
    model: "local/coder",
    effort: "default",
    prelude: "You are Dev.",
    tools: [],
    limits: DEFAULT_LIMITS,
    windowTokens: 0,
    images: false,
    agents: [],
  };
  const prompt: Event = { kind: "turn", id: turnId(1), prompt: "hello", images: [], mode: "ask" };
  const asked = step(create(config), prompt);
  const again = step(asked.state, prompt);
  const restored = restore(snapshot(asked.state));
  expect(asked.actions.map(({ op }) => op.kind)).toEqual(["model"]);
  expect(again).toEqual({ state: asked.state, actions: [] });
  expect(restored).toEqual({ ok: true, value: asked.state });
});
