import { crc32 } from "node:zlib";
import { fail, fault, NESTING_LIMIT, ok, type Result } from "@dev/protocol";

/**
 * The frame of a stored snapshot: magic `DEVS`, then as little-endian u32 the frame's version, the
 * CRC-32 of the text and its length in bytes, then the core's text in UTF-8. The checksum catches
 * damage in storage; it is no signature.
 */
export function seal(text: Uint8Array): Uint8Array {
  // Not a Buffer, whose `slice` would share what it is a part of.
  const sealed = new Uint8Array(HEAD_BYTES + text.length);
  sealed.set(text, HEAD_BYTES);
  const head = Buffer.from(sealed.buffer, 0, HEAD_BYTES);
  head.writeUInt32LE(MAGIC, 0);
  head.writeUInt32LE(FRAME_VERSION, 4);
  head.writeUInt32LE(crc32(text), 8);
  head.writeUInt32LE(text.length, 12);
  return sealed;
}

/** Reads what `seal` wrote: the text, in the bytes that were given. Faults: `malformed` (damage), `newer_version`. */
export function unseal(bytes: Uint8Array): Result<Buffer> {
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (frame.length < HEAD_BYTES || frame.readUInt32LE(0) !== MAGIC)
    return damaged("not a snapshot");
  const version = frame.readUInt32LE(4);
  if (version === 0) return damaged("a damaged snapshot");
  if (version > FRAME_VERSION) {
    return fail(
      fault("newer_version", `a snapshot frame of version ${version}`, "", "use a newer release"),
    );
  }
  const body = frame.subarray(HEAD_BYTES);
  if (body.length !== frame.readUInt32LE(12)) return damaged("a snapshot that was cut");
  if (crc32(body) !== frame.readUInt32LE(8)) return damaged("a damaged snapshot");
  if (isDeep(body)) return damaged("a snapshot whose text is nested too deep");
  return ok(body);
}

/** Whether a JSON text is nested deeper than any snapshot, which a parser may overflow its stack by. */
function isDeep(text: Uint8Array): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === QUOTE) at = endOfString(text, at);
    else if (byte === 0x5b || byte === 0x7b) depth += 1;
    else if (byte === 0x5d || byte === 0x7d) depth -= 1;
    if (depth > NESTING_LIMIT) return true;
  }
  return false;
}

function endOfString(text: Uint8Array, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== QUOTE) at += text[at] === 0x5c ? 2 : 1;
  return at;
}

const QUOTE = 0x22;
const MAGIC = 0x53564544;
const FRAME_VERSION = 1;
const HEAD_BYTES = 16;

function damaged(message: string): Result<never> {
  return fail(fault("malformed", message, "", "restore an earlier save of the session"));
}
