import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { seal } from "./seal.ts";
import { ROOT } from "./tree.ts";

const GUEST = `${ROOT}packages/host/src/guest.ts`;

test("two seals of the same tree are the same, byte for byte, wherever the tree lies", async () => {
  const here = await seal(ROOT, GUEST);
  const again = await seal(ROOT, GUEST);
  const copy = copyOfTree();
  const there = await seal(copy, join(copy, "packages/host/src/guest.ts"));
  expect(again.record).toEqual(here.record);
  expect(there.record).toEqual(here.record);
  expect(Buffer.compare(there.module, here.module)).toBe(0);
  expect(Object.keys(here.record.sources)).toContain("packages/core/src/step.ts");
});

test("nothing of where the tree lies is in the module", async () => {
  const { module } = await seal(ROOT, GUEST);
  const text = Buffer.from(module).toString("latin1");
  expect(text).toContain("conversationBytes");
  expect([text.includes(ROOT), text.includes("packages/core")]).toEqual([false, false]);
});

test("a change of a source is another module", async () => {
  const copy = copyOfTree();
  const guest = join(copy, "packages/host/src/guest.ts");
  const before = await seal(copy, guest);
  writeFileSync(guest, readFileSync(guest, "utf8").replace("was not begun", "was not yet begun"));
  const after = await seal(copy, guest);
  expect(after.record.sha256).not.toBe(before.record.sha256);
  expect(after.record.sources).not.toEqual(before.record.sources);
});

test.each([
  ["Date", 'if (Date.now() < 0) throw new Error("planted");'],
  ["Math.random", 'if (Math.random() < 0) throw new Error("planted");'],
  ["fetch", 'fetch("http://localhost");'],
  ["a change of the module's own planted", "let planted = 0; export const keep = () => ++planted;"],
  ["Date", "function unused() { return Date.now(); }"],
  ["an import", 'import "node:fs";'],
  ["an import", 'import { readFileSync } from "node:fs"; readFileSync("/etc/hostname");'],
])("a core in which %s is planted is not sealed, and it is said where: %s", async (what, text) => {
  const copy = copyOfTree();
  const step = join(copy, "packages/core/src/step.ts");
  appendFileSync(step, `${text}\n`);
  const refusal = String(await seal(copy, join(copy, "packages/host/src/guest.ts")).catch(String));
  expect(refusal).toContain("the core is not pure, and was not sealed");
  const line = readFileSync(step, "utf8").trimEnd().split("\n").length;
  const place = what === "an import" ? "in the bundle" : `packages/core/src/step.ts:${line}`;
  expect(refusal).toContain(`${place}: ${what}: `);
  if (what === "an import") expect(refusal).toMatch(/import .*"node:fs"/);
});

/** The packages that are sealed, in another folder. */
function copyOfTree(): string {
  const copy = mkdtempSync(join(tmpdir(), "dev-seal-"));
  onTestFinished(() => rmSync(copy, { recursive: true }));
  mkdirSync(join(copy, "node_modules/@dev"), { recursive: true });
  for (const name of ["protocol", "core", "host"]) {
    for (const part of ["package.json", "src"]) {
      cpSync(`${ROOT}packages/${name}/${part}`, join(copy, "packages", name, part), {
        recursive: true,
      });
    }
    symlinkSync(join(copy, "packages", name), join(copy, "node_modules/@dev", name));
  }
  return copy;
}
