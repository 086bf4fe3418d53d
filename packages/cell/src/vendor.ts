import type { Action, CellId, EffectEvent, Fault, Result } from "@dev/protocol";
import type { OpenChannel } from "./channel.ts";
import type { NetworkRules } from "./egress/rule.ts";

/**
 * A source of cells. Four lifecycle methods, and nothing that describes what a substrate can do. Each
 * answers with its first observation at once and finishes on `progress`. Asking twice is safe: a
 * `get` of a cell that is up says `ready`. `gone` is terminal, `unavailable` is worth another try.
 */
export interface Vendor {
  readonly name: string;
  create(id: CellId, spec: CellSpec, progress: Progress): Promise<Result<Observation>>;
  /** Never invents a cell: an id that this vendor does not know is `gone`. */
  get(id: CellId, spec: CellSpec, progress: Progress): Promise<Result<Observation>>;
  /** Advice: a vendor that cannot suspend answers with what the cell is doing. */
  hibernate(id: CellId): Promise<Result<Observation>>;
  delete(id: CellId): Promise<Result<Observation>>;
}

/** How to build, or rebuild, one cell. It travels with every acquisition; no vendor keeps a copy. */
export type CellSpec = {
  /** The directory on this machine that the cell works in; absolute. */
  readonly workspace: string;
  /** Variables for every command in the cell. */
  readonly variables: Readonly<Record<string, string>>;
  readonly limits: CellLimits;
  /** What the cell may reach, by way of the host; without rules it has no network at all. */
  readonly network?: NetworkRules;
};

export type CellLimits = {
  /** A command that sets no deadline of its own gets this one. */
  readonly commandTimeoutMs: number;
  /** Of each of stdout and stderr, what is kept in an outcome: half head, half tail. */
  readonly outputBytes: number;
  readonly processCount: number;
  readonly openFileCount: number;
  readonly fileBytes: number;
  /** Of all its processes together, where the machine can count that. */
  readonly memoryBytes: number;
  /** What one command may write in all, in its workspace, home and temporary files. */
  readonly diskBytes: number;
};

/** Where a cell is now: a level, not an edge. */
export type Observation =
  | { readonly kind: "requested" | "starting" | "provisioning" | "stopping" | "stopped" | "gone" }
  | { readonly kind: "ready"; readonly link: Link }
  /** It could not be had: `unavailable` (try again), or `gone` (never again). */
  | { readonly kind: "failed"; readonly fault: Fault };

export type Progress = (observation: Observation) => void;

/**
 * What stands between a cell's commands and the machine: `none`; `process` (the person's own
 * directory, with the rest of the machine read-only and no network); `cell` (an environment of its own).
 */
export type Boundary = "none" | "process" | "cell";

/** A live connection to the agent in a cell. The agent dialled; nothing dials into a cell. */
export interface Link {
  readonly cell: CellId;
  /** Raised at every start of the cell. A link of an older generation is refused. */
  readonly generation: number;
  readonly boundary: Boundary;
  /**
   * The identity of the cell's spool, made when the spool was. An action dispatched under another
   * spool cannot be asked about: it is `unknown`.
   */
  readonly spool: string;
  /**
   * Performs an effect, once for ever: an id that the spool knows is answered from it, or joined if it
   * still runs. Aborting cancels the effect, and the answer then says `cancelled`. A fault
   * (`link_lost`, `superseded`) says nothing about the effect.
   */
  perform(action: Action, onOutput: OnOutput, signal: AbortSignal): Promise<Result<EffectEvent>>;
  /** The outcomes of these are safe elsewhere: the spool may drop what they say, not that they were. */
  acknowledge(ids: readonly Action["id"][]): void;
  /**
   * Opens a two-way byte stream to the agent, beside its effects: see `Channels`. Faults:
   * `unsupported` for a kind that the agent does not serve, `limit`, `unavailable`, `link_lost`.
   */
  readonly open: OpenChannel;
  /**
   * Brings what the cell has changed in its workspace into `CellSpec.workspace`. Where the cell works in
   * that very directory there is nothing to bring.
   */
  collect(signal: AbortSignal): Promise<Result<undefined>>;
  /** Ends the agent, and every process that it started. */
  close(): Promise<void>;
}

/** What a running command has written so far; may be dropped under load, unlike its outcome. */
export type OnOutput = (stream: "stdout" | "stderr", text: string) => void;
