import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { createServer } from "node:net";
import {
  directoryBlobs,
  parseSnapshotId,
  READ_TRY_LIMIT,
  restoreSnapshot,
  TREE_LIMITS,
  takeSnapshot,
} from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesSeen, deeds, LOOKING, perform, restoring, studio } from "./snapshot.ts";
import { draw, must, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const LIMIT_MS = 120_000;

test("any tree comes back as it was, or what does not is listed", {
  timeout: LIMIT_MS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(deeds, deeds, async (first, second) => {
      here.clear();
      here = place();
      const { tree, take, restore } = studio(here);
      perform(tree, first);
      const one = await take();
      const before = bytesSeen(tree);
      perform(tree, second);
      const two = await take();
      const after = bytesSeen(tree);
      must(await restore(one.id, here.at("out")));
      expect(kept(bytesSeen(here.at("out")))).toEqual(kept(before));
      // Onto what holds something else already, and back.
      must(await restore(two.id, here.at("out")));
      expect(kept(bytesSeen(here.at("out")))).toEqual(kept(after));
      expect(one.skipped.map(({ why }) => why)).toEqual(one.skipped.map(() => "fifo"));
      expect(one.skipped).toHaveLength(
        Object.keys(before).length - Object.keys(kept(before)).length,
      );
      expect(two.id === one.id).toBe(same(before, after));
    }),
    { numRuns: 60 },
  );
});

/** Without what no snapshot keeps. */
function kept(seen: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(seen).filter(([, what]) => what !== "special"));
}

function same(one: Record<string, string>, other: Record<string, string>): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

test("an id says what is in the tree, and not where it is or when it was taken", async () => {
  const { take, tree, restore } = studio(here);
  draw(tree, { "a/b": "one", c: "->a", d: null });
  const first = await take(1);
  must(await restore(first.id, here.at("other")));
  const objects = await studio(here).open();
  const options = { ...LOOKING, cache: null, nowMs: 2 };
  const again = must(await takeSnapshot(objects, here.at("other"), options));
  expect(again.id).toBe(first.id);
  expect(again.writtenBytes).toBe(0);
  expect(must(parseSnapshotId(first.id))).toBe(first.id);
  expect(parseSnapshotId("abc")).toMatchObject({ ok: false, fault: { code: "usage" } });
});

test("only what changed is read, and only new content is written", async () => {
  const { take, tree } = studio(here);
  const text = (nth: number): string => `${nth}\n`.repeat(100);
  for (let nth = 0; nth < 50; nth++) draw(tree, { [`d${nth % 5}/f${nth}`]: text(nth) });
  // What is so new that a later write could bear the same time is read again.
  const past = (path: string): void => utimesSync(`${tree}/${path}`, 1_000, 1_000);
  const first = await take();
  expect(first).toMatchObject({ entryCount: 55, readCount: 50 });
  await settled(here.at("clock"), `${tree}/d0/f0`);
  await take();
  const still = await take();
  expect(still).toMatchObject({ id: first.id, readCount: 0, writtenBytes: 0 });
  appendFileSync(`${tree}/d0/f0`, "x");
  const third = await take();
  expect(third.readCount).toBe(1);
  expect(third.writtenBytes).toBeLessThan(2_000);
  // The same size and mtime: the ctime tells.
  past("d1/f1");
  await take();
  writeFileSync(`${tree}/d1/f1`, text(1).replaceAll("1", "7"));
  past("d1/f1");
  expect((await take()).id).not.toBe(third.id);
});

/** Waits, by the file system's own clock, until a file is older than what is looked at again. */
async function settled(clock: string, file: string): Promise<void> {
  for (;;) {
    writeFileSync(clock, "");
    if (statSync(clock).mtimeMs - statSync(file).ctimeMs > 200) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("a file that is swapped for another with its times and size is read", async () => {
  const { take, tree } = studio(here);
  draw(tree, { a: "one", b: "two" });
  for (const file of ["a", "b"]) utimesSync(`${tree}/${file}`, 5, 5);
  await settled(here.at("clock"), `${tree}/b`);
  await take();
  const before = await take();
  renameSync(`${tree}/a`, `${tree}/c`);
  renameSync(`${tree}/b`, `${tree}/a`);
  renameSync(`${tree}/c`, `${tree}/b`);
  const after = await take();
  expect(after.id).not.toBe(before.id);
});

test("a long file is kept in pieces, and only the piece that changed is written", async () => {
  const { take, tree, restore } = studio(here);
  mkdirSync(tree, { recursive: true });
  const content = Buffer.alloc(5 * 1024 * 1024 + 3);
  for (let at = 0; at < content.length; at += 97) content[at] = at % 251;
  writeFileSync(`${tree}/big`, content);
  const first = await take();
  expect(first.writtenBytes).toBeGreaterThan(content.length);
  content[3 * 1024 * 1024] = 255;
  writeFileSync(`${tree}/big`, content);
  const second = await take();
  expect(second.writtenBytes).toBeLessThan(1.1 * 1024 * 1024);
  must(await restore(second.id, here.at("out")));
  expect(readFileSync(here.at("out/big")).equals(content)).toBe(true);
});

test("a sparse file is stored without its holes, and restored with them", async () => {
  const { take, tree, restore } = studio(here);
  mkdirSync(tree, { recursive: true });
  const fd = openSync(`${tree}/sparse`, "w");
  writeSync(fd, "head", 0);
  ftruncateSync(fd, 64 * 1024 * 1024);
  writeSync(fd, "tail", 64 * 1024 * 1024 - 4);
  closeSync(fd);
  const taken = await take();
  expect(taken.sizeBytes).toBe(64 * 1024 * 1024);
  expect(taken.writtenBytes).toBeLessThan(3 * 1024 * 1024);
  must(await restore(taken.id, here.at("out")));
  const [was, is] = [readFileSync(`${tree}/sparse`), readFileSync(here.at("out/sparse"))];
  expect(is.equals(was)).toBe(true);
  expect(statSync(here.at("out/sparse")).blocks * 512).toBeLessThan(4 * 1024 * 1024);
});

test("a file that changes each time it is read is listed, and one that stops is kept", async () => {
  const { take, tree } = studio(here);
  mkdirSync(tree, { recursive: true });
  writeFileSync(`${tree}/restless`, Buffer.alloc(900_000, 1));
  const script = `const fs = require("fs"); const fd = fs.openSync(process.argv[1], "r+");
    process.stdout.write("ready"); for (;;) fs.writeSync(fd, "x", 0);`;
  const writer = spawn(process.execPath, ["-e", script, `${tree}/restless`]);
  try {
    await once(writer.stdout, "data");
    const taken = await take();
    // On a machine that is busy enough the writer may stand still for as long as one reading takes.
    const isListed = taken.skipped.some(
      ({ path, why }) => path === "restless" && why === "changing",
    );
    expect(isListed || taken.readCount <= READ_TRY_LIMIT).toBe(true);
  } finally {
    writer.kill("SIGKILL");
    await once(writer, "exit");
  }
  const after = await take();
  expect(after).toMatchObject({ skipped: [], entryCount: 1 });
});

test("what cannot be kept is listed with the reason, and left alone by a restore", async () => {
  const { take, tree, restore } = studio(here);
  draw(tree, { a: "one", "d/x": "x" });
  const server = createServer().listen(`${tree}/socket`);
  await once(server, "listening");
  try {
    const taken = await take();
    expect(taken.skipped).toEqual([{ path: "socket", why: "socket" }]);
    writeFileSync(`${tree}/a`, "two");
    must(await restore(taken.id, tree));
    expect(lstatSync(`${tree}/socket`).isSocket()).toBe(true);
    expect(readFileSync(`${tree}/a`, "utf8")).toBe("one");
  } finally {
    server.close();
  }
});

test("what may not be read is listed, and not taken for empty", async () => {
  const { take, tree } = studio(here);
  draw(tree, { a: "one", "d/x": "x" });
  for (const path of ["a", "d"]) chmodSync(`${tree}/${path}`, 0);
  const isRoot = process.geteuid?.() === 0;
  // Root may read all: it is someone else for as long as this takes.
  if (isRoot) execFileSync("chown", ["-R", "65534", here.at("")]);
  if (isRoot) process.seteuid?.(65_534);
  try {
    expect((await take()).skipped).toEqual([
      { path: "a", why: "unreadable" },
      { path: "d", why: "unreadable" },
    ]);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test("what lies too deep is listed", async () => {
  const { take, tree } = studio(here);
  mkdirSync(`${tree}/${"d/".repeat(140)}`, { recursive: true });
  const { skipped, entryCount } = await take();
  expect(skipped).toMatchObject([{ why: "depth" }]);
  expect(entryCount).toBe(129);
});

test("above the limits nothing is taken", async () => {
  const { tree, open } = studio(here);
  draw(tree, { a: "one", b: "two" });
  for (const limits of [
    { ...TREE_LIMITS, entryCount: 1 },
    { ...TREE_LIMITS, sizeBytes: 5 },
  ]) {
    const options = { ...LOOKING, limits, cache: null, nowMs: 1 };
    const taken = await takeSnapshot(await open(), tree, options);
    expect(taken).toMatchObject({ ok: false, fault: { code: "limit" } });
  }
});

test("the workspace's own repository is kept, and no program of its is run", async () => {
  const { take, tree, restore } = studio(here);
  draw(tree, {
    ".git/config": `[core]\n\tfsmonitor = touch ${here.at("ran")}\n`,
    ".git/HEAD": "x",
  });
  const taken = await take();
  must(await restore(taken.id, here.at("out")));
  expect(readFileSync(here.at("out/.git/HEAD"), "utf8")).toBe("x");
  expect(existsSync(here.at("ran"))).toBe(false);
});

test("a symlink in a directory's place leads neither a scan nor a restore out", async () => {
  const { take, tree, restore } = studio(here);
  draw(here.at("outside"), { secret: "s" });
  draw(tree, { "d/secret": "inside" });
  const taken = await take();
  rmSync(`${tree}/d`, { recursive: true });
  symlinkSync(here.at("outside"), `${tree}/d`);
  const second = await take();
  expect(second).toMatchObject({ entryCount: 1 });
  must(await restore(taken.id, tree));
  expect(readFileSync(here.at("outside/secret"), "utf8")).toBe("s");
  expect(lstatSync(`${tree}/d`).isDirectory()).toBe(true);
  expect(readFileSync(`${tree}/d/secret`, "utf8")).toBe("inside");
});

test("a restore writes only what differs", async () => {
  const { take, tree, open } = studio(here);
  for (let nth = 0; nth < 40; nth++) draw(tree, { [`d${nth % 4}/f${nth}`]: `${nth}` });
  const { id } = await take();
  writeFileSync(`${tree}/d0/f0`, "other");
  draw(tree, { "d1/more": "x" });
  const inode = statSync(`${tree}/d2/f2`).ino;
  const restored = must(await restoreSnapshot(await open(), id, tree, restoring()));
  expect(restored).toMatchObject({ writtenCount: 1, removedCount: 1 });
  expect(statSync(`${tree}/d2/f2`).ino).toBe(inode);
  expect((await take()).id).toBe(id);
});

test("a damaged object is never handed out", async () => {
  const { take, tree, restore } = studio(here);
  draw(tree, { a: "some content", b: "other content" });
  const { id } = await take();
  const [pack = ""] = readdirSync(here.at("store/packs"));
  const path = here.at(`store/packs/${pack}`);
  chmodSync(path, 0o600);
  const bytes = readFileSync(path);
  bytes[bytes.indexOf("some content")] = 0;
  writeFileSync(path, bytes);
  const restored = await restore(id, here.at("out"));
  expect(restored).toMatchObject({
    ok: false,
    fault: { code: "corrupt", subject: `packs/${pack}` },
  });
  expect(existsSync(here.at("out/a"))).toBe(false);
  expect(readdirSync(here.at("out"))).toEqual([]);
});

test("what was in a pack that was lost is written anew, and not counted on", async () => {
  const { take, tree, restore, open } = studio(here);
  draw(tree, { a: "some content", b: "other content" });
  const { id } = await take();
  const [pack = ""] = readdirSync(here.at("store/packs"));
  const objects = await open();
  rmSync(here.at(`store/packs/${pack}`));
  expect(await restore(id, here.at("out"))).toMatchObject({ ok: false });
  // Who looked before sees it too, the next time.
  must(await objects.refresh());
  expect(objects.packs()).toMatchObject([{ name: pack, isLost: true }]);
  expect(await take(2_000)).toMatchObject({ id });
  must(await restore(id, here.at("out")));
  expect(readFileSync(here.at("out/a"), "utf8")).toBe("some content");
});

test("a snapshot that is not there is missed, by its id", async () => {
  const { restore } = studio(here);
  const id = must(parseSnapshotId("a".repeat(64)));
  const restored = await restore(id, here.at("out"));
  expect(restored).toMatchObject({ ok: false, fault: { code: "not_found", subject: id } });
});

test("two that take snapshots at once both have theirs", async () => {
  const blobs = directoryBlobs(here.at("store"));
  const both = [0, 1].map((nth) => {
    const own = {
      ...here,
      at: (name: string) => here.at(name === "store" ? name : `${nth}${name}`),
    };
    return studio(own, blobs);
  });
  for (const [nth, { tree }] of both.entries())
    draw(tree, { shared: "s".repeat(99), [`${nth}`]: `${nth}` });
  const taken = await Promise.all(both.map(({ take }) => take()));
  for (const [nth, { restore, tree }] of both.entries()) {
    const id = taken[nth]?.id;
    if (id === undefined) throw new Error("it was not taken");
    must(await restore(id, here.at(`out${nth}`)));
    expect(bytesSeen(here.at(`out${nth}`))).toEqual(bytesSeen(tree));
  }
});
