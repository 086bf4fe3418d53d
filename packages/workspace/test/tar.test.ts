import { execFileSync } from "node:child_process";
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { Readable } from "node:stream";
import { restoreSnapshot, TREE_LIMITS } from "@dev/workspace";
import { readTar, writeTar } from "@dev/workspace/tar";
import fc from "fast-check";
import { packTar } from "modern-tar";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesSeen, deeds, perform, restoring, studio } from "./snapshot.ts";
import { draw, must, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const LIMIT_MS = 180_000;
const options = { limits: TREE_LIMITS, nowMs: 1 };
const reading = async (from: Readable) => {
  const objects = await studio(here).open();
  return readTar(objects, from, options);
};

/** What a tar can hold: no names or targets that are no UTF-8, and nothing special. */
function plain(root: string): Record<string, string> {
  const isText = (text: string) => {
    const bytes = Buffer.from(text, "latin1");
    return bytes.equals(Buffer.from(bytes.toString()));
  };
  return Object.fromEntries(
    Object.entries(bytesSeen(root)).filter(([path, what]) => {
      return isText(path) && what !== "special" && (!what.startsWith("->") || isText(what));
    }),
  );
}

test("any tree goes out and comes back, but for what is listed", {
  timeout: LIMIT_MS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(deeds, async (all) => {
      here.clear();
      here = place();
      const { tree, take, open } = studio(here);
      perform(tree, all);
      const { id, skipped } = await take();
      const file = here.at("x.tar");
      const written = must(await writeTar(await open(), id, createWriteStream(file)));
      const came = must(await reading(createReadStream(file)));
      mkdirSync(here.at("out"));
      must(await restoreSnapshot(await open(), came.id, here.at("out"), restoring()));
      expect(bytesSeen(here.at("out"))).toEqual(plain(tree));
      expect(written.entryCount).toBe(Object.keys(plain(tree)).length);
      if (written.left.length === 0) expect(came.id).toBe(id);
      else expect(written.left.length).toBeGreaterThanOrEqual(skipped.length === 0 ? 1 : 0);
    }),
    { numRuns: 25 },
  );
});

test("the system's tar reads what was written, and what it writes is read", async () => {
  const { tree, take, open } = studio(here);
  const deep = `${"long".repeat(30)}/${"name".repeat(40)}`;
  draw(tree, { "a b": "one", [`${deep}/größe`]: "two", l: "->a b", empty: null });
  writeFileSync(`${tree}/big`, Buffer.alloc(2_500_000, "big "));
  const { id } = await take();
  must(await writeTar(await open(), id, createWriteStream(here.at("ours.tar"))));
  mkdirSync(here.at("theirs"));
  execFileSync("tar", ["-xpf", here.at("ours.tar"), "-C", here.at("theirs")]);
  expect(bytesSeen(here.at("theirs"))).toEqual(bytesSeen(tree));
  for (const format of ["gnu", "pax"]) {
    const file = here.at(`${format}.tar`);
    execFileSync("tar", [`--format=${format}`, "-cf", file, "-C", tree, "."]);
    const came = must(await reading(createReadStream(file)));
    const out = here.at(format);
    mkdirSync(out);
    must(await restoreSnapshot(await open(), came.id, out, restoring()));
    expect(timeless(bytesSeen(out))).toEqual(timeless(bytesSeen(tree)));
  }
});

/** GNU's format has times to the second. */
function timeless(seen: Record<string, string>): Record<string, string> {
  const cut = Object.entries(seen).map(([path, what]) => [path, what.replace(/ \d{10,}/, "")]);
  return Object.fromEntries(cut);
}

test.each([
  ["leads up", "../x"],
  ["leads up from below", "a/../../x"],
  ["is absolute", "/etc/x"],
])("a tar with a name that %s is refused", async (_, name) => {
  const tar = await packTar([{ header: { name, size: 1 }, body: "x" }]);
  const came = await reading(Readable.from([Buffer.from(tar)]));
  expect(came).toMatchObject({ ok: false, fault: { code: "corrupt", subject: name } });
});

test("what is written through a symlink of the tar's is a directory of its own", async () => {
  const tar = await packTar([
    { header: { name: "d", size: 0, type: "symlink", linkname: here.at("outside") } },
    { header: { name: "d/x", size: 1 }, body: "x" },
    { header: { name: "again", size: 0, type: "link", linkname: "d/x" } },
    { header: { name: "pipe", size: 0, type: "fifo" } },
  ]);
  draw(here.at("outside"), {});
  const came = must(await reading(Readable.from([Buffer.from(tar)])));
  expect(came.left).toEqual(["pipe"]);
  draw(here.at("out"), {});
  must(await restoreSnapshot(await studio(here).open(), came.id, here.at("out"), restoring()));
  expect(bytesSeen(here.at("outside"))).toEqual({});
  expect(readFileSync(here.at("out/d/x"), "utf8")).toBe("x");
  expect(readFileSync(here.at("out/again"), "utf8")).toBe("x");
});

test("a name that no directory can hold is left out, and the rest can be restored", async () => {
  // In bytes, and not in letters.
  const [fits, not] = ["é".repeat(127), "é".repeat(128)];
  const tar = await packTar([
    { header: { name: `${fits}/x`, size: 1 }, body: "x" },
    { header: { name: `${not}/x`, size: 1 }, body: "x" },
    { header: { name: not, size: 1 }, body: "x" },
    { header: { name: "far", size: 0, type: "symlink", linkname: "t".repeat(4096) } },
  ]);
  const came = must(await reading(Readable.from([Buffer.from(tar)])));
  expect(came.left).toEqual([`${not}/x`, not, "far"]);
  draw(here.at("out"), {});
  must(await restoreSnapshot(await studio(here).open(), came.id, here.at("out"), restoring()));
  expect(Object.keys(bytesSeen(here.at("out")))).toHaveLength(2);
});

test("what is no tar, ends early, or is too much is a fault", async () => {
  const tar = Buffer.from(
    await packTar([{ header: { name: "a", size: 2000 }, body: "x".repeat(2000) }]),
  );
  const objects = await studio(here).open();
  const code = async (from: Readable, limits = TREE_LIMITS) => {
    const came = await readTar(objects, from, { ...options, limits });
    return came.ok ? "ok" : came.fault.code;
  };
  expect(await code(Readable.from([Buffer.alloc(2048, "nonsense")]))).toBe("corrupt");
  expect(await code(Readable.from([tar.subarray(0, 900)]))).toBe("corrupt");
  expect(await code(createReadStream(here.at("none.tar")))).toBe("io");
  expect(await code(Readable.from([tar]), { ...TREE_LIMITS, sizeBytes: 1000 })).toBe("limit");
  expect(await code(Readable.from([tar]), { ...TREE_LIMITS, entryCount: 0 })).toBe("limit");
});

test("a tar that cannot be written is a fault", async () => {
  const { tree, take, open } = studio(here);
  draw(tree, { a: "a".repeat(500_000), b: "b" });
  const { id } = await take();
  const objects = await open();
  const written = await writeTar(objects, id, createWriteStream(here.at("no/such/x.tar")));
  expect(written).toMatchObject({ ok: false, fault: { code: "io" } });
});
