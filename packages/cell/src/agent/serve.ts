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

/** Makes the agent that an opening asks for; `onWaiting` says that this takes a while. */
export type OpenAgent = (
  opening: Opening,
  onWaiting: () => void,
  signal: AbortSignal,
) => Promise<Result<Agent>>;

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
  const port = new Port(stream, openAgent);
  signal.addEventListener("abort", () => port.end("close"), { once: true });
  const how = await port.ended;
  const agent = await port.agent;
  if (how === "close") await agent?.close();
  else await agent?.finish();
  // The last outcomes are on their way to whoever asked for the end.
  await new Promise<void>((resolve) => {
    if (stream.closed) return resolve();
    stream.once("close", () => resolve());
    stream.end(() => resolve());
  });
  stream.destroy();
}

/** The agent's end of the stream. */
class Port {
  /** How the link ended; resolves once. */
  readonly ended: Promise<"close" | "lost">;
  readonly #stream: Duplex;
  readonly #openAgent: OpenAgent;
  readonly #reader = new FrameReader();
  readonly #over = new AbortController();
  #end: (how: "close" | "lost") => void = () => {};
  #opening: Promise<Agent | null> | null = null;
  #agent: Agent | null = null;

  constructor(stream: Duplex, openAgent: OpenAgent) {
    this.#stream = stream;
    this.#openAgent = openAgent;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    stream.on("data", (chunk: Uint8Array) => this.#read(chunk));
    stream.on("error", () => this.end("lost"));
    stream.on("end", () => this.end("lost"));
    stream.on("close", () => this.end("lost"));
  }

  /** The agent, when there is or will be one. */
  get agent(): Promise<Agent | null> {
    return this.#opening ?? Promise.resolve(null);
  }

  /** What is not done yet need not be begun; the first call says how it ended. */
  end(how: "close" | "lost"): void {
    this.#over.abort();
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
      if (!opening.ok || this.#opening !== null) return false;
      this.#opening = this.#open(promise, opening.value);
      return true;
    }
    const agent = this.#agent;
    if (agent === null) return false;
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

  async #open(promise: number, opening: Opening): Promise<Agent | null> {
    const onWaiting = () => this.#send(responseFrame(STATUSES.interim, promise, NOTHING));
    const agent = await this.#openAgent(opening, onWaiting, this.#over.signal);
    if (!agent.ok) {
      this.#send(faultFrame(promise, agent.fault));
      return null;
    }
    this.#agent = agent.value;
    const hello = { generation: opening.generation, spool: agent.value.identity };
    this.#send(responseFrame(STATUSES.done, promise, encodeShape(HELLO, hello)));
    return agent.value;
  }

  async #perform(agent: Agent, promise: number, payload: Uint8Array): Promise<void> {
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
    if (!this.#stream.destroyed && this.#stream.writable) this.#stream.write(frame);
  }
}

const NOTHING: Uint8Array = new Uint8Array(0);

function notAnAction(why: Fault): Fault {
  return fault("bad_call", `not an action: ${why.message}`, why.subject);
}
