import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { until } from "./support/crash-process.ts";
import { checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk } from "./support/dev.ts";
import { openScreen } from "./support/pty.ts";
import { checkPrefixes, run, say, spawn, to, toldIn } from "./support/script.ts";

const LIMIT_MS = 60_000;

const ASK = ["question", { text: "red or blue?" }] as const;

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script);
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
    checkPrefixes(desk.model.requests);
  } finally {
    await desk.close();
  }
}

/** Begins on a terminal, and kills `dev` while a question is open; the session's id. */
async function killAtQuestion(desk: Desk, isReady: () => boolean = () => true): Promise<string> {
  const screen = openScreen(desk, ["exec", "--mode", "full", "paint it"]);
  await screen.sees("red or blue?");
  await until("all else is done", isReady);
  process.kill(pidOf(desk), "SIGKILL");
  await screen.ended;
  const listed = await desk.run(["sessions", "--json"]);
  expect(listed.lines[0].state).toBe("active");
  return listed.lines[0].id;
}

/** The `dev` process of a desk. */
function pidOf(desk: Desk): number {
  const names = readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const [program = "", path = ""] = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
      const environment = readFileSync(`/proc/${name}/environ`, "latin1").split("\0");
      const isDev = program === process.execPath && path.endsWith("/dev.cjs");
      return isDev && environment.includes(`DEV_HOME=${desk.home}`);
    } catch {
      // It has ended meanwhile, or is another person's.
      return false;
    }
  });
  if (names.length !== 1) throw new Error(`not one process: ${names.join(" ")}`);
  return Number(names[0]);
}

describe("a prompt for a session that had asked a question", { timeout: LIMIT_MS }, () => {
  test("answers it, and the turn that asked goes on to its end", () =>
    onDesk([say("", ASK), { ...say("painted"), expect: ["blue it is"] }], async (desk) => {
      const id = await killAtQuestion(desk);
      const ran = await desk.run(["resume", id, "blue it is"]);
      expect(ran).toMatchObject({ code: 0, stdout: "painted\n" });
      expect(ran.stderr).toContain("✓ question: red or blue?  answered by your message\n");
      const [first, second] = desk.model.requests;
      expect(second?.messages.filter(({ role }) => role === "user")).toHaveLength(1);
      expect(first?.count).toBe(1);
      checkLedger(await ledgerOf(desk, id));
      const ledger = await desk.run(["ledger", id]);
      expect(ledger.stdout).toContain("completed   answered by a message: blue it is\n");
      const listed = await desk.run(["sessions", "--json"]);
      expect(listed.lines[0].state).toBe("complete");
    }));

  test("says so to a program, which hears of the end of the turn that asked", () =>
    onDesk([say("", ASK), say("painted")], async (desk) => {
      const id = await killAtQuestion(desk);
      const ran = await desk.run(["resume", "--json", id, "blue it is"]);
      const ended = ran.lines.filter(({ type }) => type === "item.completed");
      expect(ended.map(({ item }) => item)).toMatchObject([
        { type: "question", status: "completed", answer: "blue it is", answered_by: "message" },
        { type: "agent_message", text: "painted" },
      ]);
      expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed", turn: 1 });
    }));

  test("repeats nothing that was done beside the question, by whichever agent asked it", () =>
    onDesk(
      [
        say("", run("echo done >> effects.log"), spawn("Task one")),
        to("Task one", "", ASK, run("echo done >> effects.log")),
        { ...to("Task one", "blue"), expect: ["blue it is", "exit code 0"] },
        { ...say("painted"), expect: ["exit code 0", "blue"] },
      ],
      async (desk) => {
        const log = `${desk.project}/effects.log`;
        const effects = (): string => (existsSync(log) ? readFileSync(log, "utf8") : "");
        const id = await killAtQuestion(desk, () => effects() === "done\ndone\n");
        const ran = await desk.run(["resume", "--mode", "full", id, "blue it is"]);
        expect(ran).toMatchObject({ code: 0, stdout: "painted\n" });
        expect(effects()).toBe("done\ndone\n");
        expect(toldIn(desk, "Task one")[0]).toBe("blue it is");
        checkLedger(await ledgerOf(desk, id));
      },
    ));

  test("that is no answer waits until the question has one", () =>
    onDesk(
      [
        say("", ASK),
        { ...say("painted"), expect: ["nobody is there to answer"] },
        say("It was painted."),
      ],
      async (desk) => {
        const id = await killAtQuestion(desk);
        const ran = await desk.run(["resume", id, "/compact"]);
        expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining("a summary now")]);
        expect(toldIn(desk, "paint it")).toHaveLength(1);
      },
    ));
});
