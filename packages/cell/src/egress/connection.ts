import type { Duplex } from "node:stream";
import type { ActionId } from "@dev/protocol";
import type { Target } from "./host.ts";
import type { EgressLimits } from "./limits.ts";

/** One stream on which a client asks, one request after the other. */
export class Connection {
  /** What it was opened to over TLS; null: each request names its own. */
  readonly tunnel: Target | null;
  /** Of the command that opened it, where that is said once for all. */
  readonly action: ActionId | null;
  readonly #stream: Duplex;
  readonly #limits: EgressLimits;
  /** Whether a request has ever come. */
  hasAsked = false;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();
  #patience: NodeJS.Timeout;

  constructor(
    stream: Duplex,
    limits: EgressLimits,
    tunnel: Target | null,
    action: ActionId | null,
  ) {
    this.#stream = stream;
    this.#limits = limits;
    this.tunnel = tunnel;
    this.action = action;
    this.#patience = this.#wait();
    stream.once("close", () => clearTimeout(this.#patience));
  }

  /** Whether a request is under way, or waits. */
  get isBusy(): boolean {
    return this.#waiting > 0;
  }

  /** Performs a request after those that came before it; their answers go in that order anyway. */
  enqueue(work: () => Promise<void>): void {
    clearTimeout(this.#patience);
    this.hasAsked = true;
    this.#waiting += 1;
    if (this.#waiting > this.#limits.pipelineCount) {
      this.#stream.destroy();
      return;
    }
    this.#last = this.#last.then(async () => {
      if (!this.#stream.destroyed) await work();
      this.#waiting -= 1;
      if (this.#waiting === 0 && !this.#stream.destroyed) this.#patience = this.#wait();
    });
  }

  /** No more requests come on it: what comes now is something else's to read. */
  release(): void {
    clearTimeout(this.#patience);
  }

  /** A head that does not come to its end is not waited for, whether nothing comes or a byte a second. */
  #wait(): NodeJS.Timeout {
    clearTimeout(this.#patience);
    return setTimeout(() => this.#stream.destroy(), this.#limits.headerMs);
  }
}

/** How long a client that was told no may take to hear it and leave. */
const LEAVE_MS = 5_000;

/** Says the last word on a stream, and ends it: at once where the client leaves, else soon. */
export function dismiss(client: Duplex, status: number, reason: string): void {
  const text = reason === "" ? "" : `The cell's network: ${reason}\n`;
  const timer = setTimeout(() => client.destroy(), LEAVE_MS);
  client.once("close", () => clearTimeout(timer));
  client.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
  );
  // What it still says is not kept for anybody.
  client.resume();
}
