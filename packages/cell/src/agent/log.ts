import { crc32 } from "node:zlib";
import type { WriteResult } from "@dev/protocol";

/**
 * One thing that the spool knows. `started` and `finished` name an action; `forgotten` takes a
 * `started` back, when the evidence says that it never happened; `acknowledged` is a span of ids.
 */
export type Entry =
  | { readonly kind: "started"; readonly id: number; readonly evidence: Evidence }
  | { readonly kind: "finished"; readonly id: number; readonly event: Uint8Array }
  | { readonly kind: "forgotten"; readonly id: number }
  | { readonly kind: "acknowledged"; readonly from: number; readonly to: number };

/** What is written down before an effect begins, to tell later whether it happened. */
export type Evidence = FileEvidence | CommandEvidence;

/** The file that will have been written, relative to the workspace, and the answer it will give. */
export type FileEvidence = {
  readonly kind: "file";
  readonly path: string;
  readonly result: WriteResult;
};

/** Only what it was, and when it began in Unix milliseconds. */
export type CommandEvidence = {
  readonly kind: "exec" | "git";
  readonly program: string;
  readonly startedMs: number;
};

export type LogHeader = {
  readonly cell: string;
  /** Made with the spool, from chance. */
  readonly identity: string;
  /** The highest generation that ever opened it. */
  readonly generation: number;
};

export type ReadLog =
  | { readonly kind: "empty" }
  /** `torn` says that the last frame was cut by a crash: nothing in it had been promised. */
  | {
      readonly kind: "log";
      readonly header: LogHeader;
      readonly entries: readonly Entry[];
      readonly torn: boolean;
    }
  /** Something that had been durable is not readable any more. */
  | { readonly kind: "damaged" }
  | { readonly kind: "newer"; readonly version: number };

/** The version that is written. A reader is kept for every one that ever was. */
export const LOG_VERSION: number = 1;

/** Starts a log: its magic, its version and the frame that names it. */
export function encodeHeader(header: LogHeader): Uint8Array {
  const start = new Uint8Array(PREFIX_BYTES);
  start.set(MAGIC);
  new DataView(start.buffer).setUint16(MAGIC.length, LOG_VERSION, true);
  return Buffer.concat([start, frame(Buffer.from(JSON.stringify(header)))]);
}

/**
 * Writes entries as one frame, `[u32 length][u32 CRC-32][payload]`. One append is one frame, synced
 * before the next: so a crash can only tear the last, and a bad frame in front of a good one is damage.
 */
export function encodeEntries(entries: readonly Entry[]): Uint8Array {
  return frame(Buffer.concat(entries.map(encodeEntry)));
}

/** Reads a log from any bytes at all. */
export function readLog(bytes: Uint8Array): ReadLog {
  if (bytes.length === 0) return { kind: "empty" };
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < PREFIX_BYTES || !buffer.subarray(0, MAGIC.length).equals(MAGIC)) {
    return { kind: "damaged" };
  }
  const version = buffer.readUInt16LE(MAGIC.length);
  if (version > LOG_VERSION) return { kind: "newer", version };
  const first = frameAt(buffer, PREFIX_BYTES);
  const header = first === null ? null : decodeHeader(first.payload);
  if (first === null || header === null) return { kind: "damaged" };

  const entries: Entry[] = [];
  let position = first.end;
  while (position < buffer.length) {
    const next = frameAt(buffer, position);
    if (next === null) {
      return isFollowed(buffer, position)
        ? { kind: "damaged" }
        : { kind: "log", header, entries, torn: true };
    }
    for (const entry of decodeEntries(next.payload)) entries.push(entry);
    position = next.end;
  }
  return { kind: "log", header, entries, torn: false };
}

const MAGIC = Buffer.from("DEVSPL", "latin1");
const PREFIX_BYTES = 8;
const FRAME_HEAD_BYTES = 8;
const ENTRY_HEAD_BYTES = 13;
/** In file order: a code is never renumbered. */
const CODES = { started: 1, finished: 2, forgotten: 3, acknowledged: 4 } as const;

function frame(payload: Uint8Array): Uint8Array {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32LE(payload.length, 0);
  head.writeUInt32LE(crc32(payload), 4);
  return Buffer.concat([head, payload]);
}

type Frame = { readonly payload: Buffer; readonly end: number };

function frameAt(buffer: Buffer, position: number): Frame | null {
  const start = position + FRAME_HEAD_BYTES;
  if (start > buffer.length) return null;
  const end = start + buffer.readUInt32LE(position);
  // An empty frame is never written, and zeros are what a crash leaves behind.
  if (end === start || end > buffer.length) return null;
  const payload = buffer.subarray(start, end);
  return crc32(payload) === buffer.readUInt32LE(position + 4) ? { payload, end } : null;
}

/** Whether a good frame stands behind the bad one at `position`. */
function isFollowed(buffer: Buffer, position: number): boolean {
  if (position + FRAME_HEAD_BYTES > buffer.length) return false;
  const end = position + FRAME_HEAD_BYTES + buffer.readUInt32LE(position);
  return end < buffer.length && frameAt(buffer, end) !== null;
}

function encodeEntry(entry: Entry): Buffer {
  const id = entry.kind === "acknowledged" ? entry.from : entry.id;
  const body = bodyOf(entry);
  const head = Buffer.alloc(ENTRY_HEAD_BYTES);
  head.writeUInt8(CODES[entry.kind], 0);
  head.writeBigUInt64LE(BigInt(id), 1);
  head.writeUInt32LE(body.length, 9);
  return Buffer.concat([head, body]);
}

function bodyOf(entry: Entry): Uint8Array {
  switch (entry.kind) {
    case "started":
      return Buffer.from(JSON.stringify(entry.evidence));
    case "finished":
      return entry.event;
    case "forgotten":
      return new Uint8Array(0);
    case "acknowledged": {
      const body = Buffer.alloc(8);
      body.writeBigUInt64LE(BigInt(entry.to), 0);
      return body;
    }
  }
}

function decodeHeader(payload: Buffer): LogHeader | null {
  try {
    const value = JSON.parse(payload.toString()) as LogHeader;
    const whole =
      typeof value.cell === "string" &&
      typeof value.identity === "string" &&
      Number.isSafeInteger(value.generation);
    return whole ? value : null;
  } catch {
    return null;
  }
}

/** A frame whose checksum holds is one that we wrote: what it says is taken as it is. */
function* decodeEntries(payload: Buffer): Generator<Entry> {
  let position = 0;
  while (position + ENTRY_HEAD_BYTES <= payload.length) {
    const code = payload.readUInt8(position);
    const id = Number(payload.readBigUInt64LE(position + 1));
    const start = position + ENTRY_HEAD_BYTES;
    position = start + payload.readUInt32LE(position + 9);
    const body = payload.subarray(start, position);
    if (code === CODES.started) {
      yield { kind: "started", id, evidence: JSON.parse(body.toString()) as Evidence };
    } else if (code === CODES.finished) {
      // Copied, so that one small outcome does not keep the whole file in memory.
      yield { kind: "finished", id, event: Uint8Array.from(body) };
    } else if (code === CODES.forgotten) {
      yield { kind: "forgotten", id };
    } else {
      yield { kind: "acknowledged", from: id, to: Number(body.readBigUInt64LE(0)) };
    }
  }
}
