import type { Duplex } from "node:stream";
import {
  encodeShape,
  fail,
  fault,
  listAt,
  ok,
  type Result,
  type StructShape,
  struct,
  textAt,
  textsAt,
  u64At,
  VARIABLE,
  type Variable,
} from "@dev/protocol";
import type { OpenChannel } from "./channel.ts";

/** A terminal in a cell, and what runs on it. */
export type PtyOpening = {
  /** A program and its arguments; empty for the cell's shell. */
  readonly argv: readonly string[];
  /** Relative to the workspace, or absolute below it. */
  readonly cwd: string;
  readonly columns: number;
  readonly rows: number;
  /** Besides those of every command. */
  readonly variables: readonly Variable[];
};

/** How what ran on a terminal ended. */
export type PtyEnd = { readonly code: number; readonly signal: number };

/** A person's end of a terminal in a cell. */
export type Pty = {
  /** What is typed, and what is shown; whoever does not read makes the cell's end wait. */
  readonly onData: (listener: (bytes: Uint8Array) => void) => void;
  readonly write: (bytes: Uint8Array) => void;
  readonly resize: (columns: number, rows: number) => void;
  /** Hangs up: what ran on it gets HUP, and is killed when it stays. */
  readonly close: () => void;
  /** Fault `link_lost`: nobody knows how it ended. */
  readonly ended: Promise<Result<PtyEnd>>;
};

/** Columns and rows that a terminal may have. */
export const PTY_SIZE_LIMIT: number = 10_000;
/** Of one message on a terminal's channel. */
export const PTY_MESSAGE_LIMIT_BYTES: number = 64 * 1024;
/** Typed input that may wait for a cell that takes none. */
export const PTY_INPUT_LIMIT_BYTES: number = 1024 * 1024;

export const PTY_OPENING: StructShape<PtyOpening> = struct<PtyOpening>("PtyOpening", {
  argv: textsAt(0),
  cwd: textAt(8),
  columns: u64At(16),
  rows: u64At(24),
  variables: listAt(32, VARIABLE),
});

/** What a message on a terminal's channel is: a byte of these, a length of four, and the body. */
export const PTY_TAGS = { data: 0, resize: 1, ended: 2 } as const;

export type PtyMessage = { readonly tag: number; readonly body: Buffer };

/** One message, in pieces that are small enough. */
export function ptyMessages(tag: number, body: Uint8Array): readonly Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at === 0 || at < body.length; at += PTY_MESSAGE_LIMIT_BYTES) {
    const piece = body.subarray(at, at + PTY_MESSAGE_LIMIT_BYTES);
    const head = Buffer.alloc(5);
    head.writeUInt8(tag);
    head.writeUInt32LE(piece.length, 1);
    pieces.push(Buffer.concat([head, piece]));
  }
  return pieces;
}

/** Takes a stream of messages apart, wherever it was cut. Fault: `malformed`. */
export class PtyReader {
  #waiting: Buffer = Buffer.alloc(0);

  push(chunk: Uint8Array): Result<readonly PtyMessage[]> {
    this.#waiting = Buffer.concat([this.#waiting, chunk]);
    const messages: PtyMessage[] = [];
    while (this.#waiting.length >= 5) {
      const length = this.#waiting.readUInt32LE(1);
      if (length > PTY_MESSAGE_LIMIT_BYTES) {
        return fail(fault("malformed", `a message of ${length} bytes`, "PTY_MESSAGE_LIMIT_BYTES"));
      }
      if (this.#waiting.length < 5 + length) break;
      const body = this.#waiting.subarray(5, 5 + length);
      messages.push({ tag: this.#waiting.readUInt8(), body });
      this.#waiting = this.#waiting.subarray(5 + length);
    }
    return ok(messages);
  }
}

export function sizeBody(columns: number, rows: number): Buffer {
  const body = Buffer.alloc(4);
  body.writeUInt16LE(sizeWithin(columns));
  body.writeUInt16LE(sizeWithin(rows), 2);
  return body;
}

/** Undefined where the body is none. */
export function sizeOf(
  body: Buffer,
): { readonly columns: number; readonly rows: number } | undefined {
  if (body.length !== 4) return undefined;
  return { columns: sizeWithin(body.readUInt16LE()), rows: sizeWithin(body.readUInt16LE(2)) };
}

export function sizeWithin(size: number): number {
  return Number.isFinite(size) ? Math.min(PTY_SIZE_LIMIT, Math.max(1, Math.floor(size))) : 1;
}

/**
 * Opens a terminal in a cell. It lives as long as its channel: what runs on it ends with either. Faults:
 * `unsupported` where the agent has none to give, `not_found`, and those of opening a channel.
 */
export async function openPty(
  open: OpenChannel,
  opening: PtyOpening,
  signal: AbortSignal,
): Promise<Result<Pty>> {
  const size = { columns: sizeWithin(opening.columns), rows: sizeWithin(opening.rows) };
  const payload = encodeShape(PTY_OPENING, { ...opening, ...size });
  const stream = await open("pty", payload, signal);
  return stream.ok ? ok(ptyOn(stream.value)) : stream;
}

function ptyOn(stream: Duplex): Pty {
  const reader = new PtyReader();
  const listeners: ((bytes: Uint8Array) => void)[] = [];
  let end: PtyEnd | null = null;
  let why = "the link was lost";
  stream.on("data", (chunk: Uint8Array) => {
    const messages = reader.push(chunk);
    if (!messages.ok) {
      stream.destroy(new Error(messages.fault.message));
      return;
    }
    for (const { tag, body } of messages.value) {
      if (tag === PTY_TAGS.data) for (const listener of listeners) listener(body);
      if (tag === PTY_TAGS.ended && body.length === 8) {
        end = { code: body.readInt32LE(), signal: body.readInt32LE(4) };
      }
    }
  });
  stream.on("error", (error) => {
    why = error.message;
  });
  const ended = new Promise<Result<PtyEnd>>((resolve) => {
    stream.once("close", () => {
      const mend = "open another; what ran on it was ended";
      resolve(end === null ? fail(fault("link_lost", why, "the terminal", mend)) : ok(end));
    });
  });
  stream.once("end", () => stream.end());
  const send = (tag: number, body: Uint8Array): void => {
    if (stream.destroyed || stream.writableLength > PTY_INPUT_LIMIT_BYTES) return;
    for (const piece of ptyMessages(tag, body)) stream.write(piece);
  };
  return {
    onData: (listener) => listeners.push(listener),
    write: (bytes) => send(PTY_TAGS.data, bytes),
    resize: (columns, rows) => send(PTY_TAGS.resize, sizeBody(columns, rows)),
    close: () => stream.destroy(),
    ended,
  };
}
