import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFrame, FRAME_LIMIT_BYTES, FrameReader, type Result } from "../src/index.ts";

test("a stream gives the same messages wherever its chunks are split", () => {
  const messages = [[1, 2, 3], [], [4], [5, 6, 7, 8, 9, 10]].map((bytes) => Uint8Array.from(bytes));
  const stream = streamOf(messages);
  for (let first = 0; first <= stream.byteLength; first++) {
    for (let second = first; second <= stream.byteLength; second++) {
      const chunks = [
        stream.subarray(0, first),
        stream.subarray(first, second),
        stream.subarray(second),
      ];
      expect(readAll(chunks)).toEqual(messages);
    }
  }
});

test("any messages come back from chunks of any size", () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 });
  fc.assert(
    fc.property(messages, fc.infiniteStream(fc.integer({ min: 1, max: 200 })), (given, sizes) => {
      const stream = streamOf(given);
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < stream.byteLength; ) {
        const size = sizes.next().value ?? 1;
        chunks.push(stream.subarray(at, at + size));
        at += size;
      }
      expect(readAll(chunks)).toEqual(given);
    }),
  );
});

test("a message does not share memory with the chunks that it came in", () => {
  const chunk = encodeFrame(Uint8Array.of(1, 2, 3));
  const [message] = new FrameReader().push(chunk);
  chunk.fill(0);
  expect(message).toEqual({ ok: true, value: Uint8Array.of(1, 2, 3) });
});

test("a frame of the limit is read, and one above it is refused", () => {
  const reader = new FrameReader();
  const [message] = reader.push(encodeFrame(new Uint8Array(FRAME_LIMIT_BYTES)));
  expect(message?.ok && message.value.byteLength).toBe(FRAME_LIMIT_BYTES);
  const [refused] = reader.push(prefix(FRAME_LIMIT_BYTES + 1));
  expect(why(refused)).toBe("too_large");
  expect(() => encodeFrame(new Uint8Array(FRAME_LIMIT_BYTES + 1))).toThrow(/FRAME_LIMIT_BYTES/);
});

test("what came whole before a refused frame is given, and nothing after it", () => {
  const reader = new FrameReader();
  const whole = encodeFrame(Uint8Array.of(7));
  const results = reader.push(Buffer.concat([whole, prefix(0xffffffff), whole]));
  expect(results.map(why)).toEqual(["message", "too_large"]);
  expect(reader.push(whole).map(why)).toEqual(["too_large"]);
});

test("a stream that ends within a frame is cut, and one that ends between frames is not", () => {
  const frame = encodeFrame(Uint8Array.of(1, 2, 3));
  for (let end = 0; end <= frame.byteLength; end++) {
    const reader = new FrameReader();
    reader.push(frame.subarray(0, end));
    const ended = reader.end();
    expect(ended.ok ? "whole" : ended.fault.code).toBe(
      end % frame.byteLength === 0 ? "whole" : "cut",
    );
  }
});

test("a frame that only claims its length takes no memory for it", () => {
  const before = process.memoryUsage().arrayBuffers;
  const readers = Array.from({ length: 64 }, () => new FrameReader());
  for (const reader of readers) {
    reader.push(prefix(FRAME_LIMIT_BYTES));
    reader.push(new Uint8Array(100));
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(FRAME_LIMIT_BYTES / 2);
  expect(readers.every((reader) => !reader.end().ok)).toBe(true);
});

test("a frame in many chunks costs its bytes, not the square of them", () => {
  const frame = encodeFrame(new Uint8Array(4 * 1024 * 1024));
  const reader = new FrameReader();
  const startMs = performance.now();
  let messageCount = 0;
  for (let at = 0; at < frame.byteLength; at += 64) {
    messageCount += reader.push(frame.subarray(at, at + 64)).length;
  }
  expect(messageCount).toBe(1);
  // Joining at every chunk would copy 128 GiB.
  expect(performance.now() - startMs).toBeLessThan(5000);
});

function streamOf(messages: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(messages.map(encodeFrame)));
}

function readAll(chunks: readonly Uint8Array[]): Uint8Array[] {
  const reader = new FrameReader();
  const messages: Uint8Array[] = [];
  for (const chunk of chunks) {
    for (const message of reader.push(chunk)) {
      if (!message.ok) throw new Error(message.fault.message);
      messages.push(message.value);
    }
  }
  expect(reader.end().ok).toBe(true);
  return messages;
}

function prefix(sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, sizeBytes, true);
  return bytes;
}

function why(result: Result<Uint8Array> | undefined): string {
  if (result === undefined) return "nothing";
  return result.ok ? "message" : result.fault.code;
}
