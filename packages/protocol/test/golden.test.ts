import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import {
  actionFromJson,
  decodeAction,
  decodeEvent,
  eventFromJson,
  NO_USAGE,
} from "../src/index.ts";
import { encodeGolden, GOLDENS, goldenBytes, goldenPath, storedBytes } from "./golden.ts";

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
  const files = readdirSync(dirname(goldenPath("any"))).filter((name) => name.endsWith(".hex"));
  expect(files.sort()).toEqual(GOLDENS.map((golden) => `${golden.name}.hex`).sort());
});

// Bytes of releases that knew neither `opaque` nor `costMicroUsd`; they are never written again.
const OLDER = readdirSync(goldenPath("any").replace("any.hex", "before-opaque"));

test.each(OLDER)("%s of an older release is read, with nothing where it had nothing", (file) => {
  const name = file.replace(".hex", "");
  const golden = GOLDENS.find((each) => each.name === name);
  const bytes = storedBytes(`before-opaque/${name}`);
  const read = golden?.kind === "event" ? decodeEvent(bytes) : decodeAction(bytes);
  expect(read).toStrictEqual({ ok: true, value: lacking(golden?.value) });
});

test("JSON of an older release is read, and only what came later may be missing from it", () => {
  const { opaque, ...said } = {
    kind: "reply",
    text: "",
    reasoning: "",
    calls: [],
    stop: "end",
    opaque: "",
  };
  const older = { kind: "model", id: 1, answer: said, usage: NO_USAGE };
  const newer = { ...older, answer: { ...said, opaque }, costMicroUsd: 0 };
  expect(eventFromJson(older)).toStrictEqual({ ok: true, value: newer });
  expect(eventFromJson({ ...older, answer: { ...said, stop: undefined } }).ok).toBe(false);
});

/** A value as its older release had it. */
function lacking(value: unknown): unknown {
  const text = JSON.stringify(value, (key, part) =>
    key === "opaque" ? "" : key === "costMicroUsd" ? 0 : part,
  );
  return JSON.parse(text);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
