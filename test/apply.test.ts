import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { FixedStep } from "@dev/model/scripted";
import { beforeEach, describe, expect, test } from "vitest";
import { hasSandbox } from "./support/crash-process.ts";
import { type Desk, openDesk, read, threadOf } from "./support/dev.ts";
import { git, makeRepository } from "./support/repository.ts";

const LIMIT_MS = 60_000;
const APART = ["exec", "--json", "--mode", "full", "--cell", "bubblewrap"];

const say = (text: string, ...calls: readonly [string, unknown][]): FixedStep => ({
  reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) },
});
const write = (path: string, text: string): [string, unknown] => ["write", { path, text }];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "one\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

describe("work in a copy", { timeout: LIMIT_MS }, () => {
  beforeEach((context) => context.skip(!hasSandbox, "bubblewrap is not installed"));

  test("what was applied can be gone on with, and applied again", () =>
    onDesk(
      [
        say("", write("a.txt", "two\n"), write("new.txt", "two\n")),
        say("ok"),
        say("", write("a.txt", "three\n"), ["exec", { argv: ["rm", "new.txt"] }]),
        say("ok"),
        say("", write("a.txt", "four\n")),
        say("ok"),
      ],
      async (desk) => {
        const id = threadOf(await desk.run([...APART, "x"]));
        expect(await desk.run(["apply", id])).toMatchObject({
          code: 0,
          stdout: "a.txt\nnew.txt\n",
        });
        await desk.run(["resume", id, "more"]);
        expect(await desk.run(["apply", id])).toMatchObject({
          code: 0,
          stdout: "a.txt\nnew.txt\n",
        });
        expect(readdirSync(desk.project)).toEqual(["a.txt"]);
        expect(read(join(desk.project, "a.txt"))).toBe("three\n");
        await desk.run(["resume", id, "more"]);
        writeFileSync(join(desk.project, "a.txt"), "mine\n");
        const refused = await desk.run(["apply", id, "--json"]);
        expect(refused).toMatchObject({ code: 1, stderr: "" });
        expect(refused.lines).toMatchObject([{ type: "error", code: "changed" }]);
        expect(read(join(desk.project, "a.txt"))).toBe("mine\n");
      },
    ));

  test("the person's own git having written its index keeps nothing else out", () =>
    onDesk(
      [say("", write("a.txt", "two\n"), ["exec", { argv: ["git", "add", "a.txt"] }]), say("ok")],
      async (desk) => {
        makeRepository(desk.project);
        const id = threadOf(await desk.run([...APART, "x"]));
        writeFileSync(join(desk.project, "mine.txt"), "mine\n");
        git(desk.project, "add", "mine.txt");
        const applied = await desk.run(["apply", id]);
        expect(applied).toMatchObject({ code: 0, stdout: "a.txt\n" });
        expect(applied.stderr).toContain(".git/index: left out: your own git has written it since");
        expect(git(desk.project, "status", "--porcelain")).toBe(" M a.txt\nA  mine.txt\n");
      },
    ));

  test("what an apply that was killed left aside goes with the next", () =>
    onDesk([say("", write("a.txt", "two\n")), say("ok")], async (desk) => {
      const id = threadOf(await desk.run([...APART, "x"]));
      const { pid } = spawnSync("true");
      const holder = Buffer.from(`${hostname()}/${pid}/1`).toString("base64url");
      mkdirSync(join(desk.project, `.dev-apply-${holder}.abc123`));
      mkdirSync(join(desk.project, ".dev-apply-mine"));
      expect(await desk.run(["apply", id])).toMatchObject({ code: 0, stdout: "a.txt\n" });
      expect(readdirSync(desk.project).sort()).toEqual([".dev-apply-mine", "a.txt"]);
    }));

  test("a copy that was deleted with its snapshots is missed, by name", () =>
    onDesk([say("", write("a.txt", "two\n")), say("ok")], async (desk) => {
      const id = threadOf(await desk.run([...APART, "x"]));
      const tree = join(desk.home, "workspaces", id, "tree");
      for (const lost of [tree, join(desk.home, "snapshots")]) rmSync(lost, { recursive: true });
      for (const args of [
        ["diff", id],
        ["apply", id],
        ["resume", id, "more"],
      ]) {
        const ran = await desk.run(args);
        expect(ran).toMatchObject({ code: 1, stdout: "" });
        expect(ran.stderr).toContain(`${tree}: the session's own copy of the directory is gone`);
        expect(ran.stderr).toContain("begin a new session");
      }
      expect(desk.model.requests).toHaveLength(2);
    }));
});

test("a whole machine is not copied for a cell", () =>
  onDesk([], async (desk) => {
    const ran = await desk.run([...APART, "-C", "/", "x"]);
    expect(ran.code).toBe(2);
    expect(ran.lines).toMatchObject([
      { type: "error", code: "usage", mend: "name a directory below it with -C" },
    ]);
  }));

test("the whole machine can be worked in, in place", () =>
  onDesk([say("", ["exec", { argv: ["pwd"] }]), say("ok")], async (desk) => {
    expect(await desk.run(["exec", "-C", "/", "--mode", "full", "x"])).toMatchObject({ code: 0 });
    expect(desk.model.requests.at(-1)?.messages.at(-1)?.content).toMatch(/stdout:\n\/\n$/);
  }));
