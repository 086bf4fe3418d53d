import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type ActionId,
  decodeAction,
  decodeEvent,
  decodeRequest,
  decodeResponse,
  decodeShape,
  type Event,
  encodeAction,
  encodeEvent,
  encodeShape,
  NESTING_LIMIT,
  type Result,
  type Shape,
  shapeFromJson,
} from "../src/index.ts";
import type { AnyShape, Layout } from "../src/layout.ts";
import {
  elementEnd,
  readBool,
  readBytes,
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
  readObject,
  readText,
  readU8,
  readU16,
  readU32,
  readU64,
} from "../src/reader.ts";
import { finish, openWriter, startObject, writeObject, writeU8, writeU32 } from "../src/writer.ts";
import { NULL, parseZap, type Zap } from "../src/zap.ts";
import { encodeGolden, GOLDENS, type Golden } from "./golden.ts";
import { EVENTS } from "./sample.ts";

test.each(GOLDENS)("$name cut at any byte is malformed", (golden) => {
  const bytes = encodeGolden(golden);
  for (let end = 0; end < bytes.byteLength; end++) {
    expect(why(read(golden, bytes.subarray(0, end)))).toBe("malformed");
  }
});

test.each(GOLDENS)("$name cut at any byte, with a header that says so, never throws", (golden) => {
  const bytes = encodeGolden(golden);
  for (let end = 16; end < bytes.byteLength; end++) {
    const cut = bytes.slice(0, end);
    new DataView(cut.buffer).setUint32(12, end, true);
    settled(golden, cut);
  }
});

test.each(GOLDENS)(
  "$name with any bit flipped never throws, and what is read is stable",
  (golden) => {
    const bytes = encodeGolden(golden);
    for (let bit = 0; bit < 8 * bytes.byteLength; bit++) {
      const at = bit >> 3;
      const flipped = bytes.slice();
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (bit & 7));
      settled(golden, flipped);
    }
  },
);

test.each(GOLDENS)(
  "$name with any word replaced never throws, and what is read is stable",
  (golden) => {
    const bytes = encodeGolden(golden);
    for (let at = 0; at + 4 <= bytes.byteLength; at++) {
      for (const word of [0, 1, 16, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff]) {
        const replaced = bytes.slice();
        new DataView(replaced.buffer).setUint32(at, word, true);
        settled(golden, replaced);
      }
    }
  },
);

test("any bytes at all give a result", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(why(decodeEvent(bytes))).toBe("malformed");
      expect(why(decodeAction(bytes))).toBe("malformed");
      expect(why(decodeRequest(bytes))).toBe("malformed");
      expect(why(decodeResponse(bytes))).toBe("malformed");
    }),
    { numRuns: 2000 },
  );
});

test("any bytes behind a header give a result, and what is read is stable", () => {
  const body = fc.uint8Array({ minLength: 8, maxLength: 200 });
  const small = fc.array(fc.constantFrom(0, 1, 2, 3, 4, 5, 8, 16, 24, 255), { maxLength: 200 });
  fc.assert(
    fc.property(fc.oneof(body, small), fc.constantFrom(16, 17, 24, 40), (bytes, root) => {
      const message = headed([...bytes], root);
      const [event] = GOLDENS;
      const action = GOLDENS.at(-1);
      if (event !== undefined) settled(event, message);
      if (action !== undefined) settled(action, message);
    }),
    { numRuns: 5000 },
  );
});

test("every read at any place of any message is 0, empty or within the message", () => {
  const places = fc.oneof(
    fc.integer({ min: -40, max: 300 }),
    fc.constantFrom(
      NULL,
      NULL + 8,
      2 ** 31,
      2 ** 32,
      2 ** 53,
      Number.NaN,
      Number.POSITIVE_INFINITY,
    ),
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), places, (bytes, at) => {
      const zap = parsed(headed([...bytes], 16));
      for (const scalar of [readU8, readI8, readU16, readI16, readU32, readI32, readF32, readF64]) {
        expect(typeof scalar(zap, at)).toBe("number");
        if (!(at >= 16 && at < zap.end)) expect(scalar(zap, at)).toBe(0);
      }
      for (const wide of [readU64, readI64]) {
        const value = wide(zap, at);
        expect(Number.isNaN(value) || Number.isSafeInteger(value)).toBe(true);
      }
      if (!(at >= 16 && at < zap.end)) expect(readBool(zap, at)).toBe(false);
      expect(readBytes(zap, at).byteLength).toBeLessThanOrEqual(zap.end - 16);
      expect([0, 8]).toContain(readFixed(zap, at, 8).byteLength);
      expect(["string", "object"]).toContain(typeof readText(zap, at));
      expect(readCount(zap, at)).toBeLessThanOrEqual(zap.end);
      for (const pointed of [readObject(zap, at), readList(zap, at)]) {
        expect(pointed === NULL || (pointed >= 16 && pointed < zap.end)).toBe(true);
      }
      const end = elementEnd(zap, at);
      expect(end === NULL || (end >= at + 4 && end <= zap.end)).toBe(true);
      expect(readElement(zap, at)?.end ?? 0).toBeLessThanOrEqual(zap.end);
    }),
    { numRuns: 1000 },
  );
});

test("every field of an object that is not there reads as 0 or empty", () => {
  const zap = parsed(encodeEvent({ kind: "steer", text: "x".repeat(100) }));
  const nothing = readObject(zap, zap.root + 4);
  expect(nothing).toBe(NULL);
  for (const offset of [0, 4, 16, 64, 128]) {
    expect(readU32(zap, nothing + offset)).toBe(0);
    expect(readText(zap, nothing + offset)).toBe("");
    expect(readObject(zap, nothing + offset)).toBe(NULL);
  }
});

test("a pointer below the header or beyond the message reads as null", () => {
  for (const rel of [-1, -8, -16, -24, -0x80000000, 8, 0x7fffffff]) {
    const writer = openWriter();
    const root = startObject(writer, 8);
    writeObject(writer, root, root + rel);
    writeU32(writer, root + 4, 1);
    const zap = parsed(finish(writer, root));
    expect(readObject(zap, zap.root)).toBe(NULL);
    expect(readCount(zap, zap.root)).toBe(0);
  }
});

test("a list of 2^32-1 elements is refused at once", () => {
  const bytes = encodeAction({ ...exec(), op: { kind: "git", argv: ["status"] } });
  const zap = parsed(bytes);
  const argv = readObject(zap, zap.root + 24) + 8;
  for (const count of [0xffffffff, bytes.byteLength + 1, bytes.byteLength]) {
    zap.view.setUint32(argv + 4, count, true);
    expect(subject(decodeAction(bytes))).toMatch(/^op\.argv/);
  }
});

test("a list count larger than the message reads as null", () => {
  const writer = openWriter();
  const list = startObject(writer, 8);
  const root = startObject(writer, 8);
  writeObject(writer, root, list);
  for (const [count, read] of [
    [32, 32],
    [33, 0],
    [0xffffffff, 0],
  ] as const) {
    writeU32(writer, root + 4, count);
    const zap = parsed(finish(writer, root));
    expect(zap.end).toBe(32);
    expect(readCount(zap, zap.root)).toBe(read);
    expect(readList(zap, zap.root)).toBe(read === 0 ? NULL : list);
  }
});

test("an object that is missing, or leaves its message, is refused, not taken for zeros", () => {
  const bytes = encodeEvent(first("model"));
  const { view, root, end } = parsed(bytes);
  const usage = root + 16;
  for (const to of [usage, 0, 8, end, end + 8, end - 8, end - 31]) {
    view.setInt32(usage, to - usage, true);
    expect(subject(decodeEvent(bytes))).toBe("usage");
  }
});

test("a root below the header or beyond the message is no object", () => {
  for (const root of [0, 8, 15, 17, 0xffffffff]) {
    const bytes = encodeEvent(first("timer"));
    new DataView(bytes.buffer).setUint32(8, root, true);
    expect(parsed(bytes).root).toBe(NULL);
    expect(why(decodeEvent(bytes))).toBe("malformed");
  }
});

test("a list of millions of empty elements takes no longer than its bytes", () => {
  const count = 1_900_000;
  const writer = openWriter(8 * 1024 * 1024);
  writer.at = 24;
  const list = writer.at;
  writer.at += 4 * count;
  const root = startObject(writer, 32);
  writeU8(writer, root, 8);
  writer.view.setInt32(root + 24, list - root - 24, true);
  writeU32(writer, root + 28, count);
  const event = decodeEvent(finish(writer, root));
  expect(event.ok && event.value.kind === "reply" && event.value.choices.length).toBe(count);
});

test("text that is not UTF-8 is malformed, and the fault says where", () => {
  for (const bad of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80], [0xc0, 0x80]]) {
    const bytes = encodeEvent({ kind: "steer", text: "x".repeat(bad.length) });
    bytes.set(bad, bytes.byteLength - bad.length);
    const event = decodeEvent(bytes);
    expect(why(event)).toBe("malformed");
    expect(subject(event)).toBe("text");
  }
  const bytes = encodeAction({ ...exec(), op: { kind: "git", argv: ["log", "@"] } });
  bytes[bytes.indexOf("@".charCodeAt(0))] = 0xff;
  expect(subject(decodeAction(bytes))).toBe("op.argv[1]");
});

test("an id of 2^53 or more is malformed", () => {
  const bytes = encodeEvent({ ...first("cancel") });
  const { view, root } = parsed(bytes);
  view.setUint32(root + 12, 2 ** 21 - 1, true);
  expect(decodeEvent(bytes).ok).toBe(true);
  for (const high of [2 ** 21, 2 ** 31, 2 ** 32 - 1]) {
    view.setUint32(root + 12, high, true);
    expect(subject(decodeEvent(bytes))).toBe("turn");
  }
});

test("an unknown tag is malformed at every place that has one", () => {
  for (const tag of [0, 12, 255]) {
    const bytes = encodeEvent(first("timer"));
    bytes[16] = tag;
    expect(why(decodeEvent(bytes))).toBe("malformed");
  }
  const bytes = encodeAction(exec());
  const zap = parsed(bytes);
  // 32 is a call's tag, and no action's.
  for (const tag of [0, 10, 32, 255]) {
    zap.view.setUint8(readObject(zap, zap.root + 24), tag);
    expect(subject(decodeAction(bytes))).toBe("op");
  }
});

test("an unknown code is malformed", () => {
  const bytes = encodeEvent(first("turn"));
  const { view, root } = parsed(bytes);
  for (const code of [0, 5, 255]) {
    view.setUint8(root + 1, code);
    expect(subject(decodeEvent(bytes))).toBe("mode");
  }
});

test("a digest that is none is malformed", () => {
  const bytes = encodeAction({
    ...exec(),
    op: { kind: "write", path: "a", text: "", expect: "absent" },
  });
  bytes[Buffer.from(bytes).indexOf("absent")] = "A".charCodeAt(0);
  expect(subject(decodeAction(bytes))).toBe("op.expect");
});

test("a text whose pointer is damaged is refused, not taken for empty", () => {
  const bytes = encodeEvent({ kind: "steer", text: "keep me" });
  const { view, root } = parsed(bytes);
  view.setUint32(root + 8, 0, true);
  expect(subject(decodeEvent(bytes))).toBe("text");
});

test("a compressed or an encrypted message is refused, a signed one is read", () => {
  const bytes = encodeEvent(first("timer"));
  for (const [flags, is] of [
    [1, false],
    [2, false],
    [4, true],
  ] as const) {
    bytes[6] = flags;
    expect(decodeEvent(bytes).ok).toBe(is);
  }
});

// No type of the protocol contains itself; one that does is what the limit is for.
type Tree = { readonly kind: "leaf" } | { readonly kind: "node"; readonly next: Tree };
const TREE = recursive();
const LIMIT = { name: "a test's limit", bytes: 1024 * 1024 };

test("nesting is read up to its limit, and refused beyond it", () => {
  expect(decodeShape(TREE, nested(NESTING_LIMIT), LIMIT).ok).toBe(true);
  expect(encodeShape(TREE, tree(NESTING_LIMIT))).toEqual(nested(NESTING_LIMIT));
  for (const depth of [NESTING_LIMIT + 1, 10_000]) {
    const deep = decodeShape(TREE, nested(depth), LIMIT);
    expect(why(deep)).toBe("malformed");
    expect(deep.ok ? "" : deep.fault.message).toContain("NESTING_LIMIT");
  }
});

test("JSON that nests too deep is refused, and writing it is a bug", () => {
  expect(shapeFromJson(TREE, tree(NESTING_LIMIT)).ok).toBe(true);
  expect(why(shapeFromJson(TREE, tree(10_000)))).toBe("malformed");
  expect(() => encodeShape(TREE, tree(NESTING_LIMIT + 1))).toThrow(/NESTING_LIMIT/);
});

test("a pointer cycle is refused", () => {
  const writer = openWriter();
  const root = startObject(writer, 8);
  writeU8(writer, root, 2);
  writeObject(writer, root + 4, root);
  expect(why(decodeShape(TREE, finish(writer, root), LIMIT))).toBe("malformed");

  // The action becomes its own op, whose tag is then the first byte of the id.
  const action = encodeAction({ ...exec(), id: 200 as ActionId });
  const zap = parsed(action);
  zap.view.setInt32(zap.root + 24, -24, true);
  expect(why(decodeAction(action))).toBe("malformed");
});

function recursive(): Shape<Tree> {
  const slots: Layout["slots"][number][] = [];
  const leaf = {
    kind: "leaf",
    tag: 1,
    sizeBytes: 1,
    slots: [],
    children: [],
    scalars: [],
    texts: [],
  };
  const node = {
    kind: "node",
    tag: 2,
    sizeBytes: 8,
    slots,
    children: slots,
    scalars: [],
    texts: [],
  };
  const byKind = new Map<string, Layout>(Object.entries({ leaf, node }));
  const shape: AnyShape = { kind: "union", name: "Tree", byKind, byTag: [undefined, leaf, node] };
  slots.push({ name: "next", at: 4, type: { kind: "object", of: shape }, presence: "always" });
  return shape;
}

function tree(depth: number): Tree {
  let grown: Tree = { kind: "leaf" };
  for (let index = 0; index < depth; index++) grown = { kind: "node", next: grown };
  return grown;
}

function nested(depth: number): Uint8Array {
  const writer = openWriter();
  let at = startObject(writer, 1);
  writeU8(writer, at, 1);
  for (let index = 0; index < depth; index++) {
    const node = startObject(writer, 8);
    writeU8(writer, node, 2);
    writeObject(writer, node + 4, at);
    at = node;
  }
  return finish(writer, at);
}

/** A message whose header is right, whatever is behind it. */
function headed(body: readonly number[], root: number): Uint8Array {
  const bytes = Uint8Array.from([
    0x5a,
    0x41,
    0x50,
    0,
    1,
    0,
    0,
    0,
    root,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    ...body,
  ]);
  new DataView(bytes.buffer).setUint32(12, bytes.byteLength, true);
  return bytes;
}

function read(golden: Golden, bytes: Uint8Array): Result<unknown> {
  return golden.kind === "event" ? decodeEvent(bytes) : decodeAction(bytes);
}

/**
 * Reads damaged bytes: either a fault, or a value that is the same once written and read again. It is
 * called for millions of bytes, so it compares by itself, and leaves to `expect` what must be shown.
 */
function settled(golden: Golden, bytes: Uint8Array): void {
  const given = read(golden, bytes);
  if (!given.ok) {
    if (given.fault.code !== "malformed") expect(given).toBe("a value, or malformed");
    return;
  }
  const again = read(golden, encodeGolden({ ...golden, value: given.value } as Golden));
  if (!isDeepStrictEqual(again, given)) expect(again).toStrictEqual(given);
}

function why(result: Result<unknown>): string {
  return result.ok ? "read" : result.fault.code;
}

function subject(result: Result<unknown>): string {
  return result.ok ? "read" : result.fault.subject;
}

function first(kind: Event["kind"]): Event {
  const [event] = EVENTS[kind];
  if (event === undefined) throw new Error(`no sample of ${kind}`);
  return event;
}

function exec(): Extract<Golden, { readonly kind: "action" }>["value"] {
  const golden = GOLDENS.find((each) => each.name === "action-exec-1");
  if (golden?.kind !== "action") throw new Error("no sample of exec");
  return golden.value;
}

function parsed(bytes: Uint8Array): Zap {
  const zap = parseZap(bytes);
  if (!zap.ok) throw new Error(zap.fault.message);
  return zap.value;
}
