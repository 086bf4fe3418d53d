import { crc32 } from "node:zlib";
import { fail, fault, ok, type Result } from "@dev/protocol";

/**
 * The frame of a stored snapshot: magic `DEVS`, then as little-endian u32 the frame's version, the
 * CRC-32 of the text and its length in bytes, then the core's text in UTF-8. The checksum catches
 * damage in storage; it is no signature.
 */
export function seal(text: string): Uint8Array {
  const sizeBytes = Buffer.byteLength(text);
  // Not a Buffer, whose `slice` would share what it is a part of.
  const sealed = new Uint8Array(HEAD_BYTES + sizeBytes);
  const frame = Buffer.from(sealed.buffer);
  frame.write(text, HEAD_BYTES);
  frame.writeUInt32LE(MAGIC, 0);
  frame.writeUInt32LE(FRAME_VERSION, 4);
  frame.writeUInt32LE(crc32(frame.subarray(HEAD_BYTES)), 8);
  frame.writeUInt32LE(sizeBytes, 12);
  return sealed;
}

/** Reads what `seal` wrote. Faults: `malformed` (damage), `newer_version`. */
export function unseal(bytes: Uint8Array): Result<string> {
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
  return ok(body.toString("utf8"));
}

const MAGIC = 0x53564544;
const FRAME_VERSION = 1;
const HEAD_BYTES = 16;

function damaged(message: string): Result<never> {
  return fail(fault("malformed", message, "", "restore an earlier save of the session"));
}
