import type { CellSpec, Vendor } from "@dev/cell";
import type { Core } from "@dev/host";
import type { Router } from "@dev/model";
import type { ActionId, BrowseOp, CellId, Outcome, Result } from "@dev/protocol";
import type { Session as SessionRow, Store } from "@dev/store";
import type { Operations } from "./operation.ts";
import type { LayeredRule } from "./policy.ts";
import type { Asker, Progress } from "./progress.ts";

/** All that a driver needs of the world. Time and chance come from here, and from nowhere else. */
export type Services = {
  readonly store: Store;
  readonly core: Core;
  readonly router: Router;
  readonly vendor: Vendor;
  readonly rules: readonly LayeredRule[];
  /** Null: nobody attends, and whatever would be asked is refused. */
  readonly asker: Asker | null;
  /** Null: there are none here, and whatever would be one is refused. */
  readonly operations: Operations | null;
  readonly onProgress: (progress: Progress) => void;
  /** Performs a request outside the cell, by the session's own rules; null: there is no network. */
  readonly browse: ((op: BrowseOp, id: ActionId, signal: AbortSignal) => Promise<Outcome>) | null;
  /** Prepares a session's workspace, or finds it prepared. */
  readonly spec: (session: SessionRow) => Promise<Result<CellSpec>>;
  /**
   * Takes a snapshot of the session's own workspace, as it lies on this machine, and answers its id; empty
   * where the session has none of its own.
   */
  readonly checkpoint: (session: SessionRow) => Promise<Result<string>>;
  /** What a path below a workspace really names: see `resolvePath`. */
  readonly resolve: (workspace: string, path: string) => string;
  readonly newCellId: () => CellId;
  /** Unix milliseconds. */
  readonly now: () => number;
  /** Who this driver is, in the store: see `isAlive`. */
  readonly holder: string;
  readonly isAlive: (holder: string) => boolean;
};
