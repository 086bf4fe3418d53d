import { decodeUtf8 } from "./utf8.ts";
import { HEADER_BYTES, NULL, type Zap, zapWithin } from "./zap.ts";

/**
 * Reading is total: `at` may be anything, and what lies outside of the message reads as 0 or empty.
 * A position is one in the message's buffer: an object's, plus the field's offset.
 */
export function readBool(zap: Zap, at: number): boolean {
  return holds(zap, at, 1) && zap.view.getUint8(at) !== 0;
}

export function readU8(zap: Zap, at: number): number {
  return holds(zap, at, 1) ? zap.view.getUint8(at) : 0;
}

export function readI8(zap: Zap, at: number): number {
  return holds(zap, at, 1) ? zap.view.getInt8(at) : 0;
}

export function readU16(zap: Zap, at: number): number {
  return holds(zap, at, 2) ? zap.view.getUint16(at, true) : 0;
}

export function readI16(zap: Zap, at: number): number {
  return holds(zap, at, 2) ? zap.view.getInt16(at, true) : 0;
}

export function readU32(zap: Zap, at: number): number {
  return holds(zap, at, 4) ? zap.view.getUint32(at, true) : 0;
}

export function readI32(zap: Zap, at: number): number {
  return holds(zap, at, 4) ? zap.view.getInt32(at, true) : 0;
}

export function readF32(zap: Zap, at: number): number {
  return holds(zap, at, 4) ? zap.view.getFloat32(at, true) : 0;
}

export function readF64(zap: Zap, at: number): number {
  return holds(zap, at, 8) ? zap.view.getFloat64(at, true) : 0;
}

/** NaN when the value is 2^53 or more: a number does not hold it exactly. */
export function readU64(zap: Zap, at: number): number {
  if (!holds(zap, at, 8)) return 0;
  const high = zap.view.getUint32(at + 4, true);
  if (high >= HIGH_LIMIT) return Number.NaN;
  return high * 2 ** 32 + zap.view.getUint32(at, true);
}

/** NaN when the value is not within -2^53 and 2^53, both left out. */
export function readI64(zap: Zap, at: number): number {
  if (!holds(zap, at, 8)) return 0;
  const value = zap.view.getInt32(at + 4, true) * 2 ** 32 + zap.view.getUint32(at, true);
  return Number.isSafeInteger(value) ? value : Number.NaN;
}

/** The `sizeBytes` bytes that stand in the object itself; not a copy. */
export function readFixed(zap: Zap, at: number, sizeBytes: number): Uint8Array {
  return holds(zap, at, sizeBytes)
    ? zap.bytes.subarray(at, at + sizeBytes)
    : zap.bytes.subarray(0, 0);
}

/** A bytes field; not a copy. */
export function readBytes(zap: Zap, at: number): Uint8Array {
  const from = tailAt(zap, at);
  if (from < 0) return zap.bytes.subarray(0, 0);
  return zap.bytes.subarray(from, from + zap.view.getUint32(at + 4, true));
}

/** A text field; null when it is not UTF-8. */
export function readText(zap: Zap, at: number): string | null {
  const from = tailAt(zap, at);
  return from < 0 ? "" : textWithin(zap, from, from + zap.view.getUint32(at + 4, true));
}

/** Where the text or bytes of the field at `at` begin, or `NULL`; its length is the u32 at `at + 4`. */
export function tailAt(zap: Zap, at: number): number {
  if (!holds(zap, at, 8)) return NULL;
  const rel = zap.view.getUint32(at, true);
  const from = at + rel;
  return rel !== 0 && holds(zap, from, zap.view.getUint32(at + 4, true)) ? from : NULL;
}

/** The text of the bytes `from` to `to`, which lie within the message; null when it is not UTF-8. */
export function textWithin(zap: Zap, from: number, to: number): string | null {
  return from === to ? "" : decodeUtf8(zap.bytes.subarray(from, to));
}

/** Where the object is that the field at `at` points to, or `NULL`. */
export function readObject(zap: Zap, at: number): number {
  return holds(zap, at, 4) ? target(zap, at) : NULL;
}

/** Where the elements are of the list that the field at `at` points to, or `NULL`. */
export function readList(zap: Zap, at: number): number {
  return readCount(zap, at) === 0 ? NULL : target(zap, at);
}

/** How many elements the list has that the field at `at` points to; 0 when it is null. */
export function readCount(zap: Zap, at: number): number {
  if (!holds(zap, at, 8) || target(zap, at) < 0) return 0;
  const count = zap.view.getUint32(at + 4, true);
  return count > zap.end - zap.start ? 0 : count;
}

/**
 * Where the framed element ends that begins at `at` with its length, or `NULL` when it leaves the
 * message. Its data are from `at + 4` to there, where the next element begins.
 */
export function elementEnd(zap: Zap, at: number): number {
  if (!holds(zap, at, 4)) return NULL;
  const end = at + 4 + zap.view.getUint32(at, true);
  return end > zap.end ? NULL : end;
}

/** The message that is the framed element at `at`; null when it is none. */
export function readElement(zap: Zap, at: number): Zap | null {
  const end = elementEnd(zap, at);
  if (end < 0) return null;
  const element = zapWithin(zap.bytes, zap.view, at + 4, end);
  return typeof element === "string" ? null : element;
}

/** From here on the high half of a u64 makes it 2^53 or more. */
const HIGH_LIMIT = 2 ** 21;

function holds(zap: Zap, at: number, sizeBytes: number): boolean {
  return at >= zap.start + HEADER_BYTES && at + sizeBytes <= zap.end;
}

function target(zap: Zap, at: number): number {
  const rel = zap.view.getInt32(at, true);
  const to = at + rel;
  return rel === 0 || to < zap.start + HEADER_BYTES || to >= zap.end ? NULL : to;
}
