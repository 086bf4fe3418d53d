import { fail, fault, ok, type Result } from "./fault.ts";
import { FRAME_LIMIT_BYTES } from "./limit.ts";

/** Puts a message's length before it, as a stream wants it: `[u32 little-endian][message]`. */
export function encodeFrame(message: Uint8Array): Uint8Array {
  const sizeBytes = message.byteLength;
  if (sizeBytes > FRAME_LIMIT_BYTES) {
    throw new RangeError(`a message of ${sizeBytes} bytes is above FRAME_LIMIT_BYTES`);
  }
  const frame = new Uint8Array(PREFIX_BYTES + sizeBytes);
  new DataView(frame.buffer).setUint32(0, sizeBytes, true);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/**
 * Puts the messages of a stream together again from chunks of any size. Memory grows with the bytes
 * that have arrived, never with the length that a frame only claims.
 */
export class FrameReader {
  readonly #prefix: Uint8Array = new Uint8Array(PREFIX_BYTES);
  #prefixBytes = 0;
  /** The length of the message that is arriving; -1 while its prefix is. */
  #sizeBytes = -1;
  #message: Uint8Array = EMPTY;
  #messageBytes = 0;
  #refused: Result<never> | null = null;

  /**
   * Takes a chunk and gives the messages that it completes, each in memory of its own. A frame above
   * FRAME_LIMIT_BYTES is the fault `too_large`: the last result, and the only one ever after.
   */
  push(chunk: Uint8Array): readonly Result<Uint8Array>[] {
    const results: Result<Uint8Array>[] = [];
    let at = 0;
    while (at < chunk.byteLength && this.#refused === null) {
      at = this.#sizeBytes < 0 ? this.#takePrefix(chunk, at) : this.#takeMessage(chunk, at);
      if (this.#sizeBytes === this.#messageBytes) results.push(ok(this.#give()));
    }
    if (this.#refused !== null) results.push(this.#refused);
    return results;
  }

  /** To be asked when the stream has ended. Fault: `cut`, when that was within a frame. */
  end(): Result<void> {
    if (this.#prefixBytes === 0) return ok(undefined);
    const of = this.#sizeBytes < 0 ? "its length" : `its ${this.#sizeBytes} bytes`;
    const got = this.#sizeBytes < 0 ? this.#prefixBytes : this.#messageBytes;
    return fail(fault("cut", `the stream ended within a frame, after ${got} of ${of}`));
  }

  #takePrefix(chunk: Uint8Array, at: number): number {
    const to = Math.min(chunk.byteLength, at + PREFIX_BYTES - this.#prefixBytes);
    this.#prefix.set(chunk.subarray(at, to), this.#prefixBytes);
    this.#prefixBytes += to - at;
    if (this.#prefixBytes < PREFIX_BYTES) return to;
    const sizeBytes = new DataView(this.#prefix.buffer).getUint32(0, true);
    if (sizeBytes > FRAME_LIMIT_BYTES) {
      const limit = `FRAME_LIMIT_BYTES (${FRAME_LIMIT_BYTES})`;
      this.#refused = fail(fault("too_large", `a frame of ${sizeBytes} bytes is above ${limit}`));
    } else {
      this.#sizeBytes = sizeBytes;
    }
    return to;
  }

  #takeMessage(chunk: Uint8Array, at: number): number {
    const to = Math.min(chunk.byteLength, at + this.#sizeBytes - this.#messageBytes);
    const messageBytes = this.#messageBytes + to - at;
    if (messageBytes > this.#message.byteLength) this.#grow(messageBytes);
    this.#message.set(chunk.subarray(at, to), this.#messageBytes);
    this.#messageBytes = messageBytes;
    return to;
  }

  /** Doubles, so that each byte is copied twice at most, however small the chunks are. */
  #grow(sizeBytes: number): void {
    const doubled = Math.max(sizeBytes, 2 * this.#message.byteLength);
    const message = new Uint8Array(Math.min(this.#sizeBytes, doubled));
    message.set(this.#message.subarray(0, this.#messageBytes));
    this.#message = message;
  }

  #give(): Uint8Array {
    const message = this.#message;
    this.#message = EMPTY;
    this.#messageBytes = 0;
    this.#prefixBytes = 0;
    this.#sizeBytes = -1;
    return message;
  }
}

const PREFIX_BYTES = 4;
const EMPTY: Uint8Array = new Uint8Array(0);
