import { type Config, DEFAULT_LIMITS } from "@dev/core";
import { openCore } from "@dev/host";
import { turnId } from "@dev/protocol";
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
  expect(actions).toMatchObject({ ok: true, value: [{ id: 1, op: { kind: "model" } }] });
  expect(again).toEqual({ ok: true, value: [] });
  expect(closed).toMatchObject({ ok: false, fault: { code: "handle" } });
});
