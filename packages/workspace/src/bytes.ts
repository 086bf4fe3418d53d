import type { Digest } from "@dev/protocol";
import type { ByteName } from "./walk.ts";

/** Writes numbers and bytes one behind the other, into a buffer that grows. */
export class ByteWriter {
  #buffer: Buffer;
  #length = 0;

  constructor(sizeBytes = 1024) {
    this.#buffer = Buffer.allocUnsafe(sizeBytes);
  }

  /** What was written so far; it stays as it is only until more is written. */
  get content(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  byte(value: number): void {
    this.#grow(1);
    this.#buffer[this.#length++] = value;
  }

  /** A whole number from 0 up, seven bits a byte, the low ones first. */
  count(value: number): void {
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.byte((rest % 0x80) | 0x80);
    this.byte(rest);
  }

  double(value: number): void {
    this.#grow(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  wide(value: bigint): void {
    this.#grow(8);
    this.#length = this.#buffer.writeBigInt64LE(BigInt.asIntN(64, value), this.#length);
  }

  digest(value: Digest): void {
    this.#grow(32);
    this.#length += this.#buffer.write(value, this.#length, "hex");
  }

  /** A name with its length in front. */
  name(value: ByteName): void {
    this.count(value.length);
    this.#grow(value.length);
    this.#length += this.#buffer.write(value, this.#length, "latin1");
  }

  bytes(value: Uint8Array): void {
    this.#grow(value.length);
    this.#buffer.set(value, this.#length);
    this.#length += value.length;
  }

  #grow(sizeBytes: number): void {
    if (this.#length + sizeBytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + sizeBytes));
    larger.set(this.content);
    this.#buffer = larger;
  }
}

/** Reads what a `ByteWriter` wrote; every method throws at bytes that are not so. */
export class ByteReader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(content: Uint8Array) {
    this.#buffer = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#buffer.length;
  }

  byte(): number {
    return this.#take(1)[0] ?? 0;
  }

  count(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(value)) throw new Error("a number is too large");
      if (byte < 0x80) {
        // One number has one form, so that one tree has one digest.
        if (byte === 0 && scale > 1) throw new Error("a number is longer than it need be");
        return value;
      }
      scale *= 0x80;
    }
  }

  double(): number {
    return this.#take(8).readDoubleLE();
  }

  wide(): bigint {
    return this.#take(8).readBigInt64LE();
  }

  digest(): Digest {
    return this.#take(32).toString("hex") as Digest;
  }

  name(): ByteName {
    return this.#take(this.count()).toString("latin1");
  }

  #take(sizeBytes: number): Buffer {
    const end = this.#at + sizeBytes;
    if (end > this.#buffer.length) throw new Error("it ends early");
    const taken = this.#buffer.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}
