import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { decodeRequest, decodeResponse, encodeRequest, encodeResponse } from "../src/index.ts";
import {
  elementEnd,
  readBytes,
  readCount,
  readList,
  readObject,
  readText,
  readU32,
  readU64,
  textWithin,
} from "../src/reader.ts";
import {
  appendText,
  finish,
  openWriter,
  startList,
  startObject,
  writeBytes,
  writeList,
  writeObject,
  writeText,
  writeU32,
  writeU64,
} from "../src/writer.ts";
import { parseZap, type Zap } from "../src/zap.ts";

type Vector = { readonly name: string; readonly object: string; readonly hex: string };

const FILE = new URL("vectors/zap.json", import.meta.url);
const { vectors } = JSON.parse(readFileSync(FILE, "utf8")) as { readonly vectors: Vector[] };
const utf8 = new TextEncoder();

/** How each vector is written and read; a vector that is not here fails. */
const CASES: Readonly<Record<string, { write(): Uint8Array; read(bytes: Uint8Array): unknown }>> = {
  "scalars-text-bytes": {
    write() {
      const writer = openWriter();
      const root = startObject(writer, 24);
      writeU32(writer, root, 0xdeadbeef);
      writeText(writer, root + 8, "zap");
      writeBytes(writer, root + 16, Uint8Array.of(1, 2, 3, 4));
      return finish(writer, root);
    },
    read(bytes) {
      const zap = parsed(bytes);
      expect(readU32(zap, zap.root)).toBe(0xdeadbeef);
      expect(readText(zap, zap.root + 8)).toBe("zap");
      expect([...readBytes(zap, zap.root + 16)]).toEqual([1, 2, 3, 4]);
    },
  },
  nested: {
    write() {
      const writer = openWriter();
      const child = startObject(writer, 4);
      writeU32(writer, child, 111);
      const root = startObject(writer, 16);
      writeU64(writer, root, 7);
      writeObject(writer, root + 8, child);
      return finish(writer, root);
    },
    read(bytes) {
      const zap = parsed(bytes);
      expect(readU64(zap, zap.root)).toBe(7);
      expect(readU32(zap, readObject(zap, zap.root + 8))).toBe(111);
    },
  },
  "list-of-text": {
    write() {
      const writer = openWriter();
      const list = startList(writer);
      appendText(writer, "cargo");
      appendText(writer, "test");
      const root = startObject(writer, 8);
      writeList(writer, root, list, 2);
      return finish(writer, root);
    },
    read(bytes) {
      const zap = parsed(bytes);
      const first = readList(zap, zap.root);
      const second = elementEnd(zap, first);
      expect(readCount(zap, zap.root)).toBe(2);
      expect(textWithin(zap, first + 4, second)).toBe("cargo");
      expect(textWithin(zap, second + 4, elementEnd(zap, second))).toBe("test");
    },
  },
  "rpc-request": {
    write: () =>
      encodeRequest({
        method: 1,
        promise: 7,
        target: 0,
        cap: new Uint8Array(0),
        payload: utf8.encode("hi"),
      }),
    read(bytes) {
      expect(decodeRequest(bytes)).toEqual({
        ok: true,
        value: {
          method: 1,
          promise: 7,
          target: 0,
          cap: new Uint8Array(0),
          payload: utf8.encode("hi"),
        },
      });
    },
  },
  "rpc-response": {
    write: () => encodeResponse({ status: 200, promise: 7, body: utf8.encode("ok") }),
    read(bytes) {
      const value = { status: 200, promise: 7, body: utf8.encode("ok") };
      expect(decodeResponse(bytes)).toEqual({ ok: true, value });
    },
  },
};

test.each(vectors)("the vector $name is written byte for byte", ({ name, hex }) => {
  const bytes = CASES[name]?.write();
  expect(Buffer.from(bytes ?? []).toString("hex")).toBe(hex);
});

test.each(vectors)("the vector $name is read field by field", ({ name, hex }) => {
  const vector = CASES[name];
  expect(vector).toBeDefined();
  vector?.read(Uint8Array.from(Buffer.from(hex, "hex")));
});

test("a message that is no envelope is refused as one", () => {
  const plain = CASES.nested?.write() ?? new Uint8Array(0);
  for (const decode of [decodeRequest, decodeResponse]) {
    const read = decode(plain);
    expect(read.ok ? "read" : read.fault.code).toBe("malformed");
  }
});

function parsed(bytes: Uint8Array): Zap {
  const zap = parseZap(bytes);
  if (!zap.ok) throw new Error(zap.fault.message);
  return zap.value;
}
