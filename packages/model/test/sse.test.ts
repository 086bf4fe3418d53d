import fc from "fast-check";
import { expect, test } from "vitest";
import { openEventReader } from "../src/sse.ts";

const LIMIT_BYTES = 4_096;

function read(chunks: readonly Uint8Array[]): readonly string[] {
  const seen: string[] = [];
  const reader = openEventReader(LIMIT_BYTES, (data) => seen.push(data));
  for (const chunk of chunks) expect(reader.push(chunk)).toBe(true);
  return seen;
}

const one = (text: string): readonly string[] => read([Buffer.from(text)]);

test.each<[string, string, readonly string[]]>([
  ["an event of one line", "data: a\n\n", ["a"]],
  ["one without the space", "data:a\n\n", ["a"]],
  ["only the first space is dropped", "data:  a\n\n", [" a"]],
  ["several lines are one event", "data: a\ndata: b\ndata\n\n", ["a\nb\n"]],
  ["comments and other fields are nothing", ": x\nid: 1\nevent: e\nretry: z\nfoo: b\n\n", []],
  ["a byte order mark is nothing", "\uFEFFdata: a\n\n", ["a"]],
  ["an event without its blank line was cut", "data: a\n\ndata: b\n", ["a"]],
  ["a colon in the data stays", "data: {a: b}\n\n", ["{a: b}"]],
])("%s", (_, text, events) => {
  expect(one(text)).toEqual(events);
});

test("however the bytes are cut, the events are the same", () => {
  const line = fc.stringMatching(/^[a-z🎉é ]*$/u);
  const events = fc.array(fc.array(line, { minLength: 1 }), { maxLength: 5 });
  const ends = fc.constantFrom("\n", "\r\n");
  fc.assert(
    fc.property(events, ends, fc.array(fc.nat(200)), (all, end, cuts) => {
      const lines = all.map((data) => [...data.map((text) => `data: ${text}`), "", ""].join(end));
      const bytes = Buffer.from(lines.join(""));
      const points = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b)];
      const chunks = points.map((point, index) => bytes.subarray(point, points[index + 1]));
      expect(read(chunks)).toEqual(all.map((data) => data.join("\n")));
    }),
  );
});

test("a carriage return at a stream's orderly end ends its last event, and at a cut does not", () => {
  const seen: string[] = [];
  const reader = openEventReader(LIMIT_BYTES, (data) => seen.push(data));
  reader.push(Buffer.from("data: a\r\r"));
  expect(seen).toEqual([]);
  reader.end();
  expect(seen).toEqual(["a"]);
  expect(read([Buffer.from("data: a\r\n\r\n")])).toEqual(["a"]);
});

test.each([
  ["a line without an end", `data: ${"x".repeat(LIMIT_BYTES)}`],
  ["lines without a blank one", "data: x\n".repeat(LIMIT_BYTES)],
  ["an event", `data: ${"x".repeat(LIMIT_BYTES + 1)}\n\n`],
])("%s has a limit, in one chunk and in many", (_, text) => {
  for (const size of [text.length, 100]) {
    const reader = openEventReader(LIMIT_BYTES, () => {});
    let within = true;
    for (let start = 0; start < text.length; start += size) {
      within = reader.push(Buffer.from(text.slice(start, start + size)));
    }
    expect(within).toBe(false);
    expect(reader.push(Buffer.from("data: more\n\n"))).toBe(false);
  }
});
