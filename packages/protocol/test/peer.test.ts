import {
  Builder,
  buildRequest,
  buildResponse,
  Message,
  parseRequest,
  parseResponse,
} from "@zap-proto/zap";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  ACTION,
  decodeAction,
  decodeEvent,
  decodeRequest,
  decodeResponse,
  EVENT,
  encodeAction,
  encodeEvent,
  encodeRequest,
  encodeResponse,
} from "../src/index.ts";
import {
  readBool,
  readCount,
  readElement,
  readF32,
  readF64,
  readFixed,
  readI8,
  readI16,
  readI32,
  readI64,
  readList,
  readText,
  readU8,
  readU16,
  readU32,
  readU64,
} from "../src/reader.ts";
import {
  appendBytes,
  appendFixed,
  appendText,
  finish,
  finishElement,
  openWriter,
  startElement,
  startList,
  startObject,
  writeBool,
  writeF32,
  writeF64,
  writeFixed,
  writeI8,
  writeI16,
  writeI32,
  writeI64,
  writeList,
  writeText,
  writeU8,
  writeU16,
  writeU32,
  writeU64,
} from "../src/writer.ts";
import { parseZap, type Zap } from "../src/zap.ts";
import { action, event } from "./arbitrary.ts";
import { GOLDENS, goldenBytes } from "./golden.ts";
import { peerDecode, peerEncode, View } from "./peer.ts";

test.each(GOLDENS)("the reference runtime writes $name as we do", (golden) => {
  const shape = golden.kind === "event" ? EVENT : ACTION;
  expect(hex(peerEncode(shape, golden.value))).toBe(hex(goldenBytes(golden)));
});

test.each(GOLDENS)("the reference runtime reads $name as we do", (golden) => {
  const shape = golden.kind === "event" ? EVENT : ACTION;
  expect(peerDecode(shape, goldenBytes(golden))).toStrictEqual(golden.value);
});

test("the reference runtime and we agree on every event, both ways", () => {
  fc.assert(
    fc.property(event, (value) => {
      const ours = encodeEvent(value);
      const theirs = peerEncode(EVENT, value);
      expect(hex(ours)).toBe(hex(theirs));
      expect(peerDecode(EVENT, ours)).toStrictEqual(value);
      expect(decodeEvent(theirs)).toStrictEqual({ ok: true, value });
    }),
    { numRuns: 500 },
  );
});

test("the reference runtime and we agree on every action, both ways", () => {
  fc.assert(
    fc.property(action, (value) => {
      const ours = encodeAction(value);
      const theirs = peerEncode(ACTION, value);
      expect(hex(ours)).toBe(hex(theirs));
      expect(peerDecode(ACTION, ours)).toStrictEqual(value);
      expect(decodeAction(theirs)).toStrictEqual({ ok: true, value });
    }),
    { numRuns: 500 },
  );
});

test("an action's fields are where the schema says, for a reader that does not know our schema", () => {
  const { get } = View.root(goldenBytes(golden("action-exec-1")));
  expect([get.u64(0), get.u64(8), get.u64(16)]).toEqual([9n, 2n, 1n]);
  const op = get.object(24).get;
  expect(op.u8(0)).toBe(5);
  expect(op.bool(1)).toBe(true);
  expect(op.list(8).toStringArray()).toEqual(["npm", "test", ""]);
  expect(op.text(16)).toBe("packages/core");
  const variable = View.of(op.list(24).objectAt(0)).get;
  expect([variable.text(0), variable.text(8)]).toEqual(["CI", "1"]);
  expect(op.text(32)).toBe("y\n");
  expect(op.u64(40)).toBe(60_000n);
});

test("an event's fields are where the schema says, for a reader that does not know our schema", () => {
  const { get } = View.root(goldenBytes(golden("event-exec-1")));
  expect([get.u8(0), get.u64(8)]).toEqual([3, 7n]);
  const outcome = get.object(4).get;
  expect(outcome.u8(0)).toBe(1);
  const result = outcome.object(4).get;
  expect(result.u8(0)).toBe(1);
  expect([result.text(8), result.text(16)]).toEqual(["ok 1\nnot ok 2\n", "1 failed\n"]);
  expect([result.u64(24), result.u64(32), result.u64(40)]).toEqual([0n, 4096n, 1250n]);
  const end = result.object(4).get;
  expect([end.u8(0), end.i32(4)]).toEqual([1, 1]);
});

test("every scalar is written and read as the reference runtime does", () => {
  const inRange = (least: number, most: number) => fc.integer({ min: least, max: most });
  fc.assert(
    fc.property(
      fc.record({
        bool: fc.boolean(),
        u8: inRange(0, 0xff),
        i8: inRange(-0x80, 0x7f),
        u16: inRange(0, 0xffff),
        i16: inRange(-0x8000, 0x7fff),
        u32: inRange(0, 0xffffffff),
        i32: inRange(-0x80000000, 0x7fffffff),
        f32: fc.float({ noNaN: true }),
        u64: fc.maxSafeNat(),
        i64: fc.maxSafeInteger(),
        f64: fc.double({ noNaN: true }),
        fixed: fc.uint8Array({ minLength: 4, maxLength: 4 }),
      }),
      (value) => {
        const object = new Builder(16);
        const theirs = object.startObject(52);
        theirs.setBool(0, value.bool);
        theirs.setU8(1, value.u8);
        theirs.setI8(2, value.i8);
        theirs.setU16(4, value.u16);
        theirs.setI16(6, value.i16);
        theirs.setU32(8, value.u32);
        theirs.setI32(12, value.i32);
        theirs.setF32(16, value.f32);
        theirs.setU64(24, BigInt(value.u64));
        theirs.setI64(32, BigInt(value.i64));
        theirs.setF64(40, value.f64);
        theirs.setBytesFixed(48, value.fixed);
        theirs.finishAsRoot();
        const bytes = object.finish();

        const writer = openWriter(16);
        const root = startObject(writer, 52);
        writeBool(writer, root, value.bool);
        writeU8(writer, root + 1, value.u8);
        writeI8(writer, root + 2, value.i8);
        writeU16(writer, root + 4, value.u16);
        writeI16(writer, root + 6, value.i16);
        writeU32(writer, root + 8, value.u32);
        writeI32(writer, root + 12, value.i32);
        writeF32(writer, root + 16, value.f32);
        writeU64(writer, root + 24, value.u64);
        writeI64(writer, root + 32, value.i64);
        writeF64(writer, root + 40, value.f64);
        writeFixed(writer, root + 48, value.fixed);
        expect(hex(finish(writer, root))).toBe(hex(bytes));

        const zap = parsed(bytes);
        expect({
          bool: readBool(zap, zap.root),
          u8: readU8(zap, zap.root + 1),
          i8: readI8(zap, zap.root + 2),
          u16: readU16(zap, zap.root + 4),
          i16: readI16(zap, zap.root + 6),
          u32: readU32(zap, zap.root + 8),
          i32: readI32(zap, zap.root + 12),
          f32: readF32(zap, zap.root + 16),
          u64: readU64(zap, zap.root + 24),
          i64: readI64(zap, zap.root + 32),
          f64: readF64(zap, zap.root + 40),
          fixed: readFixed(zap, zap.root + 48, 4),
        }).toEqual(value);
      },
    ),
  );
});

test("lists of scalars, of bytes and of messages are read by the reference runtime", () => {
  const writer = openWriter();
  const scalars = startList(writer);
  const first = appendFixed(writer, 12);
  [5, 6, 0xffffffff].forEach((value, index) => {
    writeU32(writer, first + 4 * index, value);
  });
  const blobs = startList(writer);
  appendBytes(writer, Uint8Array.of(1, 2, 3));
  appendBytes(writer, new Uint8Array(0));
  const messages = startList(writer);
  for (const name of ["one", "two"]) {
    const outer = startElement(writer);
    const object = startObject(writer, 8);
    writeText(writer, object, name);
    finishElement(writer, object, outer);
  }
  const root = startObject(writer, 24);
  writeList(writer, root, scalars, 3);
  writeList(writer, root + 8, blobs, 2);
  writeList(writer, root + 16, messages, 2);
  const bytes = finish(writer, root);

  const { get } = View.root(bytes);
  expect([0, 1, 2, 3].map((index) => get.list(0).u32(index))).toEqual([5, 6, 0xffffffff, 0]);
  expect([0, 1].map((index) => [...get.list(8).bytesAt(index)])).toEqual([[1, 2, 3], []]);
  const names = [0, 1].map((index) => View.of(get.list(16).objectAt(index)).get.text(0));
  expect(names).toEqual(["one", "two"]);

  const zap = parsed(bytes);
  const at = readList(zap, zap.root);
  expect(readCount(zap, zap.root)).toBe(3);
  expect([0, 4, 8].map((offset) => readU32(zap, at + offset))).toEqual([5, 6, 0xffffffff]);
  const element = readElement(zap, readList(zap, zap.root + 16));
  expect(element && readText(element, element.root)).toBe("one");
});

test("the element of a list is the message that it would be by itself", () => {
  const inside = openWriter();
  appendText(inside, "so that the element starts at an odd place");
  const outer = startElement(inside);
  writeText(inside, startObject(inside, 8), "x");
  finishElement(inside, inside.start + 16, outer);

  const alone = openWriter();
  writeText(alone, startObject(alone, 8), "x");
  const bytes = finish(alone, 16);
  expect(hex(inside.bytes.subarray(inside.at - bytes.byteLength, inside.at))).toBe(hex(bytes));
});

test("the reference runtime and we agree on every envelope, both ways", () => {
  const u32 = fc.integer({ min: 0, max: 0xffffffff });
  const blob = fc.uint8Array({ maxLength: 40 });
  const request = fc.record({ method: u32, promise: u32, target: u32, cap: blob, payload: blob });
  const response = fc.record({ status: u32, promise: u32, body: blob });
  fc.assert(
    fc.property(request, response, (asked, answered) => {
      const { promise, ...call } = asked;
      const theirs = buildRequest({ ...call, promiseID: promise });
      expect(hex(encodeRequest(asked))).toBe(hex(theirs));
      expect(decodeRequest(theirs)).toEqual({ ok: true, value: asked });
      expect(parseRequest(encodeRequest(asked))).toEqual({ ...call, promiseID: promise });

      const { status, body } = answered;
      const reply = buildResponse(status, answered.promise, body);
      expect(hex(encodeResponse(answered))).toBe(hex(reply));
      expect(decodeResponse(reply)).toEqual({ ok: true, value: answered });
      expect(parseResponse(encodeResponse(answered))).toEqual({
        status,
        promiseID: answered.promise,
        body,
      });
    }),
  );
});

test("the reference runtime and we parse and refuse the same headers", () => {
  const header = fc.tuple(
    fc.constantFrom([0x5a, 0x41, 0x50, 0], [0x5a, 0x41, 0x50, 1]),
    fc.constantFrom([1, 0], [2, 0], [0, 0], [3, 0], [1, 1]),
    fc.uint8Array({ minLength: 6, maxLength: 6 }),
    fc.constantFrom(0, 15, 16, 17, 24, 0xff),
    fc.uint8Array({ maxLength: 16 }),
  );
  fc.assert(
    fc.property(header, ([magic, version, middle, size, body]) => {
      const bytes = Uint8Array.from([...magic, ...version, ...middle, size, 0, 0, 0, ...body]);
      for (let end = 0; end <= bytes.byteLength; end++) {
        const given = bytes.subarray(0, end);
        const ours = parseZap(given);
        const theirs = peerSize(given);
        expect(ours.ok ? ours.value.end : null).toBe(theirs);
        if (!ours.ok) expect(ours.fault.code).toBe("malformed");
      }
    }),
  );
});

function peerSize(bytes: Uint8Array): number | null {
  try {
    return Message.parse(bytes).size();
  } catch {
    return null;
  }
}

function golden(name: string): (typeof GOLDENS)[number] {
  const found = GOLDENS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no golden file ${name}`);
  return found;
}

function parsed(bytes: Uint8Array): Zap {
  const zap = parseZap(bytes);
  if (!zap.ok) throw new Error(zap.fault.message);
  return zap.value;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
