import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { runUntil } from "./support/crash-task.ts";
import { type Desk, openDesk, threadOf } from "./support/dev.ts";
import { endOf, openScreen } from "./support/pty.ts";

const LIMIT_MS = 60_000;

const say = (text: string, ...calls: readonly [string, unknown][]): FixedStep => ({
  reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) },
});
const told = (expected: string): FixedStep => ({ ...say("ok"), expect: [expected] });
const write = (path: string): [string, unknown] => ["write", { path, text: "x\n" }];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "a\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

describe("going on", { timeout: LIMIT_MS }, () => {
  test("a session goes on in the mode of its last turn, unless it is given another", () =>
    onDesk(
      [
        say("ok"),
        say("", write("b.txt")),
        told("refused, nothing was done"),
        say("", write("b.txt")),
        told("written: "),
        say("", write("c.txt")),
        told("written: "),
      ],
      async (desk) => {
        const id = threadOf(await desk.run(["exec", "--json", "--mode", "plan", "x"]));
        expect((await desk.run(["resume", id, "more"])).code).toBe(3);
        expect((await desk.run(["resume", "--mode", "edits", id, "more"])).code).toBe(0);
        expect((await desk.run(["resume", id, "more"])).code).toBe(0);
      },
    ));

  test("on a terminal too", () =>
    onDesk(
      [say("ok"), say("", write("b.txt")), told("refused, nothing was done")],
      async (desk) => {
        const id = threadOf(await desk.run(["exec", "--json", "--mode", "plan", "x"]));
        const screen = openScreen(desk, ["resume", id, "more"]);
        expect(endOf(await screen.ended)).toEqual({ code: 3, isSane: true });
      },
    ));

  test("a session is announced once it has its prompt, and not before", () =>
    onDesk([say("ok"), say("ok")], async (desk) => {
      const exec = ["exec", "--json", "x"];
      const whole = await runUntil(desk, exec, { at: 1000, when: "after" });
      // The first run of all makes the database besides.
      const commits = whole.commits.filter(({ kind }) => kind !== "migrate");
      const at = 1 + commits.findIndex(({ kind }) => kind === "append");
      expect(at).toBeGreaterThan(0);
      const { ran } = await runUntil(desk, exec, { at, when: "before" });
      expect(ran).toMatchObject({ signal: "SIGKILL", stdout: "" });
      const listed = await desk.run(["sessions", "--json"]);
      const { id, state } = listed.lines[0];
      expect(state).toBe("new");
      const empty = await desk.run(["resume", id]);
      expect(empty).toMatchObject({ code: 2, stdout: "" });
      expect(empty.stderr).toBe(
        `dev: ${id}: the session has had no prompt yet\n  give a prompt: dev resume ${id} PROMPT\n`,
      );
      expect(await desk.run(["resume", id, "x"])).toMatchObject({ code: 0, stdout: "ok\n" });
    }));
});
