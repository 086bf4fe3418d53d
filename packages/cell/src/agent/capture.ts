import { isUtf8 } from "node:buffer";

/** The head and the tail of a stream, in bounded memory; the bytes between them are only counted. */
export class Capture {
  readonly #half: number;
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  /** A ring, made when the head is full. */
  #ring: Buffer | null = null;
  #ringBytes = 0;

  /** Keeps `limitBytes` at most: half of it as the head, half as the tail. */
  constructor(limitBytes: number) {
    this.#half = Math.floor(limitBytes / 2);
  }

  push(chunk: Uint8Array): void {
    const room = this.#half - this.#headBytes;
    const forHead = chunk.subarray(0, Math.max(0, room));
    if (forHead.length > 0) {
      // A copy: what is left of a chunk would keep all of it.
      this.#head.push(Buffer.from(forHead));
      this.#headBytes += forHead.length;
    }
    if (forHead.length < chunk.length) this.#pushTail(chunk.subarray(forHead.length));
  }

  /** What was kept, as text; `cutBytes` of the stream are in none of it. */
  text(): { readonly text: string; readonly cutBytes: number } {
    const head = Buffer.concat(this.#head);
    const tail = this.#tail();
    const total = this.#headBytes + this.#ringBytes;
    if (total === head.length + tail.length) {
      return { text: Buffer.concat([head, tail]).toString(), cutBytes: 0 };
    }
    const keptHead = head.subarray(0, wholeEnd(head));
    const keptTail = tail.subarray(wholeStart(tail));
    const text = keptHead.toString() + keptTail.toString();
    return { text, cutBytes: total - keptHead.length - keptTail.length };
  }

  #pushTail(chunk: Uint8Array): void {
    if (this.#half === 0) {
      this.#ringBytes += chunk.length;
      return;
    }
    this.#ring ??= Buffer.alloc(this.#half);
    const kept = chunk.subarray(Math.max(0, chunk.length - this.#half));
    this.#ringBytes += chunk.length - kept.length;
    const at = this.#ringBytes % this.#half;
    const first = kept.subarray(0, this.#half - at);
    this.#ring.set(first, at);
    this.#ring.set(kept.subarray(first.length), 0);
    this.#ringBytes += kept.length;
  }

  #tail(): Buffer {
    if (this.#ring === null) return Buffer.alloc(0);
    if (this.#ringBytes <= this.#half) return this.#ring.subarray(0, this.#ringBytes);
    const at = this.#ringBytes % this.#half;
    return Buffer.concat([this.#ring.subarray(at), this.#ring.subarray(0, at)]);
  }
}

/** Where to end `bytes` so that no UTF-8 character is cut; bytes that are none are left as they are. */
export function wholeEnd(bytes: Uint8Array): number {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes.length;
    if (byte < 0xc0) continue;
    const width = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return width > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Where to begin `bytes` so that no UTF-8 character is cut. */
export function wholeStart(bytes: Uint8Array): number {
  let start = 0;
  while (start < 3 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return start;
}

/** Text from bytes; those that are not UTF-8 become U+FFFD, and a byte order mark stays. */
export function decodeText(bytes: Buffer): { readonly text: string; readonly lossy: boolean } {
  return { text: bytes.toString(), lossy: !isUtf8(bytes) };
}
