import { readdirSync, rmSync, writeFileSync } from "node:fs";
import {
  compareSnapshots,
  directoryBlobs,
  listAll,
  restoreSnapshot,
  type SnapshotId,
  snapshotDiff,
  sweep,
} from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesSeen, deeds, perform, restoring, studio } from "./snapshot.ts";
import { draw, must, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const LIMIT_MS = 180_000;
const GRACE = 1_000;

function kept(root: string): Record<string, string> {
  return Object.fromEntries(Object.entries(bytesSeen(root)).filter(([, is]) => is !== "special"));
}

/** What a test does between snapshots: it changes the tree, forgets a snapshot, or sweeps. */
type Move =
  | { readonly kind: "change"; readonly deeds: Parameters<typeof perform>[1] }
  | { readonly kind: "forget"; readonly nth: number }
  | { readonly kind: "sweep"; readonly afterMs: number };

const moves: fc.Arbitrary<Move[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("change" as const), deeds }),
    fc.record({ kind: fc.constant("forget" as const), nth: fc.nat(9) }),
    fc.record({ kind: fc.constant("sweep" as const), afterMs: fc.constantFrom(0, 500, 1_500) }),
  ),
  { minLength: 3, maxLength: 12 },
);

test("no sweep removes what a snapshot that is named needs", { timeout: LIMIT_MS }, async () => {
  await fc.assert(
    fc.asyncProperty(moves, async (all) => {
      here.clear();
      here = place();
      const { tree, take, blobs, open } = studio(here);
      const live = new Map<SnapshotId, Record<string, string>>();
      let nowMs = 10_000;
      for (const move of all) {
        if (move.kind === "change") {
          perform(tree, move.deeds);
          live.set((await take(nowMs)).id, kept(tree));
        } else if (move.kind === "forget") {
          const id = [...live.keys()][move.nth];
          if (id !== undefined) live.delete(id);
        } else {
          nowMs += move.afterMs;
          must(await sweep(blobs, { live: live.keys(), nowMs, graceMs: GRACE }));
        }
      }
      for (const [nth, [id, was]] of [...live].entries()) {
        const out = here.at(`out${nth}`);
        draw(out, {});
        must(await restoreSnapshot(await open(), id, out, restoring()));
        expect(kept(out)).toEqual(was);
      }
    }),
    { numRuns: 25 },
  );
});

test("what nobody needs goes after the grace period, and not before", async () => {
  const { tree, take, blobs } = studio(here);
  draw(tree, { a: "a".repeat(5_000) });
  const first = await take(1);
  writeFileSync(`${tree}/a`, "b".repeat(5_000));
  const second = await take(2);
  const at = (nowMs: number, ...live: SnapshotId[]) =>
    sweep(blobs, { live, nowMs, graceMs: GRACE });
  expect(must(await at(3, first.id, second.id))).toMatchObject({
    condemnedCount: 0,
    deletedCount: 0,
  });
  expect(must(await at(4, second.id))).toMatchObject({ condemnedCount: 2, deletedCount: 0 });
  expect(must(await at(4 + GRACE - 1, second.id))).toMatchObject({ deletedCount: 0 });
  const last = must(await at(4 + GRACE, second.id));
  expect(last).toMatchObject({ deletedCount: 2, condemnedCount: 0, missing: [] });
  expect(must(await listAll(blobs, ""))).toHaveLength(2);
  expect(must(await at(9_000, first.id, second.id)).missing).toEqual([first.id]);
});

test("what is condemned and then needed again is written anew, and pardoned", async () => {
  const { tree, take, blobs, restore } = studio(here);
  draw(tree, { a: "a".repeat(5_000) });
  const first = await take(1);
  must(await sweep(blobs, { live: [], nowMs: 2, graceMs: GRACE }));
  // Its pack is about to go: a snapshot that began now must not count on it.
  const again = await take(3);
  expect(again.id).toBe(first.id);
  expect(again.writtenBytes).toBeGreaterThan(5_000);
  for (const nowMs of [4, 4 + GRACE, 5 + 2 * GRACE]) {
    must(await sweep(blobs, { live: [first.id], nowMs, graceMs: GRACE }));
    rmSync(here.at("out"), { recursive: true, force: true });
    must(await restore(first.id, here.at("out")));
  }
  expect(readdirSync(here.at("store/packs"))).toHaveLength(1);
});

test("a snapshot that is named only after it was condemned is pardoned", async () => {
  const { tree, take, blobs, restore } = studio(here);
  draw(tree, { a: "a" });
  const { id } = await take(1);
  must(await sweep(blobs, { live: [], nowMs: 2, graceMs: GRACE }));
  must(await sweep(blobs, { live: [id], nowMs: 2 + 5 * GRACE, graceMs: GRACE }));
  must(await restore(id, here.at("out")));
  expect(must(await listAll(blobs, "condemned/"))).toEqual([]);
});

test("a pack that is mostly dead is written anew, compressed, and then goes", async () => {
  const { tree, take, blobs, restore } = studio(here);
  draw(tree, { a: "a".repeat(100_000), b: "bcd".repeat(20) });
  await take(1);
  rmSync(`${tree}/a`);
  const { id } = await take(2);
  const first = must(await sweep(blobs, { live: [id], nowMs: 3 + GRACE, graceMs: GRACE }));
  expect(first.repackedCount).toBe(1);
  expect(first.sizeBytes).toBeGreaterThan(100_000);
  must(await restore(id, here.at("out")));
  const second = must(await sweep(blobs, { live: [id], nowMs: 4 + 3 * GRACE, graceMs: GRACE }));
  expect(second.deletedBytes).toBeGreaterThan(100_000);
  must(await restore(id, here.at("out2")));
  const third = must(await sweep(blobs, { live: [id], nowMs: 4 + 9 * GRACE, graceMs: GRACE }));
  expect(third.sizeBytes).toBeLessThan(1_000);
});

test("many small packs are put together", async () => {
  const { tree, take, blobs, restore } = studio(here);
  const live: SnapshotId[] = [];
  for (let nth = 0; nth < 70; nth++) {
    draw(tree, { [`f${nth}`]: `${nth}` });
    live.push((await take(nth)).id);
  }
  must(await sweep(blobs, { live, nowMs: 10_000, graceMs: GRACE }));
  must(await sweep(blobs, { live, nowMs: 20_000, graceMs: GRACE }));
  expect(readdirSync(here.at("store/packs"))).toHaveLength(1);
  for (const [nth, id] of live.entries()) must(await restore(id, here.at(`out${nth % 5}`)));
});

test("a live snapshot that cannot be read stops a sweep before it removes anything", async () => {
  const { tree, take, blobs } = studio(here);
  draw(tree, { "d/a": "a" });
  const { id } = await take(1);
  draw(tree, { "d/b": "b" });
  await take(2);
  for (const pack of readdirSync(here.at("store/packs"))) {
    writeFileSync(here.at(`store/packs/${pack}`), "damaged");
  }
  const before = must(await listAll(blobs, ""));
  const swept = await sweep(blobs, { live: [id], nowMs: 9_000, graceMs: GRACE });
  expect(swept).toMatchObject({ ok: false, fault: { code: "corrupt" } });
  expect(must(await listAll(blobs, ""))).toEqual(before);
});

test("what a crash left aside, or without an index, goes too", async () => {
  const { blobs } = studio(here);
  draw(here.at("store"), { "aside/abc": "torn", [`packs/${"a".repeat(64)}`]: "x" });
  must(await sweep(blobs, { live: [], nowMs: 1, graceMs: GRACE }));
  must(await sweep(blobs, { live: [], nowMs: 1 + GRACE, graceMs: GRACE }));
  expect(must(await listAll(directoryBlobs(here.at("store")), ""))).toEqual([]);
});

test("a snapshot's difference from the one before is what was done", {
  timeout: LIMIT_MS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(deeds, deeds, async (first, second) => {
      here.clear();
      here = place();
      const { tree, take, open } = studio(here);
      perform(tree, first);
      const one = await take();
      const before = timeless(kept(tree));
      perform(tree, second);
      const two = await take();
      const after = timeless(kept(tree));
      const found = must(await compareSnapshots(await open(), one.id, two.id));
      const told = found.filter(({ kind }) => kind !== "skipped").map(({ path }) => path);
      const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
      const changed = paths.filter((path) => before[path] !== after[path]);
      expect(told.sort()).toEqual(
        changed.map((path) => Buffer.from(path, "latin1").toString()).sort(),
      );
    }),
    { numRuns: 25 },
  );
});

function timeless(seen: Record<string, string>): Record<string, string> {
  const timed = Object.entries(seen).map(([path, what]): [string, string] => {
    if (what.startsWith("->")) return [path, what.slice(0, what.lastIndexOf(" "))];
    const [one, two, ...rest] = what.split(" ");
    return [path, one === "directory" ? `${one} ${two}` : `${one} ${rest}`];
  });
  return Object.fromEntries(timed);
}

test("a difference reads as one that git takes", async () => {
  const { tree, take, open } = studio(here);
  draw(tree, { a: "one\ntwo\n", gone: "x\n", big: "b".repeat(2_000_000) });
  const one = await take();
  writeFileSync(`${tree}/a`, "one\n2\n");
  writeFileSync(`${tree}/big`, "c".repeat(2_000_000));
  rmSync(`${tree}/gone`);
  draw(tree, { "new file": "", l: "->a" });
  const two = await take();
  const objects = await open();
  const found = must(await compareSnapshots(objects, one.id, two.id));
  expect(must(await snapshotDiff(objects, found))).toBe(`diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,2 +1,2 @@
 one
-two
+2
Binary files a/big and b/big differ
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1,1 +0,0 @@
-x
diff --git a/l b/l
new file mode 120000
--- /dev/null
+++ b/l
@@ -0,0 +1,1 @@
+a
\\ No newline at end of file
diff --git a/new file b/new file
new file mode 100644
`);
});
