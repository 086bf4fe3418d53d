import { encodeUtf8 } from "./utf8.ts";
import { ALIGN_BYTES, HEADER_BYTES, MAGIC, VERSION } from "./zap.ts";

/**
 * A ZAP message in the making. Children are written before what points to them, and an object's text
 * and bytes right after its fixed part, in their order: so the bytes are those of every other builder.
 */
export type Writer = {
  bytes: Uint8Array;
  view: DataView;
  /** Where the next byte goes. */
  at: number;
  /** Where the message that is being written begins: past 0 within a list's element. */
  start: number;
};

export function openWriter(capacityBytes: number = 256): Writer {
  const bytes = new Uint8Array(Math.max(capacityBytes, HEADER_BYTES));
  const writer = { bytes, view: new DataView(bytes.buffer), at: 0, start: 0 };
  rewind(writer);
  return writer;
}

/** Makes the writer ready for another message, in the memory that it has. */
export function rewind(writer: Writer): void {
  writer.at = 0;
  writer.start = 0;
  reserve(writer, HEADER_BYTES);
}

/** Ends the message, whose root object is at `root`: its bytes, not a copy. */
export function finish(
  writer: Writer,
  root: number,
  version: number = VERSION,
  flags: number = 0,
): Uint8Array {
  header(writer, root, version, flags);
  return writer.bytes.subarray(0, writer.at);
}

/** Starts an object of this size, filled with zero; where it is. */
export function startObject(writer: Writer, sizeBytes: number): number {
  align(writer);
  return reserve(writer, sizeBytes);
}

/** Starts a list, whose elements follow; where it is. */
export function startList(writer: Writer): number {
  align(writer);
  return writer.at;
}

export function writeBool(writer: Writer, at: number, value: boolean): void {
  writer.view.setUint8(at, value ? 1 : 0);
}

export function writeU8(writer: Writer, at: number, value: number): void {
  writer.view.setUint8(at, whole(value, 0, 0xff));
}

export function writeI8(writer: Writer, at: number, value: number): void {
  writer.view.setInt8(at, whole(value, -0x80, 0x7f));
}

export function writeU16(writer: Writer, at: number, value: number): void {
  writer.view.setUint16(at, whole(value, 0, 0xffff), true);
}

export function writeI16(writer: Writer, at: number, value: number): void {
  writer.view.setInt16(at, whole(value, -0x8000, 0x7fff), true);
}

export function writeU32(writer: Writer, at: number, value: number): void {
  writer.view.setUint32(at, whole(value, 0, 0xffffffff), true);
}

export function writeI32(writer: Writer, at: number, value: number): void {
  writer.view.setInt32(at, whole(value, -0x80000000, 0x7fffffff), true);
}

export function writeF32(writer: Writer, at: number, value: number): void {
  writer.view.setFloat32(at, value, true);
}

export function writeF64(writer: Writer, at: number, value: number): void {
  writer.view.setFloat64(at, value, true);
}

/** Throws for a value that is not whole, or 2^53 or more. */
export function writeU64(writer: Writer, at: number, value: number): void {
  writeWide(writer, at, whole(value, 0, Number.MAX_SAFE_INTEGER));
}

/** Throws for a value that is not whole, or not within -2^53 and 2^53. */
export function writeI64(writer: Writer, at: number, value: number): void {
  writeWide(writer, at, whole(value, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
}

/** Bytes that stand in the object itself. */
export function writeFixed(writer: Writer, at: number, value: Uint8Array): void {
  writer.bytes.set(value, at);
}

/** Appends the bytes, and points the field at `at` to them; nothing is null. */
export function writeBytes(writer: Writer, at: number, value: Uint8Array): void {
  if (value.byteLength === 0) return;
  const from = claim(writer, value.byteLength);
  writer.bytes.set(value, from);
  writer.view.setUint32(at, from - at, true);
  writer.view.setUint32(at + 4, value.byteLength, true);
}

/** Appends the text as UTF-8, and points the field at `at` to it; nothing is null. */
export function writeText(writer: Writer, at: number, value: string): void {
  if (value.length === 0) return;
  const from = writer.at;
  appendUtf8(writer, value);
  writer.view.setUint32(at, from - at, true);
  writer.view.setUint32(at + 4, writer.at - from, true);
}

/** Points the field at `at` to an object that is finished. */
export function writeObject(writer: Writer, at: number, object: number): void {
  writer.view.setInt32(at, object - at, true);
}

/** Points the field at `at` to a list that is finished; one without elements is null. */
export function writeList(writer: Writer, at: number, list: number, count: number): void {
  if (count === 0) return;
  writer.view.setInt32(at, list - at, true);
  writer.view.setUint32(at + 4, count, true);
}

/** Appends packed elements of a list, filled with zero; where they are. */
export function appendFixed(writer: Writer, sizeBytes: number): number {
  return reserve(writer, sizeBytes);
}

/** Appends a framed element that is a text. */
export function appendText(writer: Writer, value: string): void {
  const from = claim(writer, 4);
  appendUtf8(writer, value);
  writer.view.setUint32(from, writer.at - from - 4, true);
}

/** Appends a framed element that is bytes. */
export function appendBytes(writer: Writer, value: Uint8Array): void {
  const from = claim(writer, 4 + value.byteLength);
  writer.view.setUint32(from, value.byteLength, true);
  writer.bytes.set(value, from + 4);
}

/** Starts a framed element that is a message of its own; what `finishElement` wants to have back. */
export function startElement(writer: Writer): number {
  const outer = writer.start;
  claim(writer, 4);
  writer.start = writer.at;
  reserve(writer, HEADER_BYTES);
  return outer;
}

/** Ends the element, whose root object is at `root`. */
export function finishElement(writer: Writer, root: number, outer: number): void {
  header(writer, root, VERSION, 0);
  writer.view.setUint32(writer.start - 4, writer.at - writer.start, true);
  writer.start = outer;
}

function header(writer: Writer, root: number, version: number, flags: number): void {
  const { view, start } = writer;
  view.setUint32(start, MAGIC, true);
  view.setUint16(start + 4, version, true);
  view.setUint16(start + 6, flags, true);
  view.setUint32(start + 8, root - start, true);
  view.setUint32(start + 12, writer.at - start, true);
}

function align(writer: Writer): void {
  const over = (writer.at - writer.start) % ALIGN_BYTES;
  if (over !== 0) reserve(writer, ALIGN_BYTES - over);
}

/** The next `sizeBytes` bytes, filled with zero: a rewound writer's memory holds its last message. */
function reserve(writer: Writer, sizeBytes: number): number {
  const from = claim(writer, sizeBytes);
  const bytes = writer.bytes;
  for (let at = from; at < from + sizeBytes; at++) bytes[at] = 0;
  return from;
}

/** The next `sizeBytes` bytes, as they are. */
function claim(writer: Writer, sizeBytes: number): number {
  const from = writer.at;
  grow(writer, from + sizeBytes);
  writer.at = from + sizeBytes;
  return from;
}

function grow(writer: Writer, sizeBytes: number): void {
  if (sizeBytes <= writer.bytes.byteLength) return;
  const bytes = new Uint8Array(Math.max(sizeBytes, 2 * writer.bytes.byteLength));
  bytes.set(writer.bytes.subarray(0, writer.at));
  writer.bytes = bytes;
  writer.view = new DataView(bytes.buffer);
}

/** Most text is a byte a character, so that much room is made first, and three bytes for what is left. */
function appendUtf8(writer: Writer, value: string): void {
  grow(writer, writer.at + value.length);
  if (value.length <= SHORT_TEXT && appendAscii(writer, value)) return;
  let rest = value;
  for (;;) {
    const { read, written } = encodeUtf8(rest, writer.bytes.subarray(writer.at));
    writer.at += written;
    if (read === rest.length) return;
    rest = rest.slice(read);
    grow(writer, writer.at + 3 * rest.length);
  }
}

/** Below this, calling the platform's encoder costs more than its work. */
const SHORT_TEXT = 16;

/** Whether the text is ASCII, and has been appended. */
function appendAscii(writer: Writer, value: string): boolean {
  const { bytes, at } = writer;
  for (let index = 0; index < value.length; index++) {
    const unit = value.charCodeAt(index);
    if (unit > 0x7f) return false;
    bytes[at + index] = unit;
  }
  writer.at = at + value.length;
  return true;
}

function writeWide(writer: Writer, at: number, value: number): void {
  writer.view.setUint32(at, value % 2 ** 32, true);
  writer.view.setInt32(at + 4, Math.floor(value / 2 ** 32), true);
}

/** A number that its field cannot hold is our own bug, and would be another number on the wire. */
function whole(value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${value} is not a whole number from ${least} to ${most}`);
}
