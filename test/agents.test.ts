import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { hasSandbox, kill, until } from "./support/crash-process.ts";
import { checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, threadOf } from "./support/dev.ts";
import { checkPrefixes, describeModel, run, say, spawn, to, toldIn } from "./support/script.ts";
import { sweep } from "./support/sweep.ts";

const LIMIT_MS = 120_000;

const REVIEWER = `---
name: reviewer
description: looks for faults
tools: read, search
---
You look for faults.
`;
const FILES = { "a.txt": "alpha\n", ".dev/agents/reviewer.md": REVIEWER };
const EXEC = ["exec", "--json", "--mode", "full"];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, FILES);
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
    checkPrefixes(desk.model.requests);
  } finally {
    await desk.close();
  }
}

/** A command that leaves a mark each time it runs. */
const leave = (name: string, rest = "true") => run(`echo ${name} >> effects.log; ${rest}`);

const effectsIn = (tree: string): readonly string[] =>
  existsSync(`${tree}/effects.log`)
    ? readFileSync(`${tree}/effects.log`, "utf8").trim().split("\n")
    : [];

/** Two sub-agents, which leave two marks each. */
const TASK: readonly FixedStep[] = [
  say("", spawn("Task one"), spawn("Task two"), ["read", { path: "a.txt" }]),
  to("Task one", "", leave("one-a")),
  to("Task one", "", leave("one-b", "echo out-one")),
  to("Task one", "one is done"),
  to("Task two", "", leave("two-a")),
  to("Task two", "", leave("two-b", "echo out-two")),
  to("Task two", "two is done"),
  say("all is done"),
];
const EFFECTS = ["one-a", "one-b", "two-a", "two-b"];

function checkTask(desk: Desk, tree: string = desk.project): void {
  expect(effectsIn(tree).toSorted()).toEqual(EFFECTS);
  expect(toldIn(desk, "do both")).toMatchObject([
    "one is done",
    "two is done",
    expect.stringContaining("alpha"),
  ]);
  expect(toldIn(desk, "Task one").at(-1)).toContain("out-one");
  expect(toldIn(desk, "Task two").at(-1)).toContain("out-two");
}

describe("sub-agents", { timeout: LIMIT_MS }, () => {
  test.each(["local", ...(hasSandbox ? ["bubblewrap"] : [])])(
    "two work at once in a cell that is %s, and each tells its parent its last text",
    async (cell) => {
      // Neither model answers before both were asked.
      const gated = TASK.map((step) =>
        step.when === undefined ? step : { ...step, gate: "both" },
      );
      await onDesk(gated, async (desk) => {
        const started = desk.start([...EXEC, "--cell", cell, "do both"]);
        await desk.model.request(3);
        desk.model.release("both");
        const ran = await started.ended;
        expect(ran).toMatchObject({ code: 0, stderr: "" });
        const items = ran.lines
          .filter(({ type }) => type === "item.completed")
          .map(({ item }) => item);
        const agents = items.filter(({ type }) => type === "sub_agent");
        expect(agents).toHaveLength(2);
        expect(agents).toEqual(
          expect.arrayContaining([
            expect.objectContaining({ id: "agent_1", task: "Task one", text: "one is done" }),
            expect.objectContaining({ id: "agent_2", task: "Task two", text: "two is done" }),
          ]),
        );
        const whose = items.flatMap(({ command, agent }) => (command ? [agent] : []));
        expect(whose.toSorted()).toEqual([1, 1, 2, 2]);
        expect(items.at(-1)).toMatchObject({ type: "agent_message", text: "all is done" });
        expect(items.at(-1)).not.toHaveProperty("agent");
        const id = threadOf(ran);
        checkTask(desk, cell === "local" ? desk.project : `${desk.home}/workspaces/${id}/tree`);
        checkLedger(await ledgerOf(desk, id));
      });
    },
  );

  test("a kind has its own prelude, and of the tools those that it names", () =>
    onDesk(
      [
        say("", spawn("Look at it", "reviewer"), spawn("Look at it too", "critic")),
        {
          ...to("Look at it", "", run("touch b")),
          expect: (request) => request.tools.length === 2,
        },
        to("Look at it", "no faults"),
        say("good"),
      ],
      async (desk) => {
        const ran = await desk.run([...EXEC.slice(0, 1), ...EXEC.slice(2), "look"]);
        expect(ran).toMatchObject({ code: 0, stdout: "good\n" });
        expect(ran.stderr).toContain("▸ [reviewer 1] Look at it\n");
        expect(ran.stderr).toContain("✓ [reviewer 1] done: no faults\n");
        const asked = desk.model.requests.find(({ tools }) => tools.length === 2);
        expect(asked?.tools).toEqual(["read", "search"]);
        expect(asked?.messages[0]?.content).toContain("You look for faults.");
        expect(toldIn(desk, "Look at it")).toEqual([
          expect.stringContaining("was not given the tool exec"),
        ]);
        expect(toldIn(desk, "look")).toEqual([
          "no faults",
          expect.stringContaining('there is no kind named "critic"'),
        ]);
        expect(existsSync(`${desk.project}/b`)).toBe(false);
      },
    ));

  test("one whose model fails is a failed result for its parent, which goes on", () =>
    onDesk(
      [
        say("", spawn("Task one"), spawn("Task two")),
        { fault: { kind: "status", status: 400 }, when: "Task one" },
        to("Task two", "two is done"),
        say("one of them failed"),
      ],
      async (desk) => {
        const ran = await desk.run([...EXEC, "do both"]);
        expect(ran.code).toBe(0);
        expect(ran.lines.at(-1).type).toBe("turn.completed");
        const [one, two] = toldIn(desk, "do both");
        expect(one).toContain("failed: the agent did not finish");
        expect(two).toBe("two is done");
        const ended = ran.lines.filter(
          ({ type, item }) => type === "item.completed" && item.type === "sub_agent",
        );
        expect(ended.map(({ item }) => item.status).toSorted()).toEqual(["completed", "failed"]);
      },
    ));

  test("what each of them used and cost is summed", () =>
    onDesk(
      TASK.map((step) => ({ ...step, usage: { input: 1000, output: 100 } })),
      async (desk) => {
        describeModel(desk, { input_price: 2, output_price: 10 });
        const ran = await desk.run([...EXEC, "do both"]);
        const usage = { input_tokens: 8000, output_tokens: 800, cost_micro_usd: 8 * 3000 };
        expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed", usage });
      },
    ));

  test("a path of one is looked at once the commands of the others are over", () =>
    onDesk(
      [
        say("", spawn("Task one"), spawn("Task two")),
        to(
          "Task one",
          "",
          leave("one", "sleep 0.5; mkdir secret; echo k > secret/key; ln -s secret way"),
        ),
        to("Task one", "one is done"),
        { ...to("Task two", "", ["read", { path: "way/key" }]), gate: "runs" },
        { ...to("Task two", "two may not"), expect: ["refused, nothing was done"] },
        say("all is done"),
      ],
      async (desk) => {
        const rule = '[[policy.rules]]\ndecision = "deny"\npaths = ["secret/**"]\n';
        appendFileSync(`${desk.home}/config.toml`, rule);
        const started = desk.start([...EXEC, "do both"]);
        await until("the command runs", () => effectsIn(desk.project).length > 0);
        desk.model.release("runs");
        expect(await started.ended).toMatchObject({ code: 3 });
        expect(toldIn(desk, "do both")).toEqual(["one is done", "two may not"]);
      },
    ));

  test("a stop reaches all of them, and the session can go on", () =>
    onDesk(
      [
        say("", spawn("Task one"), spawn("Task two")),
        { fault: { kind: "hang" }, when: "Task one" },
        to("Task two", "", leave("two", "sleep 60")),
        say("then something else"),
      ],
      async (desk) => {
        const started = desk.start([...EXEC, "do both"]);
        await desk.model.request(3);
        await until("the command runs", () => effectsIn(desk.project).length > 0);
        started.child.kill("SIGINT");
        const ran = await started.ended;
        expect(ran.code).toBe(130);
        expect(ran.lines.at(-1)).toMatchObject({
          type: "turn.failed",
          error: { code: "cancelled" },
        });
        const id = threadOf(ran);
        checkLedger(await ledgerOf(desk, id));
        expect(await desk.run(["resume", id, "leave it"])).toMatchObject({ code: 0 });
        const told = toldIn(desk, "do both");
        expect(told).toHaveLength(2);
        for (const each of told) expect(each).toMatch(/stopped/);
      },
    ));
});

describe("a crash among sub-agents", { timeout: LIMIT_MS }, () => {
  test("while one's model is asked and another's command runs repeats nothing and loses nothing", () =>
    onDesk(
      [
        say("", spawn("Task one"), spawn("Task two")),
        { ...to("Task one", "never heard"), gate: "never" },
        to("Task two", "", leave("two", "while [ ! -e go ]; do sleep 0.05; done; echo out-two")),
        to("Task one", "one is done"),
        to("Task two", "two is done"),
        say("all is done"),
      ],
      async (desk) => {
        const started = desk.start([...EXEC, "do both"]);
        await desk.model.request(3);
        await until("the command runs", () => effectsIn(desk.project).length > 0);
        await kill(started);
        writeFileSync(`${desk.project}/go`, "");
        const id = threadOf(await started.ended);
        const ran = await desk.run(["resume", "--json", id]);
        expect(ran.code).toBe(0);
        const begun = ran.lines.filter(({ type, item }) => {
          return type === "item.started" && item.type === "sub_agent";
        });
        expect(begun.map(({ item }) => item.task)).toEqual(["Task one", "Task two"]);
        expect(effectsIn(desk.project)).toEqual(["two"]);
        expect(toldIn(desk, "Task two")).toEqual([expect.stringContaining("out-two")]);
        expect(toldIn(desk, "do both")).toEqual(["one is done", "two is done"]);
        const [first, again] = desk.model.requests.filter(({ messages }) =>
          messages.some(({ content }) => content === "Task one"),
        );
        expect(again?.body).toBe(first?.body);
        checkLedger(await ledgerOf(desk, id));
      },
    ));

  test("at any commit repeats nothing and loses nothing", async () => {
    const open = (): Promise<Desk> => openDesk(repeatable(), FILES);
    const count = await sweep({ open, prompt: "do both", check: (desk) => checkTask(desk) }, 14);
    expect(count).toBeGreaterThan(25);
  });
});

/** The task's model, however often it is asked: what it says follows from what it has said. */
function repeatable(): readonly ((request: {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}) => FixedStep)[] {
  const linesOf = (first: string): readonly FixedStep[] =>
    TASK.filter(({ when }) => when === (first.startsWith("Task") ? first : undefined));
  return Array.from({ length: 64 }, () => ({ messages }) => {
    const first = messages.find(({ role }) => role === "user")?.content ?? "";
    const heardCount = messages.filter(({ role }) => role === "assistant").length;
    const { when: _, ...step } = linesOf(first)[heardCount] ?? say("there is nothing left to do");
    return step;
  });
}
