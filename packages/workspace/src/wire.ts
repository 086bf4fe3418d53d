import type { Duplex } from "node:stream";
import {
  type Digest,
  FAULT_CODES,
  type Fault,
  fail,
  fault,
  never,
  ok,
  type Result,
} from "@dev/protocol";
import { OBJECT_LIMIT_BYTES } from "./pack.ts";

/** What the two ends of a transfer say to each other. */
export type Frame =
  /** The sender's tree, by its root. */
  | { readonly kind: "root"; readonly digest: Digest }
  | { readonly kind: "want"; readonly digests: readonly Digest[] }
  | { readonly kind: "object"; readonly digest: Digest; readonly content: Uint8Array }
  /** What was wanted is no longer as it was seen. */
  | { readonly kind: "lack"; readonly digest: Digest }
  | { readonly kind: "done"; readonly digest: Digest }
  | { readonly kind: "fault"; readonly fault: Fault };

/** How long one end waits for the other, which may have a large tree to look at. */
export const SILENCE_LIMIT_MS: number = 10 * 60 * 1000;
/** Objects that are asked for in one frame. */
export const WANT_LIMIT = 256;

const VERSION = 1;
const KINDS = ["root", "want", "object", "lack", "done", "fault"] as const;
const HEAD_BYTES = 5;
const DIGEST_BYTES = 32;
const FRAME_LIMIT_BYTES = OBJECT_LIMIT_BYTES + DIGEST_BYTES;
const FAULT_LIMIT_CHARACTERS = 2_000;

/** Frames over a stream, which stays open: it is its owner's. */
export class Wire {
  readonly #stream: Duplex;
  readonly #signal: AbortSignal | undefined;
  #parts: Uint8Array[] = [];
  #length = 0;
  #error: Error | null = null;

  constructor(stream: Duplex, signal?: AbortSignal) {
    this.#stream = stream;
    this.#signal = signal;
    // It may come at any time, and is told to whoever waits next.
    stream.on("error", this.#fail);
  }

  /** Lets the stream be. */
  close(): void {
    this.#stream.off("error", this.#fail);
    // Nobody waits any more, and an error that nobody hears would end the process.
    this.#stream.on("error", () => undefined);
  }

  /** The next frame. Faults: `link_lost`, `silent`, `corrupt`, `newer_version`. Rejects when aborted. */
  async next(): Promise<Result<Frame>> {
    for (;;) {
      this.#signal?.throwIfAborted();
      if (this.#length >= HEAD_BYTES) {
        const head = this.#peek(HEAD_BYTES);
        const size = head.readUInt32LE();
        if (size > FRAME_LIMIT_BYTES) return fail(garbled("a frame is too large"));
        if (this.#length >= HEAD_BYTES + size) {
          const frame = this.#take(HEAD_BYTES + size);
          return decodeFrame(frame[4] ?? 0, frame.subarray(HEAD_BYTES));
        }
      }
      const chunk: unknown = this.#stream.read();
      if (chunk instanceof Uint8Array) {
        this.#parts.push(chunk);
        this.#length += chunk.length;
        continue;
      }
      if (this.#error !== null || this.#stream.readableEnded || this.#stream.destroyed) {
        return fail(lost(this.#error?.message ?? "the other end closed it"));
      }
      if (!(await this.#until("readable"))) {
        return fail(fault("silent", "the other end says nothing", "", "try again"));
      }
    }
  }

  /** Sends a frame; resolves once there is room for more. Faults: `link_lost`, `silent`. */
  async send(frame: Frame): Promise<Result<void>> {
    const parts = encodeFrame(frame);
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32LE(parts.reduce((sum, part) => sum + part.length, 0));
    head[4] = KINDS.indexOf(frame.kind);
    let hasRoom = true;
    for (const part of [head, ...parts]) {
      if (!this.#isWritable()) return fail(lost(this.#error?.message ?? "the other end closed it"));
      hasRoom = this.#stream.write(part);
    }
    while (!hasRoom && this.#stream.writableNeedDrain) {
      this.#signal?.throwIfAborted();
      if (!this.#isWritable()) return fail(lost(this.#error?.message ?? "the other end closed it"));
      if (!(await this.#until("drain"))) {
        return fail(fault("silent", "the other end takes nothing", "", "try again"));
      }
    }
    return ok(undefined);
  }

  readonly #fail = (error: Error): void => {
    this.#error ??= error;
  };

  #isWritable(): boolean {
    return this.#error === null && this.#stream.writable;
  }

  /** Whether something happened before the time was up. */
  #until(event: "readable" | "drain"): Promise<boolean> {
    const stream = this.#stream;
    const signal = this.#signal;
    return new Promise((resolve) => {
      const events = [event, "end", "close", "error"];
      const end = (happened: boolean): void => {
        clearTimeout(timer);
        for (const each of events) stream.off(each, happen);
        signal?.removeEventListener("abort", happen);
        resolve(happened);
      };
      const happen = (): void => end(true);
      const timer = setTimeout(() => end(false), SILENCE_LIMIT_MS);
      for (const each of events) stream.on(each, happen);
      signal?.addEventListener("abort", happen, { once: true });
    });
  }

  #peek(count: number): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && first.length >= count) {
      return Buffer.from(first.buffer, first.byteOffset, count);
    }
    const all = Buffer.concat(this.#parts);
    this.#parts = [all];
    return all.subarray(0, count);
  }

  #take(count: number): Buffer {
    const [first] = this.#parts;
    const all =
      first !== undefined && this.#parts.length === 1
        ? Buffer.from(first.buffer, first.byteOffset, first.length)
        : Buffer.concat(this.#parts);
    this.#parts = count === all.length ? [] : [all.subarray(count)];
    this.#length -= count;
    return all.subarray(0, count);
  }
}

function encodeFrame(frame: Frame): readonly Uint8Array[] {
  switch (frame.kind) {
    case "root":
      return [Buffer.of(VERSION), Buffer.from(frame.digest, "hex")];
    case "want":
      return frame.digests.map((digest) => Buffer.from(digest, "hex"));
    case "object":
      return [Buffer.from(frame.digest, "hex"), frame.content];
    case "lack":
    case "done":
      return [Buffer.from(frame.digest, "hex")];
    case "fault":
      return [Buffer.from(JSON.stringify(frame.fault))];
    default:
      return never(frame);
  }
}

function decodeFrame(code: number, body: Buffer): Result<Frame> {
  const kind = KINDS[code];
  const digest = body.toString("hex", 0, DIGEST_BYTES) as Digest;
  switch (kind) {
    case "root": {
      if ((body[0] ?? 0) > VERSION) {
        return fail(fault("newer_version", "the other end is newer", "", "install the newest Dev"));
      }
      if (body.length !== 1 + DIGEST_BYTES) return fail(garbled("a root is none"));
      return ok({ kind, digest: body.toString("hex", 1) as Digest });
    }
    case "want": {
      const count = body.length / DIGEST_BYTES;
      if (!Number.isInteger(count) || count > WANT_LIMIT) return fail(garbled("a want is none"));
      const digests = Array.from({ length: count }, (_, nth) => {
        return body.toString("hex", nth * DIGEST_BYTES, (nth + 1) * DIGEST_BYTES) as Digest;
      });
      return ok({ kind, digests });
    }
    case "object":
      if (body.length < DIGEST_BYTES) return fail(garbled("an object is none"));
      return ok({ kind, digest, content: body.subarray(DIGEST_BYTES) });
    case "lack":
    case "done":
      if (body.length !== DIGEST_BYTES) return fail(garbled(`a ${kind} is none`));
      return ok({ kind, digest });
    case "fault":
      return ok({ kind, fault: decodeFault(body) });
    case undefined:
      return fail(garbled("an unknown frame"));
    default:
      return never(kind);
  }
}

/** A fault of the other end, in our words where it has none. */
function decodeFault(body: Buffer): Fault {
  const told: Record<string, unknown> = { code: "", message: "", subject: "", mend: "" };
  try {
    Object.assign(told, JSON.parse(body.toString()));
  } catch {
    // It is told as one that says nothing.
  }
  const text = (value: unknown): string =>
    typeof value === "string" ? value.slice(0, FAULT_LIMIT_CHARACTERS) : "";
  const code = FAULT_CODES.find((each) => each === told.code) ?? "io";
  const message = `the other end: ${text(told.message) || "it failed"}`;
  return fault(code, message, text(told.subject), text(told.mend));
}

export function garbled(what: string): Fault {
  return fault("corrupt", `what the other end sends is no workspace: ${what}`);
}

function lost(why: string): Fault {
  return fault(
    "link_lost",
    `the stream ended before the workspace was across: ${why}`,
    "",
    "do it again",
  );
}
