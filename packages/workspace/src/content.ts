import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { readSync } from "node:fs";
import type { Digest } from "@dev/protocol";

/** Larger files are not shown as text, and their base content is not kept. */
export const TEXT_LIMIT_BYTES: number = 1024 * 1024;
/** How much of a file is in memory at once. */
export const CHUNK_BYTES: number = 1024 * 1024;

/** Whether a file's content may be shown line by line: UTF-8 without a NUL, and not too large. */
export function isText(content: Uint8Array): boolean {
  return content.length <= TEXT_LIMIT_BYTES && isUtf8(content) && !content.includes(0);
}

export function digestOf(content: Uint8Array): Digest {
  return createHash("sha256").update(content).digest("hex") as Digest;
}

/** Hands over a file's content from its beginning, a chunk at a time; each is gone with the next. */
export async function eachChunk(
  fd: number,
  pace: () => Promise<void>,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const count = readSync(fd, buffer, 0, buffer.length, at);
    if (count === 0) return;
    take(buffer.subarray(0, count));
    at += count;
    if (count === buffer.length) await pace();
  }
}

/** The content of a file that is at most TEXT_LIMIT_BYTES long; null for a longer one. */
export function readSmall(fd: number, sizeBytes: number): Uint8Array | null {
  if (sizeBytes > TEXT_LIMIT_BYTES) return null;
  // One byte more than it has: a file that grows while it is read shows itself.
  const buffer = Buffer.allocUnsafe(sizeBytes + 1);
  let length = 0;
  while (length < buffer.length) {
    const count = readSync(fd, buffer, length, buffer.length - length, length);
    if (count === 0) return buffer.subarray(0, length);
    length += count;
  }
  return null;
}
