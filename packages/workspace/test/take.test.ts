import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { changes, readManifest, TREE_LIMITS, takeTree, writeManifest } from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { compared, draw, must, place, seen, take, touch, touches } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const quiet = { limits: TREE_LIMITS, onProgress: () => undefined };

test("any tree is taken as it is, and does not differ from itself", async () => {
  await fc.assert(
    fc.asyncProperty(touches, async (drawn) => {
      here.clear();
      here = place();
      draw(here.at("from"), {});
      touch(here.at("from"), drawn);
      const taken = await take(here);
      expect(seen(here.at("tree"))).toEqual(seen(here.at("from")));
      expect(taken.skipped).toEqual([]);
      expect(taken.entryCount).toBe(Object.keys(seen(here.at("from"))).length);
      expect(await compared(taken, here.at("tree"))).toEqual([]);
      must(await writeManifest(here.at("manifest"), taken.manifest));
      expect(must(await readManifest(here.at("manifest")))).toEqual(taken.manifest);
    }),
    { numRuns: 40 },
  );
});

test("times are kept to the microsecond, and modes without set-id bits", async () => {
  draw(here.at("from"), { "d/f": "x", l: "->nowhere" });
  chmodSync(here.at("from/d/f"), 0o4751);
  chmodSync(here.at("from/d"), 0o500);
  utimesSync(here.at("from/d/f"), 1_000_000_000.123456, 1_000_000_000.123456);
  utimesSync(here.at("from/d"), 1_100_000_000, 1_100_000_000);
  await take(here);
  const file = statSync(here.at("tree/d/f"));
  expect((file.mode & 0o7777).toString(8)).toBe("751");
  expect(Math.abs(file.mtimeMs - 1_000_000_000_123.456)).toBeLessThan(0.002);
  const directory = statSync(here.at("tree/d"));
  expect((directory.mode & 0o7777).toString(8)).toBe("500");
  expect(directory.mtimeMs).toBe(1_100_000_000_000);
});

test("a repository's own insides and large files come along", async () => {
  const large = "0123456789abcdef".repeat(200_000);
  draw(here.at("from"), { ".git/HEAD": "ref: x\n", ".gitignore": "*\n", large });
  const taken = await take(here);
  expect(seen(here.at("tree"))).toEqual(seen(here.at("from")));
  expect(taken.sizeBytes).toBe(large.length + 9);
  // Of what is too large to be shown no text is kept.
  expect(taken.manifest.entries.get("large")?.textAt).toBeNull();
  expect(statSync(taken.textPath).size).toBeLessThan(20);
});

test("the holes of a sparse file take no room in the copy", async () => {
  const size = 64 * 1024 * 1024;
  draw(here.at("from"), { sparse: "head", empty: "" });
  truncateSync(here.at("from/sparse"), size - 4);
  appendFileSync(here.at("from/sparse"), "tail");
  // One that ends in a hole is as long all the same.
  truncateSync(here.at("from/empty"), size);
  await take(here);
  for (const name of ["sparse", "empty"]) {
    const [was, is] = [here.at(`from/${name}`), here.at(`tree/${name}`)];
    expect(readFileSync(is).equals(readFileSync(was))).toBe(true);
    expect(statSync(is).blocks * 512).toBeLessThan(4 * 1024 * 1024);
  }
});

test("what cannot be taken is listed", async () => {
  draw(here.at("from"), { f: "x" });
  execFileSync("mkfifo", [here.at("from/pipe")]);
  const server = createServer().listen(here.at("from/socket"));
  await once(server, "listening");
  writeFileSync(Buffer.concat([Buffer.from(here.at("from/")), Buffer.from([0x6e, 0xff])]), "x");
  let deep = "from";
  for (let depth = 0; depth < 130; depth++) deep += "/d";
  mkdirSync(here.at(deep), { recursive: true });
  const { skipped } = await take(here);
  server.close();
  const reasons = skipped.map(({ path, why }) => [path.slice(0, 6), why]);
  expect(reasons).toEqual([
    ["d/d/d/", "depth"],
    ["n\u{fffd}", "name"],
    ["pipe", "fifo"],
    ["socket", "socket"],
  ]);
  expect(Object.keys(seen(here.at("tree")))).toContain("f");
});

test("what may not be read is listed", async (context) => {
  context.skip(process.getuid?.() === 0, "root may read any file");
  draw(here.at("from"), { f: "x", "d/g": "y" });
  chmodSync(here.at("from/f"), 0);
  chmodSync(here.at("from/d"), 0);
  const { skipped } = await take(here);
  expect(skipped).toEqual([
    { path: "d", why: "unreadable" },
    { path: "f", why: "unreadable" },
  ]);
});

test("a copy that lies in the tree itself is left out of it", async () => {
  draw(here.at("from"), { "state/x": "x" });
  const options = { ...quiet, textPath: here.at("from/state/text") };
  const taken = must(await takeTree(here.at("from"), here.at("from/state/tree"), options));
  expect(taken.skipped.map(({ path, why }) => [path, why])).toEqual([
    ["state/text", "own"],
    ["state/tree", "own"],
  ]);
  expect(Object.keys(seen(here.at("from/state/tree")))).toEqual(["state", "state/x"]);
});

test("a tree above the limits is a fault, and nothing is left of the copy", async () => {
  draw(here.at("from"), { a: "12345", b: "12345", c: "12345" });
  for (const limits of [
    { ...TREE_LIMITS, entryCount: 2 },
    { ...TREE_LIMITS, sizeBytes: 12 },
  ]) {
    const options = { ...quiet, limits, textPath: here.at("text") };
    const taken = await takeTree(here.at("from"), here.at("tree"), options);
    expect(taken).toMatchObject({ ok: false, fault: { code: "limit", subject: "c" } });
    expect([existsSync(here.at("tree")), existsSync(here.at("text"))]).toEqual([false, false]);
  }
  await take(here, { entryCount: 3, sizeBytes: 15 });
});

test("a copy that is aborted is gone", async () => {
  draw(here.at("from"), { a: "1", b: "2" });
  const abort = new AbortController();
  const options = { ...quiet, textPath: here.at("text"), onProgress: () => abort.abort() };
  const taking = takeTree(here.at("from"), here.at("tree"), options, abort.signal);
  await expect(taking).rejects.toThrow(/abort/i);
  expect([existsSync(here.at("tree")), existsSync(here.at("text"))]).toEqual([false, false]);
});

test("nothing that exists is taken over, and what does not exist is a fault", async () => {
  draw(here.at("from"), { a: "1" });
  draw(here.at("tree"), { mine: "1" });
  const options = { ...quiet, textPath: here.at("text") };
  const onto = await takeTree(here.at("from"), here.at("tree"), options);
  expect(onto).toMatchObject({ ok: false, fault: { code: "exists", subject: here.at("tree") } });
  expect(seen(here.at("tree"))).toMatchObject({ mine: expect.any(String) });
  const of = await takeTree(here.at("nowhere"), here.at("other"), options);
  expect(of).toMatchObject({ ok: false, fault: { code: "io", subject: here.at("nowhere") } });
});

test("a write that hides its size and mtime is seen by its ctime", async () => {
  draw(here.at("from"), { f: "old\n", untouched: "x" });
  const { manifest } = await take(here);
  const before = statSync(here.at("tree/f"));
  // As if all had been taken long ago, so that stamps are trusted.
  const old = { ...manifest, takenNs: manifest.takenNs + 1_000_000_000n };
  const digest = manifest.entries.get("untouched")?.node;
  expect(digest?.kind).toBe("file");
  expect(must(await changes(old, here.at("tree")))).toEqual([]);
  writeFileSync(here.at("tree/f"), "new\n");
  utimesSync(here.at("tree/f"), before.atime, before.mtime);
  const found = must(await changes(old, here.at("tree")));
  expect(found.map(({ kind, path }) => [kind, path])).toEqual([["modified", "f"]]);
});

test("a stamp is trusted only where a later write could not bear the same", async () => {
  draw(here.at("from"), { f: "x" });
  const { manifest } = await take(here);
  const recorded = manifest.entries.get("f");
  if (recorded?.node.kind !== "file") throw new Error("not taken");
  // A base that is wrong about a file it has the stamp of: only reading the file shows it.
  const node = { ...recorded.node, digest: "0".repeat(64) as typeof recorded.node.digest };
  const wrong = { ...manifest, entries: new Map([["f", { ...recorded, node }]]) };
  expect(must(await changes(wrong, here.at("tree")))).toHaveLength(1);
  const old = { ...wrong, takenNs: manifest.takenNs + 1_000_000_000n };
  expect(must(await changes(old, here.at("tree")))).toEqual([]);
});

test("a manifest that is missing, damaged or from a later version is a fault", async () => {
  draw(here.at("from"), { f: "x" });
  const { manifest } = await take(here);
  const path = here.at("manifest");
  const code = async () => {
    const read = await readManifest(path);
    return read.ok ? "ok" : read.fault.code;
  };
  expect(await code()).toBe("not_found");
  must(await writeManifest(path, manifest));
  expect(await code()).toBe("ok");
  const text = readFileSync(path, "utf8");
  for (const [from, to] of [
    ['"f"', '"../f"'],
    ['"f"', '"/f"'],
    ["digest", "digits"],
    ["takenNs", "taken"],
  ]) {
    writeFileSync(path, text.replace(from as string, to as string));
    expect([from, to, await code()]).toEqual([from, to, "corrupt"]);
  }
  writeFileSync(path, text);
  truncateSync(path, Math.floor(text.length / 2));
  expect(await code()).toBe("corrupt");
  writeFileSync(path, text.replace('"format":1', '"format":2'));
  expect(await code()).toBe("newer_version");
});
