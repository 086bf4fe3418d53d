import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { actionFromJson, decodeAction, decodeEvent, eventFromJson } from "../src/index.ts";
import { encodeGolden, GOLDENS, goldenBytes, goldenPath } from "./golden.ts";

test.each(GOLDENS)("$name is written as the bytes that are committed", (golden) => {
  expect(hex(encodeGolden(golden))).toBe(hex(goldenBytes(golden)));
});

test.each(GOLDENS)("$name is read from the bytes that are committed", (golden) => {
  const bytes = goldenBytes(golden);
  const read = golden.kind === "event" ? decodeEvent(bytes) : decodeAction(bytes);
  expect(read).toStrictEqual({ ok: true, value: golden.value });
  // The fields come in the order of the type, so that JSON of what was read is JSON of what was written.
  expect(JSON.stringify(read.ok && read.value)).toBe(JSON.stringify(golden.value));
});

test.each(GOLDENS)("$name comes back from JSON as it was", (golden) => {
  const parsed: unknown = JSON.parse(JSON.stringify(golden.value));
  const read = golden.kind === "event" ? eventFromJson(parsed) : actionFromJson(parsed);
  expect(read).toStrictEqual({ ok: true, value: golden.value });
});

test("every golden file has its sample", () => {
  const files = readdirSync(dirname(goldenPath("any"))).sort();
  expect(files).toEqual(GOLDENS.map((golden) => `${golden.name}.hex`).sort());
});

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
