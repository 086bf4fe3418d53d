import { fail, fault, ok, type Result } from "./fault.ts";

/**
 * ZAP, the Zero-copy Application Protocol: flat little-endian messages. A header of 16 bytes, then
 * objects whose fields stand at fixed offsets; a field of variable size is a pointer relative to itself.
 *
 * A parsed message: the bytes from `start` to `end` of a buffer that it may share with others.
 */
export type Zap = {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Where the message begins in `bytes`; its own offsets count from here. */
  readonly start: number;
  readonly end: number;
  readonly flags: number;
  /** Where the root object is in `bytes`, or `NULL`. */
  readonly root: number;
};

export const HEADER_BYTES: number = 16;
/** Objects and lists start at a multiple of this, counted from the start of their message. */
export const ALIGN_BYTES: number = 8;
/** `ZAP\0`, read as a little-endian u32. */
export const MAGIC: number = 0x0050415a;
export const VERSION: number = 1;
/** The version of an RPC envelope; its layout is that of version 1. */
export const ENVELOPE_VERSION: number = 2;

export const FLAG_COMPRESSED: number = 1;
export const FLAG_ENCRYPTED: number = 2;

/**
 * Where an object or list is that is not there. So far below every message that adding any field's
 * offset to it is still outside, so that each of its fields reads as 0 or empty.
 */
export const NULL: number = -(2 ** 30);

/**
 * Reads a message's header. Bytes past the size that it states are cut off. Fault: `malformed`, for
 * fewer than 16 bytes, a wrong magic, an unknown version, or a size outside of 16 to the bytes given.
 */
export function parseZap(bytes: Uint8Array): Result<Zap> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const zap = zapWithin(bytes, view, 0, bytes.byteLength);
  return typeof zap === "string" ? fail(fault("malformed", zap)) : ok(zap);
}

/** Reads the header of a message that lies from `start` to `end` of `bytes`; a string says why not. */
export function zapWithin(
  bytes: Uint8Array,
  view: DataView,
  start: number,
  end: number,
): Zap | string {
  if (end - start < HEADER_BYTES) return "a message has at least 16 bytes";
  if (view.getUint32(start, true) !== MAGIC) return "not a ZAP message";
  const version = view.getUint16(start + 4, true);
  if (version !== VERSION && version !== ENVELOPE_VERSION) return `unknown version ${version}`;
  const sizeBytes = view.getUint32(start + 12, true);
  if (sizeBytes < HEADER_BYTES || sizeBytes > end - start) {
    return `the size ${sizeBytes} is not within 16 and ${end - start}`;
  }
  const flags = view.getUint16(start + 6, true);
  const rootBytes = view.getUint32(start + 8, true);
  const root = rootBytes < HEADER_BYTES || rootBytes >= sizeBytes ? NULL : start + rootBytes;
  return { bytes, view, start, end: start + sizeBytes, flags, root };
}
