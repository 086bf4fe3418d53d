import type { Duplex } from "node:stream";
import {
  type CellId,
  type Fault,
  FrameReader,
  fail,
  fault,
  never,
  ok,
  type Result,
} from "@dev/protocol";
import type { Holder } from "@dev/workspace";
import { DEFAULT_CELL_LIMITS } from "../limits.ts";
import { connectLink, type LinkHandlers } from "../link.ts";
import type { CellSpec, Link, Observation, Progress, Vendor } from "../vendor.ts";
import { collectWorkspace, fillWorkspace } from "../workspace.ts";
import {
  type Description,
  decodeReport,
  encodeCall,
  encodeName,
  OWN_WORKSPACE,
  type Report,
  type VendorCall,
  wireSpecOf,
} from "./call.ts";
import { openTrunk, type Trunk } from "./trunk.ts";

export type RemoteOptions = {
  /** The name that the vendor was connected under. */
  readonly name: string;
  /** A link of that vendor's that has come since the last was taken: see `CellUpgrades.vendor`. */
  readonly take: () => Duplex | undefined;
  /** What the host does for each of its cells' agents. */
  readonly handlers: (cell: CellId) => LinkHandlers;
  /** Who collects workspaces into directories of this machine. */
  readonly holder: Holder;
};

/** A vendor whose cells are on another machine. */
export type RemoteVendor = {
  describe(): Promise<Result<Description>>;
  /** All cells work in the directory of the other machine that has this name there. */
  at(workspace: string): Vendor;
  /**
   * Each cell has a workspace of its own there. It is filled from `CellSpec.workspace` before the cell is
   * ready for the first time, and `Link.collect` brings what is in it back.
   */
  filled(): Vendor;
};

/**
 * The host's half of a vendor on another machine, which has dialled in and is an outpost. While nobody is
 * connected everything is `unavailable`; `gone` is only ever that vendor's own word. A link of a cell is lost
 * with the vendor's link, what runs in the cell is not: ask for the cell again, and then for the effect.
 * A spec with rules of a network is `unsupported`.
 */
export function remoteVendor(options: RemoteOptions): RemoteVendor {
  const far = new Far(options);
  const vendor = (workspace: string): Vendor => {
    const ask = async (
      kind: "create" | "get",
      cell: CellId,
      spec: CellSpec,
      progress: Progress,
    ): Promise<Result<Observation>> => {
      if ((spec.network?.allow.length ?? 0) > 0) return fail(noNetwork(options.name));
      const its = wireSpecOf({ ...spec, workspace });
      const cache = workspace === OWN_WORKSPACE ? spec.workspace : null;
      return far.observe({ kind, cell, spec: its }, { cell, cache }, progress);
    };
    const tell = (kind: "hibernate" | "delete", cell: CellId) =>
      far.observe({ kind, cell }, { cell, cache: null }, () => undefined);
    return {
      name: options.name,
      create: (cell, spec, progress) => ask("create", cell, spec, progress),
      get: (cell, spec, progress) => ask("get", cell, spec, progress),
      hibernate: (cell) => tell("hibernate", cell),
      delete: (cell) => tell("delete", cell),
    };
  };
  return { describe: () => far.describe(), at: vendor, filled: () => vendor(OWN_WORKSPACE) };
}

/** A cell, and the directory of this machine that its workspace is filled from, if it is. */
type Asked = { readonly cell: CellId; readonly cache: string | null };

/** A link to a cell elsewhere, for as long as it lives. */
type Held = {
  readonly trunk: Trunk;
  readonly link: Promise<Result<Link>>;
  readonly generation: number;
};

class Far {
  readonly #options: RemoteOptions;
  readonly #links = new Map<CellId, Held>();
  #trunk: Trunk | undefined;

  constructor(options: RemoteOptions) {
    this.#options = options;
  }

  async describe(): Promise<Result<Description>> {
    const first = await this.#call({ kind: "describe" }, () => undefined);
    if (!first.ok) return first;
    const { report } = first.value;
    return report.kind === "described" ? ok(report) : fail(strange(report));
  }

  /** Answers with the first observation; the others go to `progress`. */
  async observe(call: VendorCall, asked: Asked, progress: Progress): Promise<Result<Observation>> {
    let last: Promise<void> = Promise.resolve();
    const first = await this.#call(call, (report, trunk) => {
      // A link takes time to open: what was said after it stays after it.
      last = last.then(async () => {
        const observed = await this.#observed(asked, report, trunk);
        progress(observed.ok ? observed.value : { kind: "failed", fault: observed.fault });
      });
    });
    if (!first.ok) return first;
    return this.#observed(asked, first.value.report, first.value.trunk);
  }

  #connected(): Trunk | undefined {
    const stream = this.#options.take();
    if (stream === undefined) return this.#trunk;
    const trunk = openTrunk(stream, "host", () => undefined);
    this.#trunk = trunk;
    void trunk.lost.then(() => {
      if (this.#trunk === trunk) this.#trunk = undefined;
    });
    return trunk;
  }

  /** The first report of a call; `onReport` has the others, and the loss of the link as the last. */
  async #call(
    call: VendorCall,
    onReport: (report: Report, trunk: Trunk) => void,
  ): Promise<Result<{ readonly report: Report; readonly trunk: Trunk }>> {
    const { name } = this.#options;
    const trunk = this.#connected();
    if (trunk === undefined) return fail(away(name, "it is not connected"));
    const channel = await trunk.open("vendor", encodeCall(call), NEVER);
    if (!channel.ok) return fail(away(name, channel.fault.message));
    return new Promise((resolve) => {
      let isFirst = true;
      let isOver = false;
      const take = (report: Report): void => {
        if (isOver) return;
        isOver = ENDS.has(report.kind);
        if (!isFirst) {
          onReport(report, trunk);
          return;
        }
        isFirst = false;
        resolve(report.kind === "refused" ? fail(report.fault) : ok({ report, trunk }));
      };
      const end = (message: string): void => {
        const kind = isFirst ? "refused" : "failed";
        take({ kind, fault: away(name, message) });
        isOver = true;
      };
      read(channel.value, take, end);
    });
  }

  async #observed(asked: Asked, report: Report, trunk: Trunk): Promise<Result<Observation>> {
    switch (report.kind) {
      case "ready": {
        const link = await this.#linkTo(asked, report, trunk);
        return link.ok ? ok({ kind: "ready", link: link.value }) : link;
      }
      case "failed":
      case "requested":
      case "starting":
      case "provisioning":
      case "stopping":
      case "stopped":
      case "gone":
        return ok(report);
      case "refused":
      case "described":
        return fail(strange(report));
      default:
        return never(report);
    }
  }

  /** Two who ask for a cell that is up have the same link. */
  async #linkTo(
    asked: Asked,
    ready: Report & { readonly kind: "ready" },
    trunk: Trunk,
  ): Promise<Result<Link>> {
    const { generation } = ready;
    const { cell } = asked;
    const known = this.#links.get(cell);
    if (known?.trunk === trunk && known.generation === generation) return known.link;
    const held: Held = { trunk, generation, link: this.#open(asked, ready, trunk) };
    this.#links.set(cell, held);
    const forget = (): void => {
      if (this.#links.get(cell) === held) this.#links.delete(cell);
    };
    void trunk.lost.then(forget);
    const link = await held.link;
    if (!link.ok) forget();
    return link;
  }

  async #open(
    { cell, cache }: Asked,
    { generation, boundary, spool }: Report & { readonly kind: "ready" },
    trunk: Trunk,
  ): Promise<Result<Link>> {
    const stream = await trunk.open("cell", encodeName({ cell, generation }), NEVER);
    if (!stream.ok) return fail(away(this.#options.name, stream.fault.message));
    stream.value.once("close", () => {
      if (this.#links.get(cell)?.generation === generation) this.#links.delete(cell);
    });
    // Its agent has been opened already, by its vendor: what it was told is not for us to say.
    const opening = {
      cell,
      generation,
      workspace: "",
      spool: "",
      rg: "",
      pty: "",
      limits: DEFAULT_CELL_LIMITS,
      variables: [],
      hasNetwork: false,
      certificates: "",
    };
    const handlers = this.#options.handlers(cell);
    const link = await connectLink(stream.value, opening, boundary, handlers, NEVER);
    if (!link.ok) return fail(away(this.#options.name, link.fault.message));
    if (link.value.spool !== spool) {
      stream.value.destroy();
      return fail(away(this.#options.name, "it says two things of one cell's spool"));
    }
    return cache === null ? link : this.#filled(link.value, cache, stream.value);
  }

  /** A link to a cell whose workspace is there. */
  async #filled(link: Link, cache: string, stream: Duplex): Promise<Result<Link>> {
    const filled = await fillWorkspace(link, cache, NEVER);
    if (!filled.ok) {
      stream.destroy();
      return filled;
    }
    const { holder } = this.#options;
    const collect: Link["collect"] = (signal) => collectWorkspace(link, cache, holder, signal);
    return ok({ ...link, collect });
  }
}

/** A call is not taken back: what it comes to is asked for again. */
const NEVER: AbortSignal = new AbortController().signal;

/** After one of these a call has no more to say. */
const ENDS: ReadonlySet<Report["kind"]> = new Set([
  "ready",
  "failed",
  "gone",
  "refused",
  "described",
]);

function read(
  stream: Duplex,
  take: (report: Report) => void,
  end: (message: string) => void,
): void {
  const reader = new FrameReader();
  stream.on("data", (chunk: Uint8Array) => {
    for (const frame of reader.push(chunk)) {
      const report = frame.ok ? decodeReport(frame.value) : frame;
      if (report.ok) take(report.value);
      else stream.destroy(new Error(`its report is garbled: ${report.fault.message}`));
    }
  });
  stream.on("error", (error) => end(error.message));
  stream.on("end", () => end("it ended the call without an answer"));
  stream.on("close", () => end("the call was cut"));
  stream.end();
}

function away(name: string, message: string): Fault {
  return fault(
    "unavailable",
    `the vendor ${name}: ${message}`,
    name,
    "try again when it is connected",
  );
}

function noNetwork(name: string): Fault {
  return fault(
    "unsupported",
    `the vendor ${name} is on another machine, and gives its cells no network`,
    name,
    "take the rules of the network away for this session, or have its cells on this machine",
  );
}

function strange(report: Report): Fault {
  return fault("malformed", `a vendor reports \`${report.kind}\` where that means nothing`);
}
