import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FixedStep } from "@dev/model/scripted";
import { beforeEach, describe, expect, test } from "vitest";
import { hasSandbox } from "./support/crash-process.ts";
import { type Desk, openDesk, type Ran, read, threadOf } from "./support/dev.ts";

const LIMIT_MS = 120_000;
const APART = ["exec", "--json", "--mode", "full", "--cell", "bubblewrap"];

const say = (text: string, ...calls: readonly [string, unknown][]): FixedStep => ({
  reply: { text, calls: calls.map(([tool, given]) => ({ tool, arguments: given })) },
});
const write = (path: string, text: string): [string, unknown] => ["write", { path, text }];

async function onDesk(script: readonly FixedStep[], check: (desk: Desk) => Promise<void>) {
  const desk = await openDesk(script, { "a.txt": "one\n", "d/b.txt": "b\n" });
  try {
    await check(desk);
    expect(desk.model.errors).toEqual([]);
  } finally {
    await desk.close();
  }
}

const tree = (desk: Desk, id: string): string => join(desk.home, "workspaces", id, "tree");

type Line = { readonly number: number; readonly id: string; readonly cause: string };

async function checkpoints(desk: Desk, id: string): Promise<readonly Line[]> {
  const ran = await done(desk.run(["rewind", id, "--list", "--json"]));
  return ran.lines as readonly Line[];
}

async function done(running: Promise<Ran>): Promise<Ran> {
  const ran = await running;
  expect(ran, ran.stderr).toMatchObject({ code: 0 });
  return ran;
}

/** Two batches of effects in one turn. */
const TWO: readonly FixedStep[] = [
  say("", write("a.txt", "two\n"), write("new.txt", "new\n")),
  say("", ["exec", { argv: ["sh", "-c", "echo three > a.txt; rm new.txt"] }]),
  say("", ["read", { path: "a.txt" }]),
  say("ok"),
];

describe("checkpoints", { timeout: LIMIT_MS }, () => {
  beforeEach((context) => context.skip(!hasSandbox, "bubblewrap is not installed"));

  test("each batch of effects leaves one, and what only reads does not", () =>
    onDesk(TWO, async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const all = await checkpoints(desk, id);
      expect(all.map(({ cause }) => cause)).toEqual(["begin", "effects", "save"]);
      expect((await done(desk.run(["rewind", id]))).stdout.split("\n")).toHaveLength(4);
      const diff = await done(desk.run(["diff", id, "1", "2"]));
      expect(diff.stdout).toContain("-one\n+two\n");
      expect(diff.stdout).toContain("+new\n");
      const since = await done(desk.run(["diff", id, "2"]));
      expect(since.stdout).toContain("-two\n+three\n");
      expect(since.stdout).toContain("deleted file");
    }));

  test("a workspace is set back, by number and by id, and forward again", () =>
    onDesk(TWO, async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const [first, second] = await checkpoints(desk, id);
      const back = await done(desk.run(["rewind", id, "2", "--json"]));
      expect(read(join(tree(desk, id), "a.txt"))).toBe("two\n");
      expect(read(join(tree(desk, id), "new.txt"))).toBe("new\n");
      expect(back.lines).toMatchObject([{ id: second?.id, number: 2, writtenCount: 2 }]);
      const [{ undo }] = back.lines as [{ undo: string }];
      await done(desk.run(["rewind", id, first?.id.slice(0, 10) ?? ""]));
      expect(read(join(tree(desk, id), "a.txt"))).toBe("one\n");
      expect(existsSync(join(tree(desk, id), "new.txt"))).toBe(false);
      expect((await desk.run(["diff", id])).stderr).toContain("nothing has changed");
      await done(desk.run(["rewind", id, undo.slice(0, 12)]));
      expect(read(join(tree(desk, id), "a.txt"))).toBe("three\n");
      for (const [word, code] of [
        ["99", "not_found"],
        ["ffffffff", "not_found"],
        ["zzz", "usage"],
      ]) {
        const refused = await desk.run(["rewind", id, word ?? "", "--json"]);
        expect(refused.lines).toMatchObject([{ type: "error", code }]);
      }
    }));

  test("a workspace that is lost is rebuilt, with what was done in it", () =>
    onDesk([...TWO, say("", ["exec", { argv: ["cat", "a.txt"] }]), say("ok")], async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      rmSync(join(desk.home, "workspaces"), { recursive: true });
      // The person's own directory is another meanwhile: the base is what was taken.
      writeFileSync(join(desk.project, "d/b.txt"), "changed\n");
      const ran = await done(desk.run(["resume", id, "--mode", "full", "more"]));
      expect(ran.stderr).toContain("the workspace was rebuilt from its snapshot");
      expect(desk.model.requests.at(-1)?.messages.at(-1)?.content).toContain("three");
      const diff = await done(desk.run(["diff", id]));
      expect(diff.stdout).toContain("-one\n+three\n");
      expect(diff.stdout).not.toContain("b.txt");
      expect(await done(desk.run(["apply", id]))).toMatchObject({ stdout: "a.txt\n" });
    }));

  test("a fork goes on from a checkpoint, and leaves the one it is from alone", () =>
    onDesk([...TWO, say("", write("a.txt", "forked\n")), say("ok")], async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const forked = await done(desk.run(["fork", id, "3"]));
      const other = forked.stdout.trim();
      expect(other).not.toBe(id);
      await done(desk.run(["resume", other, "--mode", "full", "more"]));
      expect(read(join(tree(desk, other), "a.txt"))).toBe("forked\n");
      expect(read(join(tree(desk, id), "a.txt"))).toBe("three\n");
      // It remembers the conversation.
      const texts = desk.model.requests.at(-1)?.messages.map(({ content }) => content) ?? [];
      expect(texts).toContain("x");
      expect((await done(desk.run(["diff", other]))).stdout).toContain("-one\n+forked\n");
    }));

  test("a fork from the middle of a turn goes on with that turn", () =>
    onDesk([...TWO, say("done otherwise")], async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const { stdout } = await done(desk.run(["fork", id, "2"]));
      const ran = await done(desk.run(["resume", stdout.trim(), "--json"]));
      expect(ran.stdout).toContain("done otherwise");
      // It used no cell: its workspace is made when somebody looks.
      await done(desk.run(["diff", stdout.trim()]));
      expect(read(join(tree(desk, stdout.trim()), "a.txt"))).toBe("two\n");
      expect(read(join(tree(desk, stdout.trim()), "new.txt"))).toBe("new\n");
    }));

  test("a workspace goes out as a tar, and comes back as another session's", () =>
    onDesk([...TWO, say("", ["exec", { argv: ["cat", "a.txt"] }]), say("ok")], async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const file = join(desk.root, "out.tar");
      await done(desk.run(["export", id, file]));
      const listed = spawnSync("tar", ["-tf", file], { encoding: "utf8" });
      expect(listed.stdout.split("\n").sort().join(" ")).toBe(" a.txt d/ d/b.txt");
      await done(desk.run(["export", id, file, "2", "--json"]));
      const second = spawnSync("tar", ["-xOf", file, "a.txt"], { encoding: "utf8" });
      expect(second.stdout).toBe("two\n");
      const imported = await done(desk.run(["import", file]));
      const other = imported.stdout.trim();
      await done(desk.run(["resume", other, "--mode", "full", "look"]));
      expect(desk.model.requests.at(-1)?.messages.at(-1)?.content).toContain("two");
      const missing = await desk.run(["import", join(desk.root, "none.tar"), "--json"]);
      expect(missing.lines).toMatchObject([{ type: "error", code: "io" }]);
      const nowhere = await desk.run(["export", id, join(desk.root, "no/such/x.tar"), "--json"]);
      expect(nowhere.lines).toMatchObject([{ type: "error", code: "io" }]);
    }));

  test("gc keeps all that a session can go back to", () =>
    onDesk(TWO, async (desk) => {
      const id = threadOf(await done(desk.run([...APART, "x"])));
      const swept = await done(desk.run(["gc", "--json"]));
      expect(swept.lines).toMatchObject([
        { snapshotCount: 3, missing: [], condemnedCount: 0, deletedCount: 0 },
      ]);
      expect((await done(desk.run(["gc"]))).stderr).toContain("3 snapshots");
      for (const number of ["1", "2", "3"]) await done(desk.run(["rewind", id, number]));
      expect(readdirSync(join(desk.home, "snapshots"))).toContain("packs");
    }));
});

test("a session in the person's own directory has none, and says so", { timeout: LIMIT_MS }, () =>
  onDesk([say("", write("a.txt", "two\n")), say("ok")], async (desk) => {
    const id = threadOf(await done(desk.run(["exec", "--json", "--mode", "full", "x"])));
    expect((await done(desk.run(["rewind", id]))).stderr).toContain("works in your own directory");
    for (const args of [
      ["rewind", id, "1"],
      ["fork", id],
      ["diff", id, "1"],
      ["export", id, "x.tar"],
    ]) {
      const refused = await desk.run([...args, "--json"]);
      expect(refused.lines).toMatchObject([{ type: "error", code: "usage" }]);
      expect(refused.code).toBe(2);
    }
    expect(existsSync(join(desk.home, "snapshots"))).toBe(false);
  }),
);
