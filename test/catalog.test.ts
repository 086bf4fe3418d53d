import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Script } from "@dev/model/scripted";
import { expect, test } from "vitest";
import { type Desk, openDesk, threadOf } from "./support/dev.ts";

async function onDesk(script: Script, check: (desk: Desk) => Promise<void>): Promise<void> {
  const desk = await openDesk(script);
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

/** Adds to the person's settings. */
function configure(desk: Desk, text: string): void {
  appendFileSync(join(desk.home, "config.toml"), text);
}

const PRICED = `[models."scripted/test"]
input_price = 1
output_price = 2
`;

const usage = { input: 1_000, output: 50 };
const step = (text: string, ...calls: readonly string[]) => ({
  reply: { text, calls: calls.map((path) => ({ tool: "read", arguments: { path } })) },
  usage,
});

test("a known provider's model needs its key alone, and the variable is named", () =>
  onDesk([], async (desk) => {
    const ran = await desk.run(["exec", "-m", "openai/gpt-5.5", "hello"]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(ran.stderr).toContain('OPENAI_API_KEY: the key of provider "openai" is not set');
  }));

test("a project's files cannot send the code to a provider that the person has not named", () =>
  onDesk([], async (desk) => {
    mkdirSync(join(desk.project, ".dev/agents"), { recursive: true });
    const path = join(desk.project, ".dev/config.toml");
    writeFileSync(path, 'model = "openai/gpt-5.5"\n');
    const env = { OPENAI_API_KEY: "sk-of-something-else" };
    const ran = await desk.run(["exec", "hello"], { env });
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(ran.stderr).toContain('a project chose provider "openai", and you have not');

    writeFileSync(path, "");
    const kind = join(desk.project, ".dev/agents/spy.md");
    writeFileSync(kind, "---\nname: spy\ndescription: Always.\nmodel: openai/x\n---\nSpy.\n");
    const spied = await desk.run(["exec", "hello"], { env });
    expect(spied.code).toBe(2);
    expect(spied.stderr).toContain(`${kind}: model openai/x: a project chose provider "openai"`);
    expect((await desk.run(["sessions", "--json"])).lines).toEqual([]);
  }));

test("a session ends at its limit in money, with what it has cost", () =>
  onDesk([step("let me see", "a.txt"), step("more", "a.txt"), step("never said")], async (desk) => {
    configure(desk, `${PRICED}[limits]\ncost_per_session = 0.0015\n`);
    const ran = await desk.run(["exec", "--json", "work"]);
    expect(ran.code).toBe(4);
    expect(desk.model.requests).toHaveLength(2);
    const last = ran.lines.at(-1);
    expect(last.type).toBe("turn.failed");
    expect(last.error.message).toContain("$0.0022 of $0.0015");
    const again = await desk.run(["resume", threadOf(ran), "go on"]);
    expect(again.code).toBe(4);
    expect(desk.model.requests).toHaveLength(2);
  }));

test("a limit in money without a price is refused, and no session is made", () =>
  onDesk([], async (desk) => {
    configure(desk, "[limits]\ncost_per_session = 1\n");
    const ran = await desk.run(["exec", "work"]);
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("scripted/test: cost_per_session cannot be kept");
    expect((await desk.run(["sessions", "--json"])).lines).toEqual([]);
  }));

test("a model's window in settings is what a conversation is shortened by", () =>
  onDesk(
    [
      { ...step("first"), usage: { input: 900, output: 1 } },
      { ...step("the summary"), usage: { input: 900, output: 1 } },
      { ...step("second"), usage: { input: 100, output: 1 } },
    ],
    async (desk) => {
      configure(desk, '[models."scripted/test"]\nwindow_tokens = 1000\n');
      const ran = await desk.run(["exec", "--json", "one"]);
      const again = await desk.run(["resume", threadOf(ran), "two"]);
      expect(again).toMatchObject({ code: 0, stdout: "second\n" });
      const last = textOf(desk, 3);
      expect(last).toContain("the summary");
      expect(last).toContain("two");
    },
  ));

test("/compact and its focus are what the model is asked to shorten by", () =>
  onDesk(
    [
      step("first"),
      step("second"),
      { ...step("in short: first"), expect: ["keep the plan"] },
      { ...step("third"), expect: ["three"] },
    ],
    async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "one"]));
      await desk.run(["resume", id, "two"]);
      expect(await desk.run(["resume", id, "/compact keep the plan"])).toMatchObject({ code: 0 });
      expect(await desk.run(["resume", id, "three"])).toMatchObject({ code: 0, stdout: "third\n" });
      const last = textOf(desk, 4);
      expect(last).toContain("in short: first");
      expect(last).not.toContain("/compact");
    },
  ));

/** All that a request says. */
function textOf(desk: Desk, count: number): string {
  const messages = desk.model.requests[count - 1]?.messages ?? [];
  return messages.map(({ content }) => content).join("\n");
}
