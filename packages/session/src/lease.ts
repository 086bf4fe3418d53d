import type { CellSpec, Link, Observation, Vendor } from "@dev/cell";
import type { CellId, Fault, Result } from "@dev/protocol";
import { fail, fault, ok } from "@dev/protocol";

/** What a lease needs of the session it is for. */
export type LeaseTerms = {
  readonly vendor: Vendor;
  /** Remembers the cell before it is made, so that a crash in between leaves a name to ask about. */
  readonly attach: (cell: CellId, workspace: string) => Promise<Result<void>>;
  readonly newCellId: () => CellId;
  /** Prepares the workspace, or finds it prepared, and says how to build a cell on it. */
  readonly spec: () => Promise<Result<CellSpec>>;
  readonly onObservation: (kind: Observation["kind"], note: string) => void;
};

/**
 * A session's hold on a cell: it acquires one when it is first needed, and again when it is lost. A
 * cell that is gone is followed by a new one on the same workspace; its spool is then another.
 */
export class Lease {
  readonly #terms: LeaseTerms;
  #cell: CellId | null;
  #workspace: string | null = null;
  #link: Link | null = null;
  #pending: Promise<Result<Link>> | null = null;

  constructor(terms: LeaseTerms, cell: CellId | null) {
    this.#terms = terms;
    this.#cell = cell;
  }

  /** The directory on this machine that the cell works in; null before the first link. */
  get workspace(): string | null {
    return this.#workspace;
  }

  /** The live link, acquired if there is none. Two callers share one acquisition. */
  link(): Promise<Result<Link>> {
    if (this.#link !== null) return Promise.resolve(ok(this.#link));
    this.#pending ??= this.#acquire().finally(() => {
      this.#pending = null;
    });
    return this.#pending;
  }

  /** Says that a link was lost; one that was replaced meanwhile is let be. */
  lost(link: Link): void {
    if (this.#link === link) this.#link = null;
  }

  /**
   * Brings what changed in the cell back to the workspace on this machine. What a cell that is lost had
   * is lost with it: the effects that were under way there say so.
   */
  async collect(): Promise<Result<undefined>> {
    const link = this.#link;
    if (link === null) return ok(undefined);
    const collected = await link.collect(new AbortController().signal);
    if (collected.ok || !["link_lost", "gone"].includes(collected.fault.code)) return collected;
    this.lost(link);
    return ok(undefined);
  }

  /** Ends the cell's agent; the cell can be had again. */
  async close(): Promise<void> {
    const pending = this.#pending;
    if (pending !== null) await pending;
    const link = this.#link;
    this.#link = null;
    if (link !== null) await link.close();
  }

  async #acquire(): Promise<Result<Link>> {
    const spec = await this.#terms.spec();
    if (!spec.ok) return spec;
    this.#workspace = spec.value.workspace;
    if (this.#cell !== null) {
      const again = await this.#observe(this.#cell, spec.value, "get");
      if (again.ok || again.fault.code !== "gone") return again;
    }
    const cell = this.#terms.newCellId();
    const attached = await this.#terms.attach(cell, spec.value.workspace);
    if (!attached.ok) return attached;
    this.#cell = cell;
    return this.#observe(cell, spec.value, "create");
  }

  /** Asks the vendor, and waits for the level that settles it. */
  async #observe(cell: CellId, spec: CellSpec, call: "create" | "get"): Promise<Result<Link>> {
    let settle: (result: Result<Link>) => void = () => {};
    const settled = new Promise<Result<Link>>((resolve) => {
      settle = resolve;
    });
    const see = (observation: Observation): void => {
      const note = observation.kind === "failed" ? observation.fault.message : "";
      this.#terms.onObservation(observation.kind, note);
      const result = verdict(observation, cell);
      if (result !== null) settle(result);
    };
    const first = await this.#terms.vendor[call](cell, spec, see);
    if (!first.ok) return first;
    see(first.value);
    const result = await settled;
    if (result.ok) this.#link = result.value;
    return result;
  }
}

/** What an observation settles; null while the cell is on its way. */
function verdict(observation: Observation, cell: CellId): Result<Link> | null {
  switch (observation.kind) {
    case "ready":
      return ok(observation.link);
    case "failed":
      return fail(observation.fault);
    case "gone":
      return fail(goneFault(cell));
    case "requested":
    case "starting":
    case "provisioning":
    case "stopping":
    case "stopped":
      return null;
  }
}

function goneFault(cell: CellId): Fault {
  return fault("gone", "the cell does not exist any more", cell, "resume the session on a new one");
}
