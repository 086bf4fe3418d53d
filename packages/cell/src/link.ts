import { setMaxListeners } from "node:events";
import type { Duplex } from "node:stream";
import {
  type Action,
  type ActionId,
  decodeEvent,
  decodeResponse,
  type EffectEvent,
  effectFamily,
  encodeAction,
  encodeShape,
  FAULT,
  type Fault,
  FrameReader,
  fail,
  fault,
  isEffect,
  ok,
  type Result,
  type RpcResponse,
} from "@dev/protocol";
import { type ChannelKind, Channels } from "./channel.ts";
import type { Boundary, Link, OnOutput } from "./vendor.ts";
import {
  HELLO,
  type Hello,
  IDS,
  METHODS,
  OPENING,
  type Opening,
  OUTPUT,
  readAs,
  requestFrame,
  STATUSES,
} from "./wire.ts";

/** Effects that one link may have under way. */
export const LINK_PERFORM_LIMIT: number = 256;
/** What may wait to be sent to an agent that does not read. */
export const LINK_QUEUE_LIMIT_BYTES: number = 64 * 1024 * 1024;
/** An agent that says nothing for so long after `open` is given up. */
export const LINK_OPEN_LIMIT_MS: number = 30_000;
/** An agent that has not ended so long after `close` is cut off. */
export const LINK_CLOSE_LIMIT_MS: number = 5_000;

/** What the host does for an agent. */
export type LinkHandlers = {
  /**
   * Called for each channel that the agent opens; whoever does not want it destroys the stream, and
   * the error's message is told. Without this none can be opened.
   */
  readonly onChannel?: (kind: ChannelKind, payload: Uint8Array, stream: Duplex) => void;
};

/**
 * Opens a link over a stream to an agent that has been started. The agent answers when its spool is
 * its own; while the one before it is still ending it says so, and the wait goes on. Aborting cuts the
 * stream. Faults: `link_lost`, `superseded`, and what the agent could not open with.
 */
export async function connectLink(
  stream: Duplex,
  opening: Opening,
  boundary: Boundary,
  handlers: LinkHandlers,
  signal: AbortSignal,
): Promise<Result<Link>> {
  const wire = new LinkWire(stream, handlers);
  const cut = () => wire.lose(fault("link_lost", "opening the link was given up", opening.cell));
  signal.addEventListener("abort", cut, { once: true });
  if (signal.aborted) cut();
  const hello = await wire.open(opening);
  signal.removeEventListener("abort", cut);
  if (!hello.ok) {
    wire.lose(hello.fault);
    return hello;
  }
  if (hello.value.generation !== opening.generation) {
    const message = `the agent is of generation ${hello.value.generation}, not ${opening.generation}`;
    const stale = fault("superseded", message, opening.cell);
    wire.lose(stale);
    return fail(stale);
  }
  return ok({
    cell: opening.cell,
    generation: opening.generation,
    boundary,
    spool: hello.value.spool,
    perform: (action, onOutput, abort) => wire.perform(action, onOutput, abort),
    acknowledge: (ids) => wire.tell(METHODS.acknowledge, ids),
    open: (kind, payload, abort) => wire.channels.open(kind, payload, abort),
    collect: () => Promise.resolve(ok(undefined)),
    close: () => wire.close(),
  });
}

type Waiting = {
  readonly answer: (answer: Result<Uint8Array>) => void;
  readonly interim: (body: Uint8Array) => void;
};

/** The host's end of the stream: requests out, and whoever waits for their answers. */
class LinkWire {
  readonly channels: Channels;
  readonly #stream: Duplex;
  readonly #reader = new FrameReader();
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<void>;
  #lastPromise = 0;
  #lost: Fault | null = null;

  constructor(stream: Duplex, { onChannel }: LinkHandlers) {
    this.#stream = stream;
    this.channels = new Channels(
      {
        send: (channel, message) => this.#write(requestFrame(METHODS.channel, channel, message)),
        waitingBytes: () => stream.writableLength,
        serve: (kind) => onChannel && ((payload, its) => onChannel(kind, payload, its)),
      },
      "host",
    );
    this.#ended = new Promise((resolve) => {
      if (stream.closed) resolve();
      else stream.once("close", () => resolve());
    });
    stream.on("data", (chunk: Uint8Array) => this.#read(chunk));
    stream.on("error", (error) => this.lose(lost(`the link broke: ${error.message}`)));
    stream.on("end", () => this.lose(lost("the agent ended the link")));
    stream.on("close", () => this.lose(lost("the link was closed")));
    if (stream.destroyed) this.lose(lost("the link was closed"));
  }

  /** The first fault is the one that stays; every answer that is waited for becomes it, at once. */
  lose(why: Fault): void {
    if (this.#lost !== null) return;
    this.#lost = why;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { answer } of waiting) answer(fail(why));
    this.channels.lose(why);
    this.#stream.destroy();
  }

  async open(opening: Opening): Promise<Result<Hello>> {
    let timer: NodeJS.Timeout | undefined;
    const wait = () => {
      clearTimeout(timer);
      const why = lost(`the agent said nothing for ${LINK_OPEN_LIMIT_MS} ms`);
      timer = setTimeout(() => this.lose(why), LINK_OPEN_LIMIT_MS);
    };
    wait();
    const body = await this.#ask(METHODS.open, encodeShape(OPENING, opening), wait);
    clearTimeout(timer);
    return body.ok ? readAs(HELLO, body.value) : body;
  }

  async perform(
    action: Action,
    onOutput: OnOutput,
    signal: AbortSignal,
  ): Promise<Result<EffectEvent>> {
    if (!isEffect(action.op)) throw new Error(`no effect: ${action.op.kind}`);
    const family = effectFamily(action.op);
    const answered = this.#ask(METHODS.perform, encodeAction(action), (body) => {
      const output = readAs(OUTPUT, body);
      if (output.ok) onOutput(output.value.stream, output.value.text);
    });
    // The agent alone knows whether it has begun: so it is asked even when it was cancelled before.
    const cancel = () => this.tell(METHODS.cancel, [action.id]);
    if (signal.aborted) cancel();
    // One signal may stop all that is under way: many listeners are no leak here.
    setMaxListeners(0, signal);
    signal.addEventListener("abort", cancel, { once: true });
    const body = await answered;
    signal.removeEventListener("abort", cancel);
    if (!body.ok) return body;
    const event = decodeEvent(body.value);
    if (event.ok && event.value.kind === family && event.value.id === action.id) {
      return ok(event.value);
    }
    const garbled = lost(`the answer to action ${action.id} is not one to it`);
    this.lose(garbled);
    return fail(garbled);
  }

  /** Sends what has no answer; to a lost link it goes nowhere. */
  tell(method: number, ids: readonly ActionId[]): void {
    this.#write(requestFrame(method, 0, encodeShape(IDS, { ids: ids.map((id) => ({ id })) })));
  }

  async close(): Promise<void> {
    if (this.#lost === null) {
      this.tell(METHODS.close, []);
      const why = lost(`the agent did not end within ${LINK_CLOSE_LIMIT_MS} ms`);
      const timer = setTimeout(() => this.lose(why), LINK_CLOSE_LIMIT_MS);
      await this.#ended;
      clearTimeout(timer);
    }
    await this.#ended;
  }

  #ask(
    method: number,
    payload: Uint8Array,
    interim: (body: Uint8Array) => void,
  ): Promise<Result<Uint8Array>> {
    if (this.#lost !== null) return Promise.resolve(fail(this.#lost));
    if (this.#waiting.size >= LINK_PERFORM_LIMIT) {
      const message = `${LINK_PERFORM_LIMIT} effects are under way on this link`;
      return Promise.resolve(fail(fault("limit", message, "LINK_PERFORM_LIMIT", "wait for one")));
    }
    if (this.#stream.writableLength + payload.length > LINK_QUEUE_LIMIT_BYTES) {
      const message = `${this.#stream.writableLength} bytes wait to be sent to the agent`;
      return Promise.resolve(fail(fault("full", message, "LINK_QUEUE_LIMIT_BYTES", "wait")));
    }
    this.#lastPromise++;
    const promise = this.#lastPromise;
    return new Promise((answer) => {
      this.#waiting.set(promise, { answer, interim });
      this.#write(requestFrame(method, promise, payload));
    });
  }

  #write(frame: Uint8Array): void {
    if (this.#lost === null) this.#stream.write(frame, () => this.channels.pump());
  }

  #read(chunk: Uint8Array): void {
    for (const message of this.#reader.push(chunk)) {
      if (this.#lost !== null) return;
      const response = message.ok ? decodeResponse(message.value) : message;
      if (response.ok) this.#take(response.value);
      else this.lose(lost(`the link is garbled: ${response.fault.message}`));
    }
  }

  #take({ status, promise, body }: RpcResponse): void {
    if (status === STATUSES.channel) {
      const taken = this.channels.take(promise, body);
      if (!taken.ok) this.lose(lost(`the link is garbled: ${taken.fault.message}`));
      return;
    }
    const waiting = this.#waiting.get(promise);
    if (waiting === undefined) return;
    if (status === STATUSES.interim) {
      waiting.interim(body);
      return;
    }
    this.#waiting.delete(promise);
    waiting.answer(status === STATUSES.done ? ok(body) : fail(refusalOf(status, body)));
  }
}

function refusalOf(status: number, body: Uint8Array): Fault {
  const refusal = readAs(FAULT, body);
  return refusal.ok ? refusal.value : lost(`the agent answered with status ${status}`);
}

function lost(message: string): Fault {
  return fault("link_lost", message, "the link to the cell", "start the cell again");
}
