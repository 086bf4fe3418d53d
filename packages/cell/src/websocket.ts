import { Duplex } from "node:stream";
import { type RawData, WebSocket } from "ws";
import type { Clock } from "./agent/clock.ts";

/** One end of a link over a WebSocket, as a stream of bytes. */
export type Socketed = {
  readonly stream: Duplex;
  /** Gives the dialler the token that it dials with from now on. */
  readonly sendToken: (token: string) => void;
  /** Whether the other end answers within this time. */
  readonly isAlive: (limitMs: number) => Promise<boolean>;
};

/** A longer message than this ends the link; those that are sent are shorter. */
export const WEBSOCKET_MESSAGE_LIMIT_BYTES: number = 1024 * 1024;
/** Of a stream's bytes, what goes into one message. */
export const WEBSOCKET_CHUNK_BYTES: number = 64 * 1024;
/** While so much waits for the network, the stream's writers wait as well. */
export const WEBSOCKET_BUFFER_LIMIT_BYTES: number = 256 * 1024;
/** How often each end asks whether the other is there. */
export const HEARTBEAT_MS: number = 15_000;
/** An end of which nothing was heard for so long is taken for lost. */
export const HEARTBEAT_LIMIT_MS: number = 45_000;

/** What a link's WebSocket is opened with, on either side: nothing is compressed. */
export const WEBSOCKET_OPTIONS: { readonly maxPayload: number; readonly perMessageDeflate: false } =
  { maxPayload: WEBSOCKET_MESSAGE_LIMIT_BYTES, perMessageDeflate: false };

/**
 * Makes a stream of an open WebSocket (RFC 6455). Binary messages are the stream's bytes, and where one
 * ends means nothing; a text is a new token for the dialler. The stream is destroyed, with the reason,
 * when the other end is silent for HEARTBEAT_LIMIT_MS, breaks the protocol, or closes in any way but whole.
 */
export function socketed(
  socket: WebSocket,
  clock: Clock,
  onToken: (token: string) => void,
): Socketed {
  let heardMs = clock.monotonicMs();
  const hear = (): void => {
    heardMs = clock.monotonicMs();
  };
  const stream = streamOf(socket, hear);
  socket.on("message", (data, isBinary) => {
    hear();
    if (!isBinary) onToken(String(bytesOf(data)));
    else if (!stream.destroyed && !stream.push(bytesOf(data))) socket.pause();
  });
  socket.on("ping", hear);
  socket.on("pong", hear);
  const over = new AbortController();
  socket.on("error", (error) => stream.destroy(new Error(`the WebSocket broke: ${error.message}`)));
  socket.on("close", (code, reason) => {
    over.abort();
    if (code === CLOSED_WHOLE) stream.push(null);
    else stream.destroy(new Error(`the WebSocket was closed: ${code} ${reason}`.trim()));
  });
  stream.on("error", () => undefined);
  void beat(socket, stream, clock, () => heardMs, over.signal);
  return {
    stream,
    sendToken: (token) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(token);
    },
    isAlive: (limitMs) => isAlive(socket, clock, limitMs),
  };
}

const CLOSED_WHOLE = 1000;

function streamOf(socket: WebSocket, hear: () => void): Duplex {
  return new Duplex({
    read: () => {
      if (!socket.isPaused) return;
      hear();
      socket.resume();
    },
    writev: (chunks, done) => send(socket, Buffer.concat(chunks.map(({ chunk }) => chunk)), done),
    write: (chunk: Buffer, _, done) => send(socket, chunk, done),
    final: (done) => {
      if (socket.readyState === WebSocket.CLOSED) return done();
      socket.once("close", () => done());
      socket.close(CLOSED_WHOLE);
    },
    destroy: (error, done) => {
      socket.terminate();
      done(error);
    },
  });
}

/** In messages of a limited size, the next when the network has taken enough of those before. */
function send(socket: WebSocket, bytes: Buffer, done: (error?: Error | null) => void): void {
  const part = bytes.subarray(0, WEBSOCKET_CHUNK_BYTES);
  const rest = bytes.subarray(part.length);
  const next = (): void => (rest.length === 0 ? done() : send(socket, rest, done));
  if (socket.bufferedAmount + part.length <= WEBSOCKET_BUFFER_LIMIT_BYTES) {
    // A failure is told by the socket's own events.
    socket.send(part, () => undefined);
    next();
    return;
  }
  socket.send(part, (error) => (error === undefined || error === null ? next() : done(error)));
}

async function beat(
  socket: WebSocket,
  stream: Duplex,
  clock: Clock,
  heardMs: () => number,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(HEARTBEAT_MS, signal);
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    const silentMs = clock.monotonicMs() - heardMs();
    // While nobody reads here, what the other end says is not heard either.
    if (silentMs > HEARTBEAT_LIMIT_MS && !socket.isPaused) {
      stream.destroy(new Error(`the other end said nothing for ${silentMs} ms`));
      return;
    }
    socket.ping();
  }
}

async function isAlive(socket: WebSocket, clock: Clock, limitMs: number): Promise<boolean> {
  if (socket.readyState !== WebSocket.OPEN) return false;
  const answered = new AbortController();
  const hear = (): void => answered.abort();
  for (const event of ["pong", "message", "close"]) socket.on(event, hear);
  socket.ping();
  await clock.sleep(limitMs, answered.signal);
  for (const event of ["pong", "message", "close"]) socket.off(event, hear);
  return answered.signal.aborted && socket.readyState === WebSocket.OPEN;
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}
