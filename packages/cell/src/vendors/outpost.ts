import type { Duplex } from "node:stream";
import {
  type Action,
  type ActionId,
  type CellId,
  encodeEvent,
  encodeFrame,
  type Fault,
  fail,
  fault,
  ok,
  parseCellId,
  type Result,
} from "@dev/protocol";
import { type ChannelTable, type Performer, serveLink } from "../agent/serve.ts";
import type { ChannelKind } from "../channel.ts";
import type { Dialler } from "../dial.ts";
import type { Link, Observation, OnOutput, Vendor } from "../vendor.ts";
import {
  type Description,
  decodeCall,
  decodeName,
  encodeReport,
  type Report,
  specOf,
  type VendorCall,
} from "./call.ts";
import { openTrunk } from "./trunk.ts";

export type OutpostOptions = {
  /** Makes the cells, on this machine. */
  readonly vendor: Vendor;
  readonly description: Description;
  /**
   * The directory that a host means by what it calls a workspace, for a cell; OWN_WORKSPACE is one for it
   * alone. A fault refuses the call.
   */
  readonly workspaceOf: (asked: string, cell: CellId) => Result<string>;
  /** Hears of each call: which cell, and how it was refused, if it was. */
  readonly onCall: (call: VendorCall, refused: Fault | undefined) => void;
  /** Hears when there is a link to the host, and when it is lost. */
  readonly onLink: (state: "up" | "lost") => void;
};

/** A vendor that a host elsewhere uses, over links that come one after another. */
export type Outpost = {
  /** Serves the links that a dialler gives, until that is over: with why. */
  serve(dial: Dialler, signal: AbortSignal): Promise<Fault>;
};

/**
 * The other machine's half of `remoteVendor`. Cells, and what runs in them, outlive the link to the host: who
 * comes back on the next link asks for a cell, and finds it up.
 */
export function outpost(options: OutpostOptions): Outpost {
  const links = new Map<CellId, Link>();
  const served: Served = { options, links };
  return {
    serve: async (dial, signal) => {
      for (;;) {
        const stream = await dial(signal);
        if (!stream.ok) return stream.fault;
        options.onLink("up");
        await serveStream(served, stream.value, signal);
        options.onLink("lost");
      }
    },
  };
}

type Served = { readonly options: OutpostOptions; readonly links: Map<CellId, Link> };

async function serveStream(served: Served, stream: Duplex, signal: AbortSignal): Promise<void> {
  const cut = (): void => void stream.destroy();
  signal.addEventListener("abort", cut, { once: true });
  if (signal.aborted) cut();
  const over = new AbortController();
  const trunk = openTrunk(stream, "agent", (kind) => SERVED[kind]?.(served, over.signal));
  await trunk.lost;
  over.abort();
  signal.removeEventListener("abort", cut);
}

type Serve = (served: Served, signal: AbortSignal) => (payload: Uint8Array, stream: Duplex) => void;

const SERVED: Readonly<Partial<Record<ChannelKind, Serve>>> = {
  vendor: (served) => (payload, stream) => void answer(served, payload, stream),
  cell: (served, signal) => (payload, stream) => void serveCell(served, payload, stream, signal),
};

async function answer(served: Served, payload: Uint8Array, stream: Duplex): Promise<void> {
  stream.resume();
  const report = (its: Report): void => {
    if (stream.writable) stream.write(encodeFrame(encodeReport(its)));
  };
  const call = decodeCall(payload);
  if (!call.ok) return void stream.destroy(new Error(call.fault.message));
  const { options } = served;
  if (call.value.kind === "describe") {
    report({ kind: "described", ...options.description });
    return void stream.end();
  }
  const later: Report[] = [];
  let isAnswered = false;
  const tell = (its: Report): void => {
    if (!isAnswered) return void later.push(its);
    report(its);
    if (isLast(its)) stream.end();
  };
  const first = await perform(served, call.value, (seen) =>
    tell(reportOf(served, call.value, seen)),
  );
  options.onCall(call.value, first.ok ? undefined : first.fault);
  const its: Report = first.ok
    ? reportOf(served, call.value, first.value)
    : { kind: "refused", fault: first.fault };
  report(its);
  isAnswered = true;
  const isWatched = call.value.kind === "create" || call.value.kind === "get";
  if (isLast(its) || !isWatched) stream.end();
  for (const each of later) tell(each);
}

function isLast({ kind }: Report): boolean {
  return kind === "ready" || kind === "failed" || kind === "gone" || kind === "refused";
}

async function perform(
  { options }: Served,
  call: Exclude<VendorCall, { readonly kind: "describe" }>,
  progress: (observation: Observation) => void,
): Promise<Result<Observation>> {
  const { vendor, workspaceOf } = options;
  const id = parseCellId(call.cell);
  if (!id.ok) return id;
  if (!("spec" in call)) return vendor[call.kind](id.value);
  const workspace = workspaceOf(call.spec.workspace, id.value);
  if (!workspace.ok) return workspace;
  return vendor[call.kind](id.value, specOf(call.spec, workspace.value), progress);
}

/** A link stays here; what can be told of it goes out. */
function reportOf({ links }: Served, call: VendorCall, observation: Observation): Report {
  if (observation.kind !== "ready") {
    if (observation.kind === "gone" && call.kind !== "describe") links.delete(call.cell);
    return observation;
  }
  const { link } = observation;
  links.set(link.cell, link);
  const { generation, boundary, spool } = link;
  return { kind: "ready", generation, boundary, spool };
}

/** Serves the link to one cell: each request goes on to its agent, and each answer back. */
async function serveCell(
  { links }: Served,
  payload: Uint8Array,
  stream: Duplex,
  signal: AbortSignal,
): Promise<void> {
  const name = decodeName(payload);
  const link = name.ok ? links.get(name.value.cell) : undefined;
  if (!name.ok || link === undefined || link.generation !== name.value.generation) {
    stream.destroy(new Error("the vendor has no such cell up"));
    return;
  }
  await serveLink(
    stream,
    async (opening) =>
      opening.cell === link.cell && opening.generation === link.generation
        ? ok({ agent: relay(link), channels: passage(link, signal) })
        : fail(fault("superseded", `this is generation ${link.generation}`, link.cell)),
    // The loss of the link to the host ends the stream, and not the cell.
    NEVER,
  );
}

const NEVER: AbortSignal = new AbortController().signal;

/** An agent that is reached over a link of this machine's. */
function relay(link: Link): Performer {
  const running = new Map<ActionId, AbortController>();
  return {
    identity: link.spool,
    perform: async (action: Action, onOutput: OnOutput) => {
      const abort = running.get(action.id) ?? new AbortController();
      running.set(action.id, abort);
      const event = await link.perform(action, onOutput, abort.signal);
      running.delete(action.id);
      return event.ok ? ok(encodeEvent(event.value)) : event;
    },
    cancel: (id) => running.get(id)?.abort(),
    acknowledge: async (ids) => {
      link.acknowledge(ids);
      return ok(undefined);
    },
    close: () => link.close(),
    // The host is away, and the cell is not its process's: what runs in it runs on.
    finish: () => Promise.resolve(),
  };
}

/** Channels go through as they are. */
function passage(link: Link, signal: AbortSignal): ChannelTable {
  const through =
    (kind: ChannelKind) =>
    (payload: Uint8Array, stream: Duplex): void => {
      void link.open(kind, payload, signal).then((opened) => {
        if (!opened.ok) return void stream.destroy(new Error(opened.fault.message));
        pass(stream, opened.value);
        pass(opened.value, stream);
      });
    };
  return { pty: through("pty"), workspace: through("workspace") };
}

/** Bytes, their end, and why there are no more. */
function pass(from: Duplex, to: Duplex): void {
  from.pipe(to);
  from.on("error", (error) => to.destroy(error));
  from.on("close", () => {
    if (!from.readableEnded) to.destroy();
  });
}
