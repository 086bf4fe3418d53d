import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sealCore } from "./sealing.ts";

sealCore();
const ROOT = new URL("../../../", import.meta.url);
const MODULE = readFileSync(new URL("../dist/core.wasm", import.meta.url));
const RECORD = JSON.parse(readFileSync(new URL("../sealed.json", import.meta.url), "utf8"));

/** What this file needs of the engine that runs this process; Node's own types leave it out. */
const { Module } = Reflect.get(globalThis, "WebAssembly") as {
  readonly Module: {
    new (bytes: Uint8Array): object;
    imports(module: object): readonly { readonly module: string; readonly name: string }[];
    exports(module: object): readonly { readonly name: string }[];
  };
};

test("the sealed core imports nothing", () => {
  const module = new Module(MODULE);
  const imports = Module.imports(module).map((each) => `${each.module}.${each.name}`);
  process.stdout.write(`imports of core.wasm: ${JSON.stringify(imports)}\n`);
  expect(imports).toEqual([]);
  expect(Module.exports(module).map(({ name }) => name)).toContain("guest_step");
});

test("the sealed core is of the sources that are here: where it is not, run `make seal`", () => {
  const found = Object.keys(RECORD.sources).map((path) => [path, hash(new URL(path, ROOT))]);
  expect(Object.fromEntries(found), "run `make seal`").toEqual(RECORD.sources);
  expect(found.map(([path]) => path)).toContain("packages/core/src/step.ts");
});

test("the sealed core is the one that is recorded: where it is not, run `make seal`", () => {
  expect(createHash("sha256").update(MODULE).digest("hex"), "run `make seal`").toBe(RECORD.sha256);
});

function hash(path: URL): string {
  try {
    return createHash("sha256").update(readFileSync(path)).digest("hex");
  } catch {
    return "absent";
  }
}
