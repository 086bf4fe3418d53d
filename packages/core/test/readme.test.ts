import { readFile } from "node:fs/promises";
import { type Config, create, DEFAULT_LIMITS, restore, snapshot, step } from "@dev/core";
import { type Event, turnId } from "@dev/protocol";
import { expect, test } from "vitest";

test("the README's example does what it says", () => {
  // example
  const config: Config = {
    model: "local/coder",
    effort: "default",
    prelude: "You are Dev.",
    tools: [],
    limits: DEFAULT_LIMITS,
  };
  const prompt: Event = { kind: "turn", id: turnId(1), prompt: "hello", images: [], mode: "ask" };
  const asked = step(create(config), prompt);
  const again = step(asked.state, prompt);
  const restored = restore(snapshot(asked.state));
  // end
  expect(asked.actions.map(({ op }) => op.kind)).toEqual(["model"]);
  expect(again).toEqual({ state: asked.state, actions: [] });
  expect(restored).toEqual({ ok: true, value: asked.state });
});

test("the README's example is the one that was run", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const here = await readFile(new URL(import.meta.url), "utf8");
  const shown = readme.split("```ts\n")[1]?.split("```")[0] ?? "none";
  const ran = here.split("// example\n")[1]?.split("// end")[0] ?? "";
  expect(words(ran)).toBe(words(shown));
});

/** The formatter breaks lines where the page does not. */
function words(text: string): string {
  return text.replaceAll(/\s+|,(?=\s*[})])/g, "");
}
