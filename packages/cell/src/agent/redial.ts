import { fail, fault, ok, type Result } from "@dev/protocol";
import type { Dialler } from "../dial.ts";
import type { Opening } from "../wire.ts";
import { type Host, type OpenAgent, type Served, serveStream } from "./serve.ts";

/**
 * Serves the links that a dialler gives, one after another, with one agent: what runs when a link is lost
 * runs on, and its outcome waits in the spool until the host asks on the next link. Resolves when the
 * host has closed the cell (or the signal has): ok; or with the fault that ended the dialling, when what
 * ran has ended too.
 */
export async function serveDialled(
  dial: Dialler,
  openAgent: OpenAgent,
  signal: AbortSignal,
): Promise<Result<undefined>> {
  const kept = new KeptAgent(openAgent, signal);
  for (;;) {
    const stream = await dial(signal);
    if (!stream.ok) {
      const { code } = stream.fault;
      // A cell that is gone has nobody who would ask; any other's outcomes are still wanted.
      await kept.end(code === "gone" || signal.aborted ? "close" : "finish");
      return signal.aborted ? ok(undefined) : stream;
    }
    const how = await serveStream(stream.value, kept.open, signal);
    if (how === "close") await kept.end("close");
    // What was answered last is on its way; a link that is lost ends at once.
    await new Promise<void>((resolve) => {
      if (stream.value.closed) return resolve();
      stream.value.once("close", () => resolve());
      if (how === "close") stream.value.end();
      else stream.value.destroy();
    });
    if (how === "close") return ok(undefined);
  }
}

/** The agent behind whichever link there is. */
class KeptAgent {
  readonly #openAgent: OpenAgent;
  readonly #signal: AbortSignal;
  #opened: { readonly opening: Opening; readonly served: Promise<Result<Served>> } | undefined;
  /** Of the newest link. */
  #host: Host | undefined;

  constructor(openAgent: OpenAgent, signal: AbortSignal) {
    this.#openAgent = openAgent;
    this.#signal = signal;
  }

  /** Fault: `superseded`, when another cell or generation is asked for than this is. */
  readonly open: OpenAgent = async (opening, host) => {
    this.#host = host;
    const before = this.#opened;
    if (before !== undefined) {
      const { cell, generation } = before.opening;
      if (cell === opening.cell && generation === opening.generation) return before.served;
      const message = `this is generation ${generation} of ${cell}`;
      return fail(fault("superseded", message, opening.cell));
    }
    // It outlives the link that it was opened by, and so does its opening.
    const served = this.#openAgent(opening, this.#current, this.#signal);
    this.#opened = { opening, served };
    const opened = await served;
    if (!opened.ok) this.#opened = undefined;
    return opened;
  };

  async end(how: "close" | "finish"): Promise<void> {
    const served = await this.#opened?.served;
    if (served?.ok) await served.value.agent[how]();
  }

  readonly #current: Host = {
    onWaiting: () => this.#host?.onWaiting(),
    openChannel: async (kind, payload, signal) =>
      this.#host === undefined
        ? fail(fault("link_lost", "there is no link now", kind))
        : this.#host.openChannel(kind, payload, signal),
  };
}
