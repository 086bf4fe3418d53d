import { appendFileSync, readFileSync } from "node:fs";
import {
  applyChanges,
  changes,
  compareSnapshots,
  directoryBlobs,
  Objects,
  restoreSnapshot,
  StatCache,
  TREE_LIMITS,
  takeSnapshot,
  takeTree,
  unifiedDiff,
  writeManifest,
} from "@dev/workspace";
import { afterEach, beforeEach, expect, test } from "vitest";
import { draw, must, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

const work = async (tree: string) => appendFileSync(`${tree}/notes`, "two\n");

test("the README's example does what it says", async () => {
  const [directory, state] = [here.at("home"), here.at("state")];
  draw(directory, { notes: "one\n" });
  draw(state, {});
  const onProgress = () => undefined;
  const blobs = directoryBlobs(`${state}/snapshots`);
  const objects = await Objects.open(blobs);
  if (!objects.ok) throw new Error(objects.fault.message);
  const looking = { cache: new StatCache(`${state}/seen`), limits: TREE_LIMITS, onProgress };
  const before = await takeSnapshot(objects.value, directory, { ...looking, nowMs: 1 });
  if (!before.ok) throw new Error(before.fault.message);
  await work(directory);
  const after = await takeSnapshot(objects.value, directory, { ...looking, nowMs: 2 });
  if (!after.ok) throw new Error(after.fault.message);
  const found = await compareSnapshots(objects.value, before.value.id, after.value.id);
  const me = { holder: "host/4711/1000", isAlive: (holder: string) => holder === "host/4711/1000" };
  await restoreSnapshot(objects.value, before.value.id, directory, { ...looking, ...me });
  expect(must(found)).toMatchObject([{ kind: "modified", path: "notes" }]);
  expect(readFileSync(`${directory}/notes`, "utf8")).toBe("one\n");
});

test("what was done in a copy is brought to the directory it was taken from", async () => {
  const [directory, state] = [here.at("home"), here.at("state")];
  draw(directory, { notes: "one\n" });
  draw(state, {});
  const options = { textPath: `${state}/text`, limits: TREE_LIMITS, onProgress: () => undefined };
  const taken = await takeTree(directory, `${state}/tree`, options);
  if (!taken.ok) throw new Error(taken.fault.message);
  await writeManifest(`${state}/manifest.json`, taken.value.manifest);
  await work(`${state}/tree`);
  const found = await changes(taken.value.manifest, `${state}/tree`);
  if (!found.ok) throw new Error(found.fault.message);
  const diff = await unifiedDiff(found.value, taken.value, `${state}/tree`);
  const applied = await applyChanges(found.value, {
    base: taken.value.manifest,
    tree: `${state}/tree`,
    target: directory,
    record: `${state}/applied.json`,
    holder: "host/4711/1000",
    isAlive: (holder) => holder === "host/4711/1000",
  });
  expect(must(diff)).toContain("+two");
  expect(must(applied).written).toEqual(["notes"]);
  expect(readFileSync(`${directory}/notes`, "utf8")).toBe("one\ntwo\n");
});
