import { EVENT, type Event, encodeEvent } from "@dev/protocol";
import { type Type, widthOf } from "../../packages/protocol/src/layout.ts";
import { HEADER_BYTES } from "../../packages/protocol/src/zap.ts";
import { code, table } from "./page.ts";
import { blocks, json } from "./shape.ts";

/** How each type of field lies in its object, and one event with each of its bytes explained. */
export function bytesOf(): string {
  const widths = TYPES.map(([name, type, what]) => [code(name), String(widthOf(type)), what]);
  return blocks([
    table(["type", "bytes", "what they are"], widths),
    "This event",
    json([SAMPLE]),
    "is these bytes:",
    table(["at", "bytes", "what they are"], explained(encodeEvent(SAMPLE))),
  ]);
}

const SAMPLE = { kind: "steer", text: "mind ✓" } as const satisfies Event;

const POINTER = "a pointer, relative to itself";
const TYPES: readonly (readonly [name: string, type: Type, what: string])[] = [
  ["bool", { kind: "bool" }, "0 or 1"],
  ["words with numbers", { kind: "code", names: [], codes: new Map() }, "the word's number"],
  ["u32", { kind: "u32" }, "a whole number, 0 or more"],
  ["i32", { kind: "i32" }, "a whole number, two's complement"],
  ["u64", { kind: "u64" }, "a whole number below 2^53; every numeric id is one"],
  ["text", { kind: "text" }, `${POINTER}, as u32; then how many bytes of UTF-8, as u32`],
  ["digest", { kind: "digest", words: [] }, "as text: 64 hexadecimal digits, or the word"],
  ["an object", { kind: "object", of: EVENT }, `${POINTER}, as i32`],
  ["a list", { kind: "list", of: EVENT }, `${POINTER}, as i32; then how many elements, as u32`],
  ["texts", { kind: "texts" }, "as a list"],
];

/** Each byte of an event that has one field, which is text. */
function explained(bytes: Uint8Array): readonly string[][] {
  const layout = EVENT.byKind.get(SAMPLE.kind);
  const [slot] = layout?.slots ?? [];
  if (!layout || !slot) throw new Error("the sample has a field");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const root = view.getUint32(8, true);
  const field = root + slot.at;
  const from = field + view.getUint32(field, true);
  const to = from + view.getUint32(field + 4, true);
  const row = (at: number, end: number, what: string) => [String(at), hex(bytes, at, end), what];
  return [
    row(0, 4, "`ZAP` and a zero"),
    row(4, 6, "the version, 1"),
    row(6, 8, "flags, none"),
    row(8, 12, `where the root object is: at ${root}`),
    row(12, HEADER_BYTES, `the size of the whole: ${view.getUint32(12, true)} bytes`),
    row(root, root + 1, `the tag: ${code(SAMPLE.kind)} is ${layout.tag}`),
    row(root + 1, field, "nothing"),
    row(field, field + 4, `${code(slot.name)} is ${from - field} bytes further, at ${from}`),
    row(field + 4, field + 8, `and has ${to - from} bytes`),
    row(from, to, code(SAMPLE.text)),
  ];
}

function hex(bytes: Uint8Array, from: number, to: number): string {
  return code(
    Buffer.from(bytes.subarray(from, to))
      .toString("hex")
      .replaceAll(/..(?!$)/g, "$& "),
  );
}
