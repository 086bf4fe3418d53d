import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import {
  type ApplyPlace,
  applyChanges,
  changes,
  type Taken,
  type TreeChange,
} from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { during, readBrought, writeBrought } from "../src/brought.ts";
import type { Change } from "../src/change.ts";
import { compared, draw, must, place, type Sketch, seen, take, touch, touches } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const isChange = (one: TreeChange): one is Change => one.kind !== "skipped";

const placed = (taken: Taken, holder = "me"): ApplyPlace => ({
  base: taken.manifest,
  tree: here.at("tree"),
  target: here.at("from"),
  record: here.at("applied.json"),
  holder,
  isAlive: (other) => other !== "dead",
});

const bring = async (taken: Taken) =>
  applyChanges(await compared(taken, here.at("tree")), placed(taken));

/** Takes a tree as it is drawn, and draws its workspace anew. */
async function worked(before: Sketch, after: Sketch): Promise<Taken> {
  draw(here.at("from"), before);
  const taken = await take(here);
  for (const name of readdirSync(here.at("tree"))) {
    rmSync(`${here.at("tree")}/${name}`, { recursive: true });
  }
  draw(here.at("tree"), after);
  return taken;
}

test("the holes of a sparse file take no room where it is brought to", async () => {
  const taken = await worked({}, { sparse: "head" });
  truncateSync(here.at("tree/sparse"), 64 * 1024 * 1024);
  expect(must(await bring(taken)).written).toEqual(["sparse"]);
  expect(statSync(here.at("from/sparse")).size).toBe(64 * 1024 * 1024);
  expect(statSync(here.at("from/sparse")).blocks * 512).toBeLessThan(4 * 1024 * 1024);
});

test("what is brought back makes the same tree, and a second time does nothing", async () => {
  await fc.assert(
    fc.asyncProperty(touches, touches, async (drawn, work) => {
      here.clear();
      here = place();
      draw(here.at("from"), {});
      touch(here.at("from"), drawn);
      const taken = await take(here);
      touch(here.at("tree"), work);
      const found = await compared(taken, here.at("tree"));
      const first = must(await applyChanges(found, placed(taken)));
      expect(seen(here.at("from"))).toEqual(seen(here.at("tree")));
      expect(first.written).toHaveLength(found.length);
      const second = must(await applyChanges(found, placed(taken)));
      expect(second.written).toEqual([]);
      expect(second.already).toEqual(first.written);
    }),
    { numRuns: 60 },
  );
});

test("each kind of change is told apart", async () => {
  const taken = await worked(
    { same: "=", text: "1", mode: "x", "gone/f": "x", link: "->a", kind: "file" },
    { same: "=", text: "2", mode: "x", new: "x", link: "->b", "kind/f": "inside" },
  );
  chmodSync(here.at("tree/mode"), 0o755);
  const found = await compared(taken, here.at("tree"));
  expect(found.map(({ kind, path }) => `${kind} ${path}`)).toEqual([
    "deleted gone",
    "deleted gone/f",
    "modified kind",
    "added kind/f",
    "symlink link",
    "mode mode",
    "added new",
    "modified text",
  ]);
  must(await applyChanges(found, placed(taken)));
  expect(seen(here.at("from"))).toEqual(seen(here.at("tree")));
});

test("one place that changed meanwhile, and nothing is written", async () => {
  const taken = await worked(
    { a: "1", b: "1", "d/f": "1", c: "1" },
    { a: "2", b: "2", "d/f": "2", new: "x" },
  );
  writeFileSync(here.at("from/b"), "mine");
  writeFileSync(here.at("from/new"), "mine");
  rmSync(here.at("from/d"), { recursive: true });
  const before = seen(here.at("from"));
  const applied = await bring(taken);
  expect(applied).toMatchObject({ ok: false, fault: { code: "changed" } });
  expect(applied.ok ? "" : applied.fault.message).toContain('"b", "d/f", "new"');
  expect(seen(here.at("from"))).toEqual(before);
});

test("what the person has done in the same way is no conflict", async () => {
  const taken = await worked({ a: "1", gone: "x" }, { a: "2", "d/f": "new" });
  writeFileSync(here.at("from/a"), "2");
  rmSync(here.at("from/gone"));
  mkdirSync(here.at("from/d"), { mode: 0o700 });
  const applied = must(await bring(taken));
  expect(applied).toMatchObject({ written: ["d/f"], already: ["a", "d", "gone"] });
});

test("a directory with something new of the person's stays, without what was removed", async () => {
  const taken = await worked({ "d/e/f": "1", "d/g": "1" }, {});
  writeFileSync(here.at("from/d/e/mine"), "x");
  const applied = must(await bring(taken));
  expect(applied).toMatchObject({ kept: ["d", "d/e"], written: ["d/e/f", "d/g"] });
  expect(Object.keys(seen(here.at("from")))).toEqual(["d", "d/e", "d/e/mine"]);
  expect(must(await bring(taken)).written).toEqual([]);
});

test("a file does not take the place of a directory that holds something of the person's", async () => {
  const taken = await worked({ "d/f": "1" }, { d: "file" });
  writeFileSync(here.at("from/d/mine"), "x");
  const applied = await bring(taken);
  expect(applied).toMatchObject({ ok: false, fault: { code: "changed" } });
  expect(applied.ok ? "" : applied.fault.message).toContain('"d/mine"');
  expect(Object.keys(seen(here.at("from")))).toEqual(["d", "d/f", "d/mine"]);
});

test("nothing is written through a symlink", async () => {
  const taken = await worked({ "d/f": "1" }, { "d/f": "2", "d/new": "x" });
  draw(here.at("outside"), { f: "1" });
  rmSync(here.at("from/d"), { recursive: true });
  symlinkSync(here.at("outside"), here.at("from/d"));
  expect(await bring(taken)).toMatchObject({ ok: false, fault: { code: "changed" } });
  expect(Object.keys(seen(here.at("outside")))).toEqual(["f"]);
});

test("a workspace file that was written to after the comparison is not brought", async () => {
  const taken = await worked({ a: "1" }, { a: "2", b: "2" });
  const found = await compared(taken, here.at("tree"));
  writeFileSync(here.at("tree/b"), "3");
  const before = seen(here.at("from"));
  const applied = await applyChanges(found, placed(taken));
  expect(applied).toMatchObject({ ok: false, fault: { code: "changed", subject: "b" } });
  expect(seen(here.at("from"))).toEqual(before);
});

test("what could make the person's git run a program is held back", async () => {
  const repository = {
    ".git/config": "[core]\n",
    ".git/HEAD": "ref: a\n",
    ".git/objects/aa/b": "1",
  };
  const taken = await worked(repository, {
    ".git/config": "[core]\nfsmonitor = evil\n",
    ".git/HEAD": "ref: b\n",
    ".git/objects/aa/b": "1",
    ".git/objects/cc/d": "2",
    ".git/objects/info/alternates": "/elsewhere",
    ".git/hooks/pre-commit": "evil",
    ".git/refs/heads/b": "2",
    "sub/.GIT/config": "evil",
    "sub/.git": "gitdir: /elsewhere",
    "link/.git": "->../evil",
  });
  const applied = must(await bring(taken));
  expect(applied.held).toEqual([
    ".git/config",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/objects/info",
    ".git/objects/info/alternates",
    "link/.git",
    "sub/.GIT/config",
    "sub/.git",
  ]);
  const now = seen(here.at("from"));
  expect(now[".git/config"]).toContain(Buffer.from("[core]\n").toString("hex"));
  expect(now[".git/HEAD"]).toContain(Buffer.from("ref: b\n").toString("hex"));
  expect(Object.keys(now)).toContain(".git/refs/heads/b");
});

test("a repository is not removed piece by piece around what is held back", async () => {
  const taken = await worked({ ".git/config": "c", ".git/HEAD": "h", f: "x" }, {});
  const applied = must(await bring(taken));
  expect(applied.held).toEqual([".git", ".git/config"]);
  expect(Object.keys(seen(here.at("from")))).toContain(".git/config");
});

test("what is brought in parts, and partly taken back, makes the same tree each time", async () => {
  await fc.assert(
    fc.asyncProperty(touches, touches, touches, async (drawn, work, more) => {
      here.clear();
      here = place();
      draw(here.at("from"), {});
      touch(here.at("from"), drawn);
      const taken = await take(here);
      for (const part of [work, more]) {
        touch(here.at("tree"), part);
        must(await bring(taken));
        const [mine, theirs] = [seen(here.at("from")), seen(here.at("tree"))];
        expect(mine).toEqual(theirs);
      }
    }),
    { numRuns: 60 },
  );
});

test("what an apply brought may be brought anew, and what the person made of it stays", async () => {
  const taken = await worked({ a: "1", b: "1", gone: "x" }, { a: "2", b: "2", new: "2" });
  must(await bring(taken));
  draw(here.at("tree"), { a: "3", b: "3", new: "3", gone: "x" });
  writeFileSync(here.at("from/b"), "mine");
  const refused = await bring(taken);
  expect(refused.ok ? "" : refused.fault.message).toMatch(/so nothing was written: "b"$/);
  writeFileSync(here.at("from/b"), "2");
  expect(must(await bring(taken)).written).toEqual(["a", "b", "gone", "new"]);
  expect(seen(here.at("from"))).toEqual(seen(here.at("tree")));
  rmSync(here.at("tree/new"));
  writeFileSync(here.at("tree/a"), "1");
  expect(must(await bring(taken)).written).toEqual(["a", "new"]);
  expect(seen(here.at("from"))).toEqual(seen(here.at("tree")));
});

test.each([
  ["another", { a: "4", b: "4" }],
  ["the base's own", { a: "1", b: "1" }],
])("an apply that was cut off is no obstacle to one of %s content", async (_, next) => {
  const taken = await worked({ a: "1", b: "1" }, { a: "2", b: "2" });
  must(await bring(taken));
  draw(here.at("tree"), { a: "3", b: "3" });
  // As it stands when a process dies between two places.
  const found = (await compared(taken, here.at("tree"))).filter(isChange);
  const record = here.at("applied.json");
  must(await writeBrought(record, during(must(readBrought(record)), found)));
  writeFileSync(here.at("from/a"), "3");
  draw(here.at("tree"), next);
  expect(must(await bring(taken)).written).toEqual(["a", "b"]);
  expect(seen(here.at("from"))).toEqual(seen(here.at("tree")));
});

test("a record of a later Dev, or a damaged one, stops an apply before it writes", async () => {
  const taken = await worked({ a: "1" }, { a: "2" });
  const before = seen(here.at("from"));
  for (const [text, code] of [
    ['{"format":2,"entries":[]}', "newer_version"],
    ['{"format":1,"entries":[["../a",[null]]]}', "corrupt"],
    ["{", "corrupt"],
  ] as const) {
    writeFileSync(here.at("applied.json"), text);
    expect(await bring(taken)).toMatchObject({ ok: false, fault: { code } });
  }
  expect(seen(here.at("from"))).toEqual(before);
});

test("an index that the person's git has written since is left out, and all else is brought", async () => {
  const base = { ".git/HEAD": "a", ".git/index": "1", f: "1" };
  const taken = await worked(base, { ".git/HEAD": "a", ".git/index": "2", f: "2" });
  writeFileSync(here.at("from/.git/index"), "mine");
  const applied = must(await bring(taken));
  expect(applied).toMatchObject({ indexes: [".git/index"], written: ["f"], held: [] });
  expect(readFileSync(here.at("from/.git/index"), "utf8")).toBe("mine");
  writeFileSync(here.at("from/.git/index"), "1");
  expect(must(await bring(taken))).toMatchObject({ indexes: [], written: [".git/index"] });
});

test("what a dead apply left aside is removed, and only that", async () => {
  const taken = await worked({ a: "1" }, { a: "2" });
  const name = (holder: string, end: string) =>
    `.dev-apply-${Buffer.from(holder).toString("base64url")}.${end}`;
  const kept = [name("alive", "abc123"), ".dev-apply-abc123", ".dev-apply-mine.abc123"];
  draw(here.at("outside"), { f: "x" });
  draw(here.at("from"), {
    [`${name("dead", "abc123")}/0`]: "half of it",
    [name("dead", "empty1")]: null,
    [name("dead", "file12")]: "mine",
    [name("dead", "link12")]: "->../outside",
    ...Object.fromEntries(kept.map((each) => [each, null])),
  });
  must(await bring(taken));
  const stays = [...kept, name("dead", "file12"), name("dead", "link12"), "a"];
  expect(readdirSync(here.at("from")).sort()).toEqual(stays.sort());
  expect(Object.keys(seen(here.at("outside")))).toEqual(["f"]);
});

test("a workspace that swaps directories for symlinks shows nothing of the machine", async () => {
  draw(here.at("from"), { "d/f": "inside" });
  draw(here.at("outside"), { f: "secret", g: "secret" });
  const taken = await take(here);
  const old = { ...taken.manifest, takenNs: 0n };
  cpSync(here.at("tree/d"), here.at("spare"), { recursive: true });
  const swap = `
    const { renameSync, symlinkSync, unlinkSync } = require("node:fs");
    const [d, spare, outside] = process.argv.slice(1);
    process.stdout.write("go");
    for (;;) {
      renameSync(d, d + ".aside"); symlinkSync(outside, d);
      unlinkSync(d); renameSync(d + ".aside", d);
    }`;
  const args = ["-e", swap, here.at("tree/d"), here.at("spare"), here.at("outside")];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  if (child.stdout !== null) await once(child.stdout, "data");
  const told = new Set<string>();
  for (let round = 0; round < 500; round++) {
    for (const change of must(await changes(old, here.at("tree")))) {
      told.add(`${change.kind} ${change.path}`);
      const node = "after" in change ? change.after : null;
      expect(node?.kind === "file" && node.digest).not.toBe(SECRET);
      expect(change.path).not.toMatch(/g$/);
    }
  }
  child.kill("SIGKILL");
  await once(child, "exit");
  // The swaps were seen: the test looked while they went on.
  expect(told.size).toBeGreaterThan(0);
});

// SHA-256 of "secret".
const SECRET = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
