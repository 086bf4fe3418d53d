import { lookup } from "node:dns/promises";
import type { Egress, EgressRecord, EgressSeams } from "@dev/cell";
import type { Outcome, Result, SessionId } from "@dev/protocol";
import type { Services } from "@dev/session";
import type { NetworkRequest, Store } from "@dev/store";
import type { Network } from "./network-file.ts";
import type { Terminal } from "./terminal.ts";

/** The network of one session: its cells', and that of what it asks outside them. */
export type SessionNetwork = {
  /** What vendors need of it, once they are loaded. */
  readonly seams: (limits: EgressSeams["limits"]) => EgressSeams;
  readonly browse: Services["browse"];
  /** Resolves when every request is in the store, or it has been said why one is not. */
  close(): Promise<void>;
};

export type NetworkTerms = {
  readonly network: Network;
  readonly store: Store;
  readonly session: SessionId;
  readonly terminal: Terminal;
  readonly onNote: (text: string) => void;
};

/** Of a page, what a model is given. */
const BROWSE_LIMIT_BYTES = 128 * 1024;
/** Records that wait to be written: the store is behind by so many, and more are counted. */
const RECORD_QUEUE_LIMIT = 10_000;

/** Opens a session's network. What performs requests is loaded at the first of them. */
export function openNetwork(terms: NetworkTerms): SessionNetwork {
  const { network, terminal } = terms;
  const log = requestLog(terms);
  const seams: SessionNetwork["seams"] = (limits) => ({
    resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
    variable: (name) => terminal.env[name],
    onRequest: log.add,
    now: terminal.nowMs,
    limits,
  });
  let opened: Promise<Result<Egress>> | null = null;
  const open = async (): Promise<Result<Egress>> => {
    const { Egress, EGRESS_LIMITS } = await import("@dev/cell");
    return Egress.open(null, network, seams(EGRESS_LIMITS));
  };
  const browse: Services["browse"] = async (op, id, signal): Promise<Outcome> => {
    opened ??= open();
    const egress = await opened;
    if (!egress.ok) return { kind: "failed", fault: egress.fault };
    return egress.value.browse(op, id, BROWSE_LIMIT_BYTES, signal);
  };
  return {
    seams,
    browse: network.allow.length === 0 ? null : browse,
    close: async () => {
      const egress = await opened;
      if (egress?.ok) egress.value.close();
      await log.close();
    },
  };
}

/** Writes records down, one batch after the other, while requests go on. */
function requestLog({ store, session, onNote }: NetworkTerms): {
  add(record: EgressRecord): void;
  close(): Promise<void>;
} {
  const waiting: NetworkRequest[] = [];
  let lostCount = 0;
  let why = `more than ${RECORD_QUEUE_LIMIT} of them waited`;
  let writing: Promise<void> | null = null;
  const write = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0);
      const noted = await store.note(session, batch);
      if (noted.ok) continue;
      lostCount += batch.length;
      why = noted.fault.message;
    }
    writing = null;
  };
  return {
    add: ({ cell: _, ...request }) => {
      if (waiting.length < RECORD_QUEUE_LIMIT) waiting.push(request);
      else lostCount += 1;
      writing ??= write();
    },
    close: async () => {
      // What was cut off with its cell ends in the turns of the loop that come now.
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
      await writing;
      if (lostCount > 0)
        onNote(`${lostCount} requests to the network are not in the ledger: ${why}`);
    },
  };
}
