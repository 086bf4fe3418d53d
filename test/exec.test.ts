import { afterEach, expect, test } from "vitest";
import { type Desk, openDesk, read, threadOf } from "./support/dev.ts";

let desk: Desk;
afterEach(() => desk.close());

const reply = (text: string, ...calls: readonly [string, unknown][]) => ({
  reply: { text, calls: calls.map(([tool, args]) => ({ tool, arguments: args })) },
});

test("the last message goes to stdout alone, and progress to stderr", async () => {
  desk = await openDesk(
    [reply("let me see", ["read", { path: "a.txt" }]), reply("it says hello")],
    {
      "a.txt": "hello\n",
    },
  );
  const ran = await desk.run(["exec", "what does it say?"]);
  expect(ran).toMatchObject({ code: 0, stdout: "it says hello\n" });
  expect(ran.stderr).toContain("✓ read a.txt");
  expect(desk.model.errors).toEqual([]);
});

test("with --json every line is an object, and every item of an action has its id", async () => {
  desk = await openDesk(
    [
      reply("", ["write", { path: "b.txt", text: "new\n" }], ["exec", { argv: ["cat", "a.txt"] }]),
      reply("done"),
    ],
    { "a.txt": "hello\n" },
  );
  const ran = await desk.run(["exec", "--json", "write it"]);
  expect(ran.code).toBe(0);
  expect(ran.lines[0].type).toBe("thread.started");
  expect(ran.lines.map((line) => line.type)).toContain("turn.started");
  const done = ran.lines.filter((line) => line.type === "item.completed").map((line) => line.item);
  for (const item of done) expect(item.action_id).toBeGreaterThan(0);
  // Calls of one reply go out together, so either may end first.
  expect(done.map((item) => `${item.type} ${item.status}`).sort()).toEqual([
    "agent_message completed",
    "command_execution completed",
    "file_change completed",
  ]);
  expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed", usage: { output_tokens: 2 } });
  expect(read(`${desk.project}/b.txt`)).toBe("new\n");
  const ledger = await desk.run(["ledger", threadOf(ran), "--json"]);
  const ids = ledger.lines.map((entry) => entry.action.id);
  expect(ids).toEqual(ids.map((_, index) => index + 1));
});

test("what policy refuses ends with exit code 3, and the model is told", async () => {
  desk = await openDesk([
    reply("", ["exec", { argv: ["touch", "x"] }]),
    { ...reply("I may not"), expect: ["refused, nothing was done"] },
  ]);
  const ran = await desk.run(["exec", "--mode", "plan", "touch x"]);
  expect(ran.code).toBe(3);
  expect(desk.model.errors).toEqual([]);
});

test("without a model it says how to configure one, and asks none", async () => {
  desk = await openDesk([]);
  const ran = await desk.run(["exec", "hello"], { env: { DEV_HOME: `${desk.root}/other` } });
  expect(ran.code).toBe(2);
  expect(ran.stderr).toContain("no model is configured");
  expect(ran.stderr).toContain("[providers.local]");
  expect(desk.model.requests).toEqual([]);
});
