import type { FixedStep, ScriptedRequest } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { kill } from "./support/crash-process.ts";
import { checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, read, threadOf } from "./support/dev.ts";
import { endOf, openScreen } from "./support/pty.ts";
import {
  checkPrefixes,
  describeModel,
  isCompaction,
  run,
  say,
  spawn,
  to,
  toldIn,
} from "./support/script.ts";
import { sweep } from "./support/sweep.ts";

const LIMIT_MS = 60_000;
const WINDOW_TOKENS = 1000;
const SUMMARY = "a.txt says alpha, many times";
const FILES = { "a.txt": "alpha\n".repeat(400) };

/** A step whose answer says that so much of the window is used. */
const using = (input: number, step: FixedStep): FixedStep => ({
  ...step,
  usage: { input, output: 1 },
});
const compacting = (step: FixedStep): FixedStep => ({ ...step, expect: isCompaction });
const overflow: FixedStep = {
  fault: {
    kind: "status",
    status: 400,
    body: JSON.stringify({
      error: { code: "context_length_exceeded", message: "the context is too long" },
    }),
  },
};

const DONE = using(100, say("all is done"));
const READ = say("", ["read", { path: "a.txt" }]);
/** A turn in the middle of which the window is full. */
const FULL: readonly FixedStep[] = [
  using(100, READ),
  using(950, say("", run("echo once >> effects.log"))),
  compacting(using(950, say(SUMMARY))),
  DONE,
];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, FILES);
  describeModel(desk, { window_tokens: WINDOW_TOKENS });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
    checkPrefixes(desk.model.requests);
  } finally {
    await desk.close();
  }
}

const EXEC = ["exec", "--json", "--mode", "full", "do it"];
const rolesOf = (request: ScriptedRequest | undefined): readonly string[] =>
  request?.messages.map(({ role }) => role) ?? [];

describe("compaction", { timeout: LIMIT_MS }, () => {
  test("a conversation that fills its window is shortened in the middle of a turn", () =>
    onDesk(FULL, async (desk) => {
      const ran = await desk.run(EXEC);
      expect(ran.code).toBe(0);
      const items = ran.lines.filter(({ item }) => item?.type === "compaction");
      expect(items.map(({ type }) => type)).toEqual([
        "item.started",
        "item.updated",
        "item.updated",
        "item.completed",
      ]);
      expect(items.at(-1).item).toMatchObject({
        status: "completed",
        text: SUMMARY,
        summary_bytes: SUMMARY.length,
        message_count: 3,
      });
      expect(items.at(-1).item.size_bytes).toBeGreaterThan(2400);
      const [, , compaction, after] = desk.model.requests;
      expect(rolesOf(compaction)).toEqual(["system", "user", "assistant", "tool", "user"]);
      // What is kept is the newest: the last call, with its result.
      expect(rolesOf(after)).toEqual(["system", "user", "assistant", "tool"]);
      expect(after?.messages[1]?.content).toContain(SUMMARY);
      expect(ran.lines.at(-1).usage).toMatchObject({ input_tokens: 2100, output_tokens: 4 });
    }));

  test("what it does is said in a line, and the summary is not said", () =>
    onDesk(FULL, async (desk) => {
      const ran = await desk.run(["exec", "--mode", "full", "do it"]);
      expect(ran).toMatchObject({ code: 0, stdout: "all is done\n" });
      expect(ran.stderr).toMatch(
        /✓ conversation shortened: 3 messages, \d\.\d KB → a summary of 28 B\n/,
      );
      expect(ran.stderr).not.toContain(SUMMARY);
    }));

  test("while it runs a person on a terminal sees how far it is", () =>
    onDesk(
      FULL.with(2, {
        fault: { kind: "slow", gapMs: 600, reply: { text: SUMMARY } },
        expect: isCompaction,
      }),
      async (desk) => {
        const screen = openScreen(desk, ["exec", "--mode", "full", "do it"]);
        await screen.sees("shortening the conversation: 3 messages, 3.1 KB → ");
        await screen.sees("conversation shortened");
        expect(endOf(await screen.ended)).toEqual({ code: 0, isSane: true });
      },
    ));

  test("a crash while it runs leaves the conversation as it was, and it is asked for again", () =>
    onDesk(
      [...FULL.slice(0, 2), { ...compacting(say("never heard")), gate: "never" }, ...FULL.slice(2)],
      async (desk) => {
        const started = desk.start(EXEC);
        await desk.model.request(3);
        await kill(started);
        const id = threadOf(await started.ended);
        const ran = await desk.run(["resume", "--json", id]);
        expect(ran.code).toBe(0);
        const [, , first, again] = desk.model.requests;
        expect(again?.body).toBe(first?.body);
        checkLedger(await ledgerOf(desk, id));
      },
    ));

  test("a crash at any commit around it repeats nothing and loses nothing", async () => {
    const step = (request: ScriptedRequest): FixedStep => {
      if (isCompaction(request)) return using(100, say(SUMMARY));
      if (request.messages[1]?.content.includes(SUMMARY) === true) return DONE;
      return (request.messages.length > 2 ? FULL[1] : FULL[0]) ?? DONE;
    };
    const open = async (): Promise<Desk> => {
      const desk = await openDesk(
        Array.from({ length: 16 }, () => step),
        FILES,
      );
      describeModel(desk, { window_tokens: WINDOW_TOKENS });
      return desk;
    };
    const check = (desk: Desk): void => {
      expect(read(`${desk.project}/effects.log`)).toBe("once\n");
      expect(desk.model.requests.some(isCompaction)).toBe(true);
    };
    expect(await sweep({ open, prompt: "do it", check }, 8)).toBeGreaterThan(12);
  });

  test("a person may ask for it, and say what is to be kept", () =>
    onDesk(
      [
        using(100, READ),
        using(100, say("it says alpha")),
        compacting({ ...say(SUMMARY), expect: ["Above all keep this: the first word"] }),
        { ...say("alpha"), expect: (request) => rolesOf(request).length > 1 },
      ],
      async (desk) => {
        const id = threadOf(await desk.run(EXEC));
        const ran = await desk.run(["resume", id, "/compact the first word"]);
        expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining("a summary")]);
        expect(ran.stderr).toContain("✓ conversation shortened: ");
        expect(await desk.run(["resume", id, "and?"])).toMatchObject({
          code: 0,
          stdout: "alpha\n",
        });
        const last = desk.model.requests.at(-1);
        expect(last?.messages[1]?.content).toContain(SUMMARY);
        expect(last?.messages.at(-1)?.content).toBe("and?");
      },
    ));

  test("where there is nothing to shorten, that is said", () =>
    onDesk([], async (desk) => {
      const ran = await desk.run(["exec", "/compact"]);
      expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining("nothing to compact")]);
    }));

  test("a provider that says it is too much leads to one compaction and one more try", () =>
    onDesk(
      [
        using(100, READ),
        using(100, say("", run("true"))),
        overflow,
        compacting(using(100, say(SUMMARY))),
        using(100, say("all is done")),
      ],
      async (desk) => {
        const ran = await desk.run(EXEC);
        expect(ran.code).toBe(0);
        expect(ran.lines.at(-1).type).toBe("turn.completed");
        expect(desk.model.requests).toHaveLength(5);
      },
    ));

  test("where that does not help the turn fails, and says so", () =>
    onDesk(
      [using(100, READ), overflow, compacting(using(100, say(SUMMARY))), overflow],
      async (desk) => {
        const ran = await desk.run(EXEC);
        expect(ran.code).toBe(1);
        const message = "what must stay does not fit the model's window";
        const error = { code: "failed", message: expect.stringContaining(message) };
        expect(ran.lines.at(-1)).toMatchObject({ type: "turn.failed", error });
        expect(desk.model.requests).toHaveLength(4);
      },
    ));

  test("a sub-agent's conversation is shortened for itself, beside the others", () =>
    onDesk(
      [
        using(100, say("", spawn("Task one"), spawn("Task two"))),
        ...[using(100, READ), using(950, READ)].map((step) => ({ ...step, when: "Task one" })),
        { ...compacting(using(100, say(SUMMARY))), when: "Task one" },
        { ...using(100, say("one is done")), when: SUMMARY },
        to("Task two", "two is done"),
        using(100, say("both are done")),
      ],
      async (desk) => {
        const ran = await desk.run(["exec", "do both"]);
        expect(ran).toMatchObject({ code: 0, stdout: "both are done\n" });
        expect(ran.stderr).toContain("  [agent 1] ✓ conversation shortened: ");
        expect(toldIn(desk, "do both")).toEqual(["one is done", "two is done"]);
      },
    ));
});
