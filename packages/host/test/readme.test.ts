import { readFile } from "node:fs/promises";
import { type Config, DEFAULT_LIMITS } from "@dev/core";
import { openCore } from "@dev/host";
import { turnId } from "@dev/protocol";
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
  const core = openCore({ host: "native" });
  const session = core.create(config);
  const prompt = { kind: "turn", id: turnId(1), prompt: "hello", images: [], mode: "ask" } as const;
  const actions = session.step(prompt);
  const saved = session.snapshot();
  if (!saved.ok) throw new Error(saved.fault.message);
  session.close();
  const restored = core.restore(saved.value);
  if (!restored.ok) throw new Error(restored.fault.message);
  const again = restored.value.step(prompt);
  const closed = session.step(prompt);
  core.close();
  // end
  expect(actions).toMatchObject({ ok: true, value: [{ id: 1, op: { kind: "model" } }] });
  expect(again).toEqual({ ok: true, value: [] });
  expect(closed).toMatchObject({ ok: false, fault: { code: "handle" } });
});

test("the README's example is the one that was run", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const here = await readFile(new URL(import.meta.url), "utf8");
  const shown = readme.split("```ts\n")[1]?.split("```")[0] ?? "none";
  const run = here.split("// example\n")[1]?.split("// end")[0] ?? "";
  expect(words(run)).toBe(words(shown));
});

/** The formatter breaks lines where the page does not. */
function words(text: string): string {
  return text.replaceAll(/\s+|,(?=\s*[})])/g, "");
}
