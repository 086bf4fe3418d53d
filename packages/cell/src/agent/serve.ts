import type { Duplex } from "node:stream";
import {
  decodeAction,
  decodeRequest,
  encodeShape,
  type Fault,
  FrameReader,
  fault,
  type Result,
  type RpcRequest,
} from "@dev/protocol";
import { type ChannelKind, Channels, type OpenChannel, type TakeChannel } from "../channel.ts";
import {
  faultFrame,
  HELLO,
  IDS,
  METHODS,
  OPENING,
  type Opening,
  OUTPUT,
  readAs,
  responseFrame,
  STATUSES,
} from "../wire.ts";
import type { Agent } from "./agent.ts";

/** Output is dropped while so much waits to be sent: outcomes are not. */
export const OUTPUT_QUEUE_LIMIT_BYTES: number = 1024 * 1024;

/** Makes the agent that an opening asks for. */
export type OpenAgent = (
  opening: Opening,
  host: Host,
  signal: AbortSignal,
) => Promise<Result<Served>>;

/** What an agent has of its host. */
export type Host = {
  /** Says that opening takes a while. */
  readonly onWaiting: () => void;
  readonly openChannel: OpenChannel;
};

/** An agent, and what it does with each kind of channel that the host opens. */
export type Served = { readonly agent: Performer; readonly channels: ChannelTable };

/** What an agent is to a link: this process's own, or one that is reached from here. */
export type Performer = Pick<
  Agent,
  "identity" | "perform" | "cancel" | "acknowledge" | "close" | "finish"
>;
export type ChannelTable = Readonly<Partial<Record<ChannelKind, ServeChannel>>>;

export type ServeChannel = (payload: Uint8Array, stream: Duplex, context: ChannelContext) => void;

export type ChannelContext = { readonly opening: Opening; readonly openChannel: OpenChannel };

/**
 * Serves one link, from `open` to its end. Resolves when nothing is left to do: after `close`, with
 * every process dead; after the loss of the link, with every command's outcome in the spool. The
 * signal closes it from within.
 */
export async function serveLink(
  stream: Duplex,
  openAgent: OpenAgent,
  signal: AbortSignal,
): Promise<void> {
  let opening: ReturnType<OpenAgent> | undefined;
  const openOnce: OpenAgent = (...given) => {
    opening = openAgent(...given);
    return opening;
  };
  const how = await serveStream(stream, openOnce, signal);
  const served = await opening;
  if (served?.ok)
    await (how === "close" ? served.value.agent.close() : served.value.agent.finish());
  // The last outcomes are on their way to whoever asked for the end.
  await new Promise<void>((resolve) => {
    if (stream.closed) return resolve();
    stream.once("close", () => resolve());
    stream.end(() => resolve());
  });
  stream.destroy();
}

/** Serves one link until its end, and leaves the agent and the stream as they are then. */
export async function serveStream(
  stream: Duplex,
  openAgent: OpenAgent,
  signal: AbortSignal,
): Promise<"close" | "lost"> {
  const port = new Port(stream, openAgent);
  const close = (): void => port.end("close");
  signal.addEventListener("abort", close, { once: true });
  if (signal.aborted) close();
  const how = await port.ended;
  signal.removeEventListener("abort", close);
  return how;
}

/** The agent's end of the stream. */
class Port {
  /** How the link ended; resolves once. */
  readonly ended: Promise<"close" | "lost">;
  readonly #stream: Duplex;
  readonly #openAgent: OpenAgent;
  readonly #reader = new FrameReader();
  readonly #channels: Channels;
  readonly #over = new AbortController();
  #end: (how: "close" | "lost") => void = () => {};
  #isOpening = false;
  #agent: Performer | null = null;
  #serve: (kind: ChannelKind) => TakeChannel | undefined = () => undefined;

  constructor(stream: Duplex, openAgent: OpenAgent) {
    this.#stream = stream;
    this.#openAgent = openAgent;
    this.#channels = new Channels(
      {
        send: (channel, message) => this.#send(responseFrame(STATUSES.channel, channel, message)),
        waitingBytes: () => stream.writableLength,
        serve: (kind) => this.#serve(kind),
      },
      "agent",
    );
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    stream.on("data", (chunk: Uint8Array) => this.#read(chunk));
    stream.on("error", () => this.end("lost"));
    stream.on("end", () => this.end("lost"));
    stream.on("close", () => this.end("lost"));
  }

  /** What is not done yet need not be begun; the first call says how it ended. */
  end(how: "close" | "lost"): void {
    this.#over.abort();
    this.#channels.lose(fault("link_lost", "the link has ended", "the link to the host"));
    this.#end(how);
  }

  #read(chunk: Uint8Array): void {
    for (const message of this.#reader.push(chunk)) {
      if (this.#over.signal.aborted) return;
      const request = message.ok ? decodeRequest(message.value) : message;
      // A host that says what cannot be read is not one to go on with.
      if (!request.ok || !this.#take(request.value)) this.end("lost");
    }
  }

  /** False when the request is not one that can be made now. */
  #take(request: RpcRequest): boolean {
    const { method, promise, payload } = request;
    if (method === METHODS.close) {
      this.end("close");
      return true;
    }
    if (method === METHODS.open) {
      const opening = readAs(OPENING, payload);
      if (!opening.ok || this.#isOpening) return false;
      this.#isOpening = true;
      void this.#open(promise, opening.value);
      return true;
    }
    const agent = this.#agent;
    if (agent === null) return false;
    if (method === METHODS.channel) return this.#channels.take(promise, payload).ok;
    if (method === METHODS.perform) {
      void this.#perform(agent, promise, payload);
      return true;
    }
    const read = readAs(IDS, payload);
    if (!read.ok) return false;
    const ids = read.value.ids.map(({ id }) => id);
    if (method === METHODS.cancel) for (const id of ids) agent.cancel(id);
    // One that fails is kept, and answered from when it is asked for again.
    else if (method === METHODS.acknowledge) void agent.acknowledge(ids);
    else return false;
    return true;
  }

  async #open(promise: number, opening: Opening): Promise<void> {
    const host: Host = {
      onWaiting: () => this.#send(responseFrame(STATUSES.interim, promise, NOTHING)),
      openChannel: (kind, payload, signal) => this.#channels.open(kind, payload, signal),
    };
    const served = await this.#openAgent(opening, host, this.#over.signal);
    if (!served.ok) {
      this.#send(faultFrame(promise, served.fault));
      return;
    }
    const { agent, channels } = served.value;
    const context = { opening, openChannel: host.openChannel };
    this.#serve = (kind) => {
      const serve = channels[kind];
      return serve && ((payload, stream) => serve(payload, stream, context));
    };
    this.#agent = agent;
    const hello = { generation: opening.generation, spool: agent.identity };
    this.#send(responseFrame(STATUSES.done, promise, encodeShape(HELLO, hello)));
  }

  async #perform(agent: Performer, promise: number, payload: Uint8Array): Promise<void> {
    const action = decodeAction(payload);
    if (!action.ok) {
      this.#send(faultFrame(promise, notAnAction(action.fault)));
      return;
    }
    const event = await agent.perform(action.value, (stream, text) => {
      if (this.#stream.writableLength > OUTPUT_QUEUE_LIMIT_BYTES) return;
      this.#send(responseFrame(STATUSES.interim, promise, encodeShape(OUTPUT, { stream, text })));
    });
    if (event.ok) this.#send(responseFrame(STATUSES.done, promise, event.value));
    else this.#send(faultFrame(promise, event.fault));
  }

  /** To a lost link nothing is sent; what was to be said is in the spool. */
  #send(frame: Uint8Array): void {
    if (this.#stream.destroyed || !this.#stream.writable) return;
    this.#stream.write(frame, () => this.#channels.pump());
  }
}

const NOTHING: Uint8Array = new Uint8Array(0);

function notAnAction(why: Fault): Fault {
  return fault("bad_call", `not an action: ${why.message}`, why.subject);
}
