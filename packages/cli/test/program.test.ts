import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

type Loaded = { readonly isCached: boolean; cache(): Buffer; run(): void };
const { load, cachePath } = createRequire(import.meta.url)("../bin/program.cjs") as {
  load(path: string): Loaded;
  cachePath(path: string): string;
};

let directory: string;
let bundle: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "program-"));
  bundle = join(directory, "bundle.cjs");
  writeFileSync(bundle, "globalThis.ranByTest = (globalThis.ranByTest ?? 0) + 1;");
  utimesSync(bundle, 1, 1);
});
afterEach(() => rmSync(directory, { recursive: true }));

test("a cache that the build wrote is taken", () => {
  const first = load(bundle);
  expect(first.isCached).toBe(false);
  first.run();
  writeFileSync(cachePath(bundle), first.cache());
  const second = load(bundle);
  expect(second.isCached).toBe(true);
  second.run();
  expect(Reflect.get(globalThis, "ranByTest")).toBe(2);
});

test("the cache of this very build is taken by `dev`", () => {
  const built = new URL("../dist/dev.cjs", import.meta.url).pathname;
  const copy = join(directory, "dev.cjs");
  copyFileSync(built, copy);
  copyFileSync(cachePath(built), cachePath(copy));
  expect(load(copy).isCached).toBe(true);
});

test("a cache that is damaged anywhere, cut, empty, a directory or older is not given to V8", () => {
  const good = load(bundle).cache();
  for (let at = 0; at < good.length; at += 7) {
    const bad = Buffer.from(good);
    bad.writeUInt8(bad.readUInt8(at) ^ 1, at);
    writeFileSync(cachePath(bundle), bad);
    expect([at, load(bundle).isCached]).toEqual([at, false]);
  }
  for (const bad of [good.subarray(0, 100), Buffer.alloc(0), Buffer.alloc(good.length)]) {
    writeFileSync(cachePath(bundle), bad);
    expect(load(bundle).isCached).toBe(false);
  }
  writeFileSync(cachePath(bundle), good);
  utimesSync(cachePath(bundle), 0, 0);
  expect(load(bundle).isCached).toBe(false);
  rmSync(cachePath(bundle));
  mkdirSync(cachePath(bundle));
  expect(load(bundle).isCached).toBe(false);
  expect(readFileSync(bundle, "utf8")).toContain("ranByTest");
});
