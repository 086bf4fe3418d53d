import { spawnSync } from "node:child_process";
import type { FixedStep } from "@dev/model/scripted";
import { describe, expect, test } from "vitest";
import { DEV, type Desk, type Line, openDesk, threadOf } from "./support/dev.ts";

const LIMIT_MS = 60_000;
const NOWHERE = "s_01m8pr4jzahc8dgk6zwv43qhf2";

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, {});
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

const itemsOf = (lines: readonly Line[], type: string): readonly Line[] =>
  lines.filter((line) => line.type === type).map((line) => line.item);

describe("what is printed", { timeout: LIMIT_MS }, () => {
  test("with --json, reasoning that ends is completed", () =>
    onDesk([{ reply: { reasoning: "hm", text: "ok" } }], async (desk) => {
      const { lines } = await desk.run(["exec", "--json", "x"]);
      expect(itemsOf(lines, "item.completed")).toMatchObject([
        { type: "reasoning", status: "completed", text: "hm" },
        { type: "agent_message", status: "completed", text: "ok" },
      ]);
    }));

  test("with --json, a message that is cut off is completed as failed, with what had come", () => {
    const text = "half of an answer that goes on for a while";
    const cut = { kind: "cut", bytes: 400, reply: { reasoning: "hm", text } } as const;
    return onDesk([{ fault: cut }], async (desk) => {
      const { lines, code } = await desk.run(["exec", "--json", "x"]);
      expect(code).toBe(1);
      const ids = (type: string) => itemsOf(lines, type).map(({ id }) => id);
      expect(ids("item.started").length).toBeGreaterThan(0);
      expect(ids("item.completed")).toEqual(ids("item.started"));
      for (const item of itemsOf(lines, "item.completed")) {
        expect(item.status).toBe("failed");
        const deltas = itemsOf(lines, "item.updated").filter(({ id }) => id === item.id);
        expect(item.text).toBe(deltas.map(({ delta }) => delta).join(""));
      }
      expect(lines.at(-1).type).toBe("turn.failed");
    });
  });

  test.each([
    ["ledger", [NOWHERE], "unknown_id"],
    ["diff", [NOWHERE], "unknown_id"],
    ["apply", ["nothing"], "usage"],
    ["resume", [NOWHERE], "unknown_id"],
    ["sessions", ["--mode", "ask"], "usage"],
    ["doctor", ["--verbose"], "usage"],
    ["exec", ["--mode", "yolo", "x"], "usage"],
  ])("with --json, what `dev %s` could not do is an object on stdout", (name, rest, code) =>
    onDesk([], async (desk) => {
      const ran = await desk.run([name, "--json", ...rest]);
      expect(ran).toMatchObject({ code: 2, stderr: "" });
      expect(ran.lines).toMatchObject([{ type: "error", code }]);
    }),
  );

  test("with --json, a store that cannot be read is an object on stdout", () =>
    onDesk([], async (desk) => {
      const env = { env: { DEV_HOME: "/dev/null/home" } };
      const ran = await desk.run(["sessions", "--json"], env);
      expect(ran).toMatchObject({ code: 2, stderr: "" });
      expect(ran.lines).toMatchObject([{ type: "error", code: "config" }]);
    }));

  test("the ledger says why a model call failed", () =>
    onDesk([{ fault: { kind: "status", status: 400 } }], async (desk) => {
      const id = threadOf(await desk.run(["exec", "--json", "x"]));
      const { stdout } = await desk.run(["ledger", id]);
      expect(stdout).toMatch(/ {2}completed {3}failed: HTTP 400/);
      expect(stdout).not.toContain("0 tokens");
    }));

  test("an output that has no room is told in one line", () =>
    onDesk([], async (desk) => {
      for (const words of ["help", "help exec"]) {
        const command = `${process.execPath} ${DEV} ${words} > /dev/full`;
        const env = { PATH: process.env.PATH, DEV_HOME: desk.home };
        const ran = spawnSync("sh", ["-c", command], { env, encoding: "utf8" });
        expect(ran.status).toBe(1);
        expect(ran.stderr).toMatch(/^dev: the output cannot be written: ENOSPC: .*\n$/);
      }
    }));
});
