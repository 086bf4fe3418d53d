import { setMaxListeners } from "node:events";
import { Duplex } from "node:stream";
import { encodeShape, FAULT, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { readAs } from "./wire.ts";

/** What a channel is for: who opens it, and what its bytes mean, is said where it is served. */
export type ChannelKind = (typeof CHANNEL_KINDS)[number];

/** In wire order: a code is never renumbered, a new one goes to the end. */
const CHANNEL_KINDS = [
  // On the link to an agent: a connection to the proxy, a terminal, a workspace's files.
  "egress",
  "pty",
  "workspace",
  // On the link to a vendor elsewhere: a call to it, the link to one of its cells.
  "vendor",
  "cell",
] as const;

/** Opens a channel to the other end of a link; `payload` says what it is for, in the kind's own form. */
export type OpenChannel = (
  kind: ChannelKind,
  payload: Uint8Array,
  signal: AbortSignal,
) => Promise<Result<Duplex>>;

/** Called for each channel that the other end opens; a kind that is not served has no handler. */
export type TakeChannel = (payload: Uint8Array, stream: Duplex) => void;

/** Channels that one link may have at once, whoever opened them. */
export const CHANNEL_LIMIT: number = 256;
/** What one end of a channel may send before the other has read any of it. */
export const CHANNEL_WINDOW_BYTES: number = 256 * 1024;
/** Of a channel, what goes into one frame; another's frame, or an answer, may come after it. */
export const CHANNEL_CHUNK_BYTES: number = 32 * 1024;
/** What a channel's opening may say. */
export const CHANNEL_PAYLOAD_LIMIT_BYTES: number = 64 * 1024;
/** An end that has not said yes or no to a channel so long after it was opened is not waited for. */
export const CHANNEL_OPEN_LIMIT_MS: number = 30_000;
/** Bytes of channels wait for their turn while so much is on its way: an answer is never far behind. */
export const CHANNEL_QUEUE_LIMIT_BYTES: number = 64 * 1024;

/** The link under the channels of one end. */
export type Carrier = {
  /** Puts a message of a channel on the link. */
  readonly send: (channel: number, message: Uint8Array) => void;
  /** Bytes that wait to be sent. */
  readonly waitingBytes: () => number;
  /** The handler of a kind; undefined when it is not served here. */
  readonly serve: (kind: ChannelKind) => TakeChannel | undefined;
};

/**
 * Two-way byte streams over one link, beside its calls. Each has a window: who does not read makes the
 * other end's writes wait, and nobody else's. The host's channels have odd numbers, the agent's even.
 */
export class Channels {
  readonly #carrier: Carrier;
  readonly #open = new Map<number, Channel>();
  /** Those that have bytes to send and the right to send them, in the order of their turns. */
  readonly #ready = new Set<Channel>();
  /** What this end opened last, and what the other did; 0 and 1 are never used. */
  #mine: number;
  #theirs: number;
  #lost: Fault | null = null;

  constructor(carrier: Carrier, side: "host" | "agent") {
    this.#carrier = carrier;
    this.#mine = side === "host" ? 1 : 0;
    this.#theirs = side === "host" ? 0 : 1;
  }

  /**
   * Opens a channel. The stream may end each way by itself, and its error is the other end's fault.
   * Faults: `limit`, `unavailable` when there is no answer, `link_lost`, and what the other end refuses with.
   */
  async open(kind: ChannelKind, payload: Uint8Array, signal: AbortSignal): Promise<Result<Duplex>> {
    if (this.#lost !== null) return fail(this.#lost);
    if (signal.aborted) return fail(givenUp(kind));
    if (this.#open.size >= CHANNEL_LIMIT) return fail(full());
    if (payload.length > CHANNEL_PAYLOAD_LIMIT_BYTES) return fail(tooLarge(payload.length));
    this.#mine += 2;
    const channel = this.#add(this.#mine, kind);
    this.#carrier.send(channel.number, joined(TAGS.open, codeOf(kind), payload));
    const giveUp = (): void => this.#settle(channel, fail(givenUp(kind)));
    const timer = setTimeout(giveUp, CHANNEL_OPEN_LIMIT_MS);
    // One signal may end the waits of many openings: many listeners are no leak here.
    setMaxListeners(0, signal);
    signal.addEventListener("abort", giveUp, { once: true });
    const answer = await channel.answer;
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
    return answer.ok ? ok(channel.stream) : answer;
  }

  /** Takes a message of the other end. Fault: `malformed`, after which the link is no good. */
  take(number: number, message: Uint8Array): Result<undefined> {
    const [tag] = message;
    const body = message.subarray(1);
    if (tag === TAGS.open) return this.#opened(number, body);
    const channel = this.#open.get(number);
    if (channel === undefined) {
      // It may have been closed here while this was on its way.
      const last = number % 2 === this.#mine % 2 ? this.#mine : this.#theirs;
      return number > 1 && number <= last ? ok(undefined) : malformed(`no channel ${number}`);
    }
    if (channel.state === "opening") return this.#answered(channel, tag, body);
    switch (tag) {
      case TAGS.data:
        return this.#arrived(channel, body);
      case TAGS.credit:
        return this.#credited(channel, body);
      case TAGS.end:
        return this.#arrived(channel, null);
      case TAGS.reset:
        return this.#reset(channel, body);
      default:
        return malformed(`a message of kind ${tag} on channel ${number}`);
    }
  }

  /** The link is lost: every stream is destroyed, and everyone who opens one is told why. */
  lose(why: Fault): void {
    if (this.#lost !== null) return;
    this.#lost = why;
    this.#ready.clear();
    for (const channel of [...this.#open.values()]) {
      channel.settle(fail(why));
      channel.stream.destroy(errorOf(why));
    }
    this.#open.clear();
  }

  #add(number: number, kind: ChannelKind): Channel {
    let settle: Channel["settle"] = () => undefined;
    const answer = new Promise<Result<undefined>>((resolve) => {
      settle = resolve;
    });
    const stream = new Duplex({
      readableHighWaterMark: CHANNEL_CHUNK_BYTES,
      writableHighWaterMark: CHANNEL_CHUNK_BYTES,
      read: () => {
        channel.isWanted = true;
        this.#hand(channel);
      },
      write: (chunk: Uint8Array, _, done) => this.#queue(channel, { bytes: chunk, done }),
      final: (done) => this.#queue(channel, { bytes: null, done }),
      destroy: (error, done) => {
        this.#close(channel, error);
        done(error);
      },
    });
    // Whoever has left the stream does not hear of its end; that must not end the process.
    stream.on("error", () => undefined);
    const channel: Channel = {
      number,
      kind,
      stream,
      answer,
      settle,
      state: "opening",
      arrived: [],
      isWanted: false,
      hasEnded: false,
      owedBytes: 0,
      toComeBytes: CHANNEL_WINDOW_BYTES,
      queue: [],
      creditBytes: CHANNEL_WINDOW_BYTES,
    };
    this.#open.set(number, channel);
    return channel;
  }

  #opened(number: number, body: Uint8Array): Result<undefined> {
    if (number % 2 !== this.#theirs % 2 || number <= this.#theirs) {
      return malformed(`channel ${number} is opened after ${this.#theirs}`);
    }
    this.#theirs = number;
    const kind = CHANNEL_KINDS[(body[0] ?? 0) - 1];
    const serve = kind === undefined ? undefined : this.#carrier.serve(kind);
    if (body.length - 1 > CHANNEL_PAYLOAD_LIMIT_BYTES) {
      this.#refuse(number, tooLarge(body.length - 1));
    } else if (kind === undefined || serve === undefined) {
      const what = kind ?? `of code ${body[0]}`;
      this.#refuse(number, fault("unsupported", `a channel ${what} is not served here`, what));
    } else if (this.#open.size >= CHANNEL_LIMIT) {
      this.#refuse(number, full());
    } else {
      const channel = this.#add(number, kind);
      channel.state = "open";
      this.#carrier.send(number, joined(TAGS.accepted));
      serve(body.slice(1), channel.stream);
    }
    return ok(undefined);
  }

  #answered(channel: Channel, tag: number | undefined, body: Uint8Array): Result<undefined> {
    if (tag === TAGS.accepted) {
      channel.state = "open";
      channel.settle(ok(undefined));
      return ok(undefined);
    }
    if (tag !== TAGS.reset) return malformed(`channel ${channel.number} is not open yet`);
    const why = readAs(FAULT, body);
    if (!why.ok) return why;
    channel.state = "closed";
    this.#settle(channel, fail(why.value));
    return ok(undefined);
  }

  /** An opening that came to nothing. */
  #settle(channel: Channel, answer: Result<never>): void {
    channel.settle(answer);
    if (channel.state !== "open") channel.stream.destroy();
  }

  #refuse(number: number, why: Fault): void {
    this.#carrier.send(number, joined(TAGS.reset, encodeShape(FAULT, why)));
  }

  #arrived(channel: Channel, bytes: Uint8Array | null): Result<undefined> {
    if (channel.hasEnded) return malformed(`channel ${channel.number} has ended`);
    channel.hasEnded = bytes === null;
    channel.toComeBytes -= bytes?.length ?? 0;
    if (channel.toComeBytes < 0) return malformed(`channel ${channel.number} is over its window`);
    // A frame has memory of its own, so its bytes may stay where they are.
    channel.arrived.push(bytes);
    this.#hand(channel);
    return ok(undefined);
  }

  /** Gives the reader what it takes. */
  #hand(channel: Channel): void {
    let readBytes = 0;
    while (channel.isWanted && channel.arrived.length > 0) {
      const next = channel.arrived.shift() ?? null;
      readBytes += next?.length ?? 0;
      channel.isWanted = channel.stream.push(next);
    }
    this.#credit(channel, readBytes);
  }

  /** Gives the other end the right to send as much as was read, when it is worth a message. */
  #credit(channel: Channel, readBytes: number): void {
    channel.owedBytes += readBytes;
    if (channel.owedBytes < CHANNEL_WINDOW_BYTES / 2 || channel.state === "closed") return;
    const credit = new Uint8Array(4);
    new DataView(credit.buffer).setUint32(0, channel.owedBytes, true);
    channel.toComeBytes += channel.owedBytes;
    channel.owedBytes = 0;
    this.#carrier.send(channel.number, joined(TAGS.credit, credit));
  }

  #credited(channel: Channel, body: Uint8Array): Result<undefined> {
    if (body.length !== 4) return malformed("a credit of no size");
    channel.creditBytes += new DataView(body.buffer, body.byteOffset).getUint32(0, true);
    if (channel.creditBytes > CHANNEL_WINDOW_BYTES) {
      return malformed(`channel ${channel.number} is credited more than its window`);
    }
    this.#turn(channel);
    return ok(undefined);
  }

  #reset(channel: Channel, body: Uint8Array): Result<undefined> {
    const why = readAs(FAULT, body);
    if (!why.ok) return why;
    channel.state = "closed";
    channel.stream.destroy(errorOf(why.value));
    return ok(undefined);
  }

  #queue(channel: Channel, part: Part): void {
    channel.queue.push(part);
    this.#turn(channel);
  }

  #turn(channel: Channel): void {
    if (this.#lost !== null || channel.queue.length === 0) return;
    this.#ready.add(channel);
    this.pump();
  }

  /** Sends a chunk of each in turn while little waits to be sent: to be called when less does. */
  pump(): void {
    while (this.#carrier.waitingBytes() < CHANNEL_QUEUE_LIMIT_BYTES) {
      const [next] = this.#ready;
      if (next === undefined) return;
      this.#ready.delete(next);
      if (this.#sendOne(next)) this.#ready.add(next);
    }
  }

  /** Sends at most a chunk of a channel; true when there is more that it may send. */
  #sendOne(channel: Channel): boolean {
    const [part] = channel.queue;
    if (part === undefined) return false;
    if (part.bytes === null) {
      channel.queue.shift();
      this.#carrier.send(channel.number, joined(TAGS.end));
      part.done();
      return false;
    }
    const sizeBytes = Math.min(part.bytes.length, channel.creditBytes, CHANNEL_CHUNK_BYTES);
    if (sizeBytes === 0 && part.bytes.length > 0) return false;
    channel.creditBytes -= sizeBytes;
    this.#carrier.send(channel.number, joined(TAGS.data, part.bytes.subarray(0, sizeBytes)));
    if (sizeBytes < part.bytes.length) {
      channel.queue[0] = { ...part, bytes: part.bytes.subarray(sizeBytes) };
      return true;
    }
    channel.queue.shift();
    part.done();
    return channel.queue.length > 0;
  }

  /** The stream is no more; the other end is told, unless both ways have ended or it said so itself. */
  #close(channel: Channel, error: Error | null): void {
    this.#open.delete(channel.number);
    this.#ready.delete(channel);
    const { stream, state } = channel;
    channel.state = "closed";
    channel.queue.length = 0;
    const isWhole = stream.writableFinished && stream.readableEnded;
    if (state === "closed" || isWhole || this.#lost !== null) return;
    this.#refuse(
      channel.number,
      fault("cut", error?.message ?? "the other end closed it", channel.kind),
    );
  }
}

type Part = { readonly bytes: Uint8Array | null; readonly done: () => void };

type Channel = {
  readonly number: number;
  readonly kind: ChannelKind;
  readonly stream: Duplex;
  /** To its opening. */
  readonly answer: Promise<Result<undefined>>;
  readonly settle: (answer: Result<undefined>) => void;
  /** Closed: the other end need not be told of the stream's end. */
  state: "opening" | "open" | "closed";
  /** What has come and was not read; null is the end. */
  readonly arrived: (Uint8Array | null)[];
  /** The reader takes more. */
  isWanted: boolean;
  /** The other end sends no more. */
  hasEnded: boolean;
  /** What was read and the other end has no credit for yet. */
  owedBytes: number;
  /** What the other end may still send. */
  toComeBytes: number;
  /** What is to be sent; null is the end. */
  readonly queue: Part[];
  /** What may still be sent. */
  creditBytes: number;
};

/** The first byte of a channel's message. */
const TAGS = { open: 1, accepted: 2, reset: 3, data: 4, credit: 5, end: 6 } as const;

function joined(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat([Uint8Array.of(tag), ...parts]);
}

function codeOf(kind: ChannelKind): Uint8Array {
  return Uint8Array.of(CHANNEL_KINDS.indexOf(kind) + 1);
}

/** A stream's error, that says what the fault does. */
function errorOf(why: Fault): Error {
  return Object.assign(new Error(why.message), { code: why.code });
}

function malformed(message: string): Result<never> {
  return fail(fault("malformed", message));
}

function givenUp(kind: ChannelKind): Fault {
  return fault("unavailable", "the channel was not answered", kind, "try again");
}

function full(): Fault {
  const message = `${CHANNEL_LIMIT} channels are open on this link`;
  return fault("limit", message, "CHANNEL_LIMIT", "close one");
}

function tooLarge(sizeBytes: number): Fault {
  const message = `${sizeBytes} bytes say what a channel is for`;
  return fault("too_large", message, "CHANNEL_PAYLOAD_LIMIT_BYTES");
}
