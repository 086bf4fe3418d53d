import { appendFileSync, existsSync } from "node:fs";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { until } from "./support/crash-process.ts";
import { type Desk, type Line, openDesk } from "./support/dev.ts";
import { run, say, spawn, to } from "./support/script.ts";

const LIMIT_MS = 60_000;
const ASK = ["question", { text: "red or blue?" }] as const;
const PLAN = (first: string) =>
  [
    "plan",
    {
      items: [
        { text: "look", status: first },
        { text: "mend", status: "pending" },
      ],
    },
  ] as const;

async function onDesk(
  script: readonly FixedStep[],
  check: (desk: Desk) => Promise<void>,
  limits = "",
): Promise<void> {
  const desk = await openDesk(script);
  try {
    if (limits !== "") appendFileSync(`${desk.home}/config.toml`, `[limits]\n${limits}\n`);
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

const itemsOf = (lines: readonly Line[], type: string): readonly Line[] =>
  lines.filter((line) => line.type === type).map((line) => line.item);

describe("what is shown of a turn", { timeout: LIMIT_MS }, () => {
  test.each([true, false])("an interrupt ends all that had begun; with --json: %s", (isJson) =>
    onDesk(
      [
        say("", spawn("Task one"), run("touch root; sleep 60")),
        to("Task one", "", run("touch one; sleep 60")),
      ],
      async (desk) => {
        const started = desk.start([
          "exec",
          ...(isJson ? ["--json"] : []),
          ...["--mode", "full", "do both"],
        ]);
        const isThere = (name: string): boolean => existsSync(`${desk.project}/${name}`);
        await until("a command runs", () => isThere("root") || isThere("one"));
        started.child.kill("SIGINT");
        const ran = await started.ended;
        expect(ran.code).toBe(130);
        if (!isJson) {
          expect(ran.stderr).toMatch(/⊘ \$ touch (one|root); sleep 60 {2}stopped\n/);
          return;
        }
        const { lines } = ran;
        expect(lines.at(-1).type).toBe("turn.failed");
        const ids = (type: string) => itemsOf(lines, type).map(({ id }) => id);
        expect(ids("item.completed").toSorted()).toEqual(ids("item.started").toSorted());
        const commands = itemsOf(lines, "item.completed").filter(({ command }) => command);
        expect(commands.length).toBeGreaterThan(0);
        for (const { status } of commands) expect(status).toBe("cancelled");
      },
    ),
  );

  test("a second interrupt ends it at once, and says how to go on", () =>
    onDesk([say("", run("trap '' INT TERM; touch deaf; sleep 20"))], async (desk) => {
      const started = desk.start(["exec", "--mode", "full", "do it"]);
      await until("the command runs", () => existsSync(`${desk.project}/deaf`));
      const { child, ended } = started;
      await until("it ends", () => child.exitCode !== null || !child.kill("SIGINT"));
      const ran = await ended;
      expect(ran.code).toBe(130);
      expect(ran.stderr).toMatch(/go on where it stopped: dev resume s_\w{26}\n$/);
    }));

  test("the text of an answer that its model cut goes to stdout, and why to stderr", () =>
    onDesk([{ reply: { text: "as far as it", finish: "length" } }], async (desk) => {
      const ran = await desk.run(["exec", "x"]);
      expect(ran).toMatchObject({ code: 4, stdout: "as far as it\n" });
      expect(ran.stderr).toMatch(/a limit was reached: the model/);
    }));

  test("a sub-agent that ended at a limit of its own says at which", () =>
    onDesk(
      [
        say("", spawn("Task one")),
        to("Task one", "", ...["1", "2", "3"].map((each) => run(`echo ${each}`))),
        say("done"),
      ],
      async (desk) => {
        const ran = await desk.run(["exec", "--mode", "full", "do it"]);
        expect(ran).toMatchObject({ code: 0, stdout: "done\n" });
        expect(ran.stderr).toMatch(/⊘ \[agent 1\] a limit was reached: calls_per_reply: /);
      },
      "calls_per_reply = 2",
    ));

  test("the plan is shown, and again when it changes", () =>
    onDesk(
      [
        say("", PLAN("active")),
        say("", PLAN("active"), PLAN("active")),
        say("", PLAN("done")),
        say("ok"),
      ],
      async (desk) => {
        const { stderr } = await desk.run(["exec", "x"]);
        expect(stderr.match(/the plan:\n.*\n.*\n/g)).toEqual([
          "the plan:\n  ▸ look\n  · mend\n",
          "the plan:\n  ✓ look\n  · mend\n",
        ]);
      },
    ));

  test("a question that nobody was there to answer leaves a line, and with --json says so", () =>
    onDesk([say("", ASK), say("ok"), say("", ASK), say("ok")], async (desk) => {
      const { stderr } = await desk.run(["exec", "x"]);
      expect(stderr).toContain("? question: red or blue?  nobody was there to answer\n");
      const { lines } = await desk.run(["exec", "--json", "x"]);
      const asked = itemsOf(lines, "item.completed").filter(({ type }) => type === "question");
      expect(asked).toMatchObject([{ answered_by: "nobody" }]);
    }));
});
