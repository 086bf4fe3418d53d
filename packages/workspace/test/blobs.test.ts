import { readdirSync, statSync } from "node:fs";
import { fail, fault } from "@dev/protocol";
import {
  type Blobs,
  directoryBlobs,
  Objects,
  restoreSnapshot,
  sweep,
  takeSnapshot,
} from "@dev/workspace";
import { bucketBlobs, REQUEST_TRY_LIMIT } from "@dev/workspace/s3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { blobsContract } from "./blobs.ts";
import { KEY, openStand, type Stand } from "./bucket.ts";
import { bytesSeen, LOOKING, restoring, studio } from "./snapshot.ts";
import { draw, must, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

blobsContract("a directory", () => ({
  open: () => directoryBlobs(here.at("blobs")),
  close: () => undefined,
}));

const steady = { sleep: async () => undefined, random: () => 0.5 };
const open = ({ url }: Stand, more: Partial<typeof KEY> = {}): Blobs =>
  bucketBlobs({ url, ...KEY, ...steady, ...more });

blobsContract("a bucket", async () => {
  const stand = await openStand();
  return { open: () => open(stand), close: stand.close };
});

blobsContract("a folder of a bucket", async () => {
  const stand = await openStand();
  return { open: () => open({ ...stand, url: `${stand.url}/one/two/` }), close: stand.close };
});

test("a directory of blobs is its owner's alone, and nothing is left aside", async () => {
  must(await directoryBlobs(here.at("blobs")).put("packs/a", Buffer.from("a")));
  expect(statSync(here.at("blobs")).mode & 0o777).toBe(0o700);
  expect(statSync(here.at("blobs/packs/a")).mode & 0o777).toBe(0o600);
  expect(readdirSync(here.at("blobs/aside"))).toEqual([]);
});

describe("a bucket", () => {
  let stand: Stand;
  beforeEach(async () => {
    stand = await openStand();
  });
  afterEach(() => stand.close());

  test("what a network or a busy server does is tried again, with longer waits", async () => {
    const waits: number[] = [];
    const sleep = async (ms: number) => void waits.push(ms);
    stand.troubles.push("busy", "cut", "busy");
    const blobs = bucketBlobs({ url: stand.url, ...KEY, sleep, random: () => 0 });
    expect(must(await blobs.put("a", Buffer.from("a")))).toBe("put");
    expect(waits).toEqual([100, 200, 400]);
    expect(stand.log).toEqual(["PUT 200"]);
  });

  test("a server that stays busy is unavailable, and named", async () => {
    stand.troubles.push(...Array.from({ length: REQUEST_TRY_LIMIT }, () => "busy" as const));
    const got = await open(stand).get("a", null);
    const url = `${stand.url}/a`;
    expect(got).toMatchObject({ ok: false, fault: { code: "unavailable", subject: url } });
    expect(got.ok || got.fault.message).toContain("503");
  });

  test("a wrong secret is said to be one, and not tried again", async () => {
    const refused = await open(stand, { secretAccessKey: "other" }).put("a", Buffer.from("a"));
    expect(refused).toMatchObject({ ok: false, fault: { code: "unauthorized" } });
    expect(refused.ok || refused.fault.message).toContain("SignatureDoesNotMatch");
    expect(stand.log).toEqual(["PUT 403"]);
  });

  test("an answer of a proxy's own is no blob, and no absence of one", async () => {
    stand.troubles.push("garbled");
    expect(await open(stand).get("a", null)).toMatchObject({ ok: false, fault: { code: "io" } });
  });

  test("one that is aborted rejects", async () => {
    await expect(open(stand).get("a", null, AbortSignal.abort())).rejects.toThrow("aborted");
  });

  test("snapshots are taken, compressed, restored and swept there", async () => {
    const blobs = open(stand);
    const { tree, take, restore } = studio(here, blobs);
    draw(tree, { "d/text": "the same line\n".repeat(20_000), e: null });
    const { id, writtenBytes } = await take(1);
    must(await restore(id, here.at("out")));
    expect(bytesSeen(here.at("out"))).toEqual(bytesSeen(tree));
    const swept = must(await sweep(blobs, { live: [id], nowMs: 2, graceMs: 1 }));
    expect(swept.sizeBytes).toBeLessThan(writtenBytes / 10);
  });
});

/** Blobs whose n-th call fails, as when the disk is full or the machine stops. */
function faulty(blobs: Blobs, at: number): Blobs & { readonly calls: () => number } {
  let count = 0;
  const strike = (): boolean => ++count === at;
  const struck = () => fail(fault("io", "struck"));
  return {
    calls: () => count,
    packing: blobs.packing,
    put: async (...given) => (strike() ? struck() : blobs.put(...given)),
    get: async (...given) => (strike() ? struck() : blobs.get(...given)),
    list: async (...given) => (strike() ? struck() : blobs.list(...given)),
    delete: async (...given) => (strike() ? struck() : blobs.delete(...given)),
  };
}

test("wherever a snapshot or a sweep is stopped, the old one is whole, and again makes the new", async () => {
  const blobs = directoryBlobs(here.at("store"));
  const { tree, take, cache } = studio(here, blobs);
  draw(tree, { a: "one", "d/b": "two" });
  const first = await take(1);
  const was = bytesSeen(tree);
  for (let at = 1; ; at++) {
    draw(tree, { [`d/new${at}`]: `${at}`, a: `changed ${at}` });
    const striking = faulty(blobs, at);
    const opened = await Objects.open(striking);
    const options = { ...LOOKING, cache, nowMs: 1_000 + at };
    const taken = opened.ok ? await takeSnapshot(opened.value, tree, options) : opened;
    const live = [first.id, ...(taken.ok ? [taken.value.id] : [])];
    await sweep(faulty(blobs, at), { live, nowMs: 5_000 * at, graceMs: 10 });
    must(await sweep(blobs, { live, nowMs: 5_000 * at + 1_000, graceMs: 10 }));
    const objects = must(await Objects.open(blobs));
    draw(here.at(`old${at}`), {});
    must(await restoreSnapshot(objects, first.id, here.at(`old${at}`), restoring()));
    expect(bytesSeen(here.at(`old${at}`))).toEqual(was);
    const again = await take(2_000 + at);
    draw(here.at(`new${at}`), {});
    const fresh = must(await Objects.open(blobs));
    must(await restoreSnapshot(fresh, again.id, here.at(`new${at}`), restoring()));
    expect(bytesSeen(here.at(`new${at}`))).toEqual(bytesSeen(tree));
    if (striking.calls() < at) break;
  }
});
