import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { type Desk, openDesk, read, threadOf } from "./support/dev.ts";
import { endOf, openScreen } from "./support/pty.ts";

const LIMIT_MS = 60_000;
const say = (text: string): FixedStep => ({ reply: { text, calls: [] } });

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "alpha\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

describe("a shell in a session's cell", { timeout: LIMIT_MS }, () => {
  test("is a terminal in the workspace, whose end is the command's", () =>
    onDesk([say("ok")], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "x"]));
      const screen = openScreen(desk, ["shell", id]);
      screen.type("cat a.txt; echo made > b.txt; test -t 0 && echo $((40 + 2))\r");
      expect(await screen.sees("42\r")).toContain("alpha\r");
      screen.type("exit 5\r");
      expect(endOf(await screen.ended)).toEqual({ code: 5, isSane: true });
      expect(read(join(desk.project, "b.txt"))).toBe("made\n");
    }));

  test("works in a cell of its own as well, and nothing of it is left", () =>
    onDesk([say("ok")], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "--cell", "bubblewrap", "x"]));
      const screen = openScreen(desk, ["shell", id, "--", "sh", "-c", "pwd; hostname; stty size"]);
      const seen = await screen.sees("\ncell\r");
      expect(seen).toContain("/workspace\r");
      expect(endOf(await screen.ended)).toMatchObject({ code: 0, isSane: true });
    }));

  test("is refused while another drives the session, and for one that is not there", () =>
    onDesk([say("ok")], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "x"]));
      const screen = openScreen(desk, ["shell", id]);
      screen.type("echo $((40 + 2))\r");
      await screen.sees("42\r");
      const second = await desk.run(["shell", id, "--", "true"]);
      expect(second.code).not.toBe(0);
      expect(second.stderr).toContain("another process has driven this session");
      screen.type("exit\r");
      expect(endOf(await screen.ended)).toMatchObject({ code: 0 });
      const unknown = await desk.run(["shell", "s_00000000000000000000000000"]);
      expect(unknown.code).not.toBe(0);
    }));

  test("reads a pipe where there is no terminal", () =>
    onDesk([say("ok")], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "x"]));
      writeFileSync(join(desk.project, "words"), "one\n");
      const ran = await desk.run(["shell", id, "--", "wc", "-l", "words"]);
      expect(ran).toMatchObject({ code: 0 });
      expect(ran.stdout).toContain("1 words");
    }));
});
