import type { Action, ActionId, Event, Outcome, Result, SessionId, Usage } from "@dev/protocol";

/**
 * Sessions, their journals and their ledgers. Every write that belongs together is one transaction,
 * durable when its promise resolves. A write carries the `fence` of the claim it was made under, and
 * an append the sequence that it expects: of two drivers the older is refused (`fenced`).
 */
export interface Store {
  /** Makes a session, and its maker its driver; without a `holder` it has none yet. Fault: `exists`. */
  create(session: NewSession, holder?: string): Promise<Result<Claim>>;
  /** Fault: `unknown_id`. */
  session(id: SessionId): Promise<Result<Session>>;
  /** Newest first; at most `limit`, of those older than `before` (a session id) where it is given. */
  sessions(limit: number, before?: SessionId): Promise<Result<readonly Session[]>>;
  /**
   * Makes the caller the session's one driver. Fault: `in_use`, when another holds it and
   * `isAlive` says that that holder lives.
   */
  claim(
    id: SessionId,
    holder: string,
    isAlive: (holder: string) => boolean,
    nowMs: number,
  ): Promise<Result<Claim>>;
  /** Gives the session back; a claim that was fenced off is let be. */
  release(claim: Claim): Promise<Result<void>>;
  /** Writes down an accepted event: the completion it is (if it is one) and the actions it minted. */
  append(claim: Claim, entry: Entry): Promise<Result<void>>;
  /** Writes that these effects may begin. Durable before the promise resolves. */
  dispatch(claim: Claim, dispatches: readonly Dispatch[]): Promise<Result<void>>;
  /** Writes lines that change no state of the core: a late outcome, an action with no answer. */
  settle(claim: Claim, settled: readonly Settled[]): Promise<Result<void>>;
  /** The three facts, together, and the workspace's snapshot as a checkpoint. Earlier saves of the session may be dropped. */
  save(claim: Claim, save: Save): Promise<Result<void>>;
  /**
   * Names a snapshot of the session's workspace, unless it is the one that was named last. `save` does so
   * too, and moves that one's sequence on. Of more than a few hundred the oldest go, but for the first.
   */
  checkpoint(claim: Claim, checkpoint: NewCheckpoint): Promise<Result<void>>;
  /** What the session can go back to, the oldest first. Fault: `unknown_id`. */
  checkpoints(id: SessionId): Promise<Result<readonly Checkpoint[]>>;
  /**
   * Makes a session that has all that another had at a checkpoint, and goes on from there. Faults:
   * `unknown_id`, `exists`, `not_found`.
   */
  fork(from: SessionId, checkpoint: number, made: NewSession): Promise<Result<void>>;
  /** Every workspace's snapshot that some session names. */
  workspaces(): Promise<Result<readonly string[]>>;
  /** Remembers which cell the session is on. */
  attach(claim: Claim, cell: CellRecord): Promise<Result<void>>;
  /** The newest save, or null. */
  lastSave(id: SessionId): Promise<Result<Save | null>>;
  /** Events after sequence `after`, in order. */
  journal(id: SessionId, after: number): Promise<Result<readonly JournalEntry[]>>;
  /** Every action of the session with its life so far, in id order, from id `from`. */
  ledger(id: SessionId, from?: ActionId): Promise<Result<readonly LedgerEntry[]>>;
  /**
   * Writes down what a session has asked of the network. It takes no claim: a request ends when it ends,
   * whoever drives the session by then, and changes nothing. Fault: `unknown_id`.
   */
  note(id: SessionId, requests: readonly NetworkRequest[]): Promise<Result<void>>;
  /** Every request of the session, in the order in which they ended. Fault: `unknown_id`. */
  requests(id: SessionId): Promise<Result<readonly NetworkRequest[]>>;
  close(): void;
}

export type NewSession = {
  readonly id: SessionId;
  readonly createdMs: number;
  /** The directory that the person works in; absolute. */
  readonly directory: string;
  /** Which vendor gives it cells. */
  readonly vendor: string;
  readonly model: string;
  /** The core's configuration, as JSON: the session keeps the one that it began with. */
  readonly config: string;
};

export type Session = NewSession & {
  readonly updatedMs: number;
  /** The sequence of the last journal entry; 0 when there is none. */
  readonly sequence: number;
  /** The first prompt, shortened to one line; empty before there is one. */
  readonly title: string;
  readonly state: SessionState;
  readonly cell: CellRecord | null;
  readonly holder: string | null;
};

/** `active`: a turn is in flight, or was when its driver died. Otherwise how the last turn ended. */
export type SessionState = "new" | "active" | "complete" | "cancelled" | "failed" | "limit";

export type CellRecord = {
  readonly id: string;
  /** The workspace that the cell works in, absolute. */
  readonly workspace: string;
};

export type Claim = { readonly session: SessionId; readonly fence: number };

export type Entry = {
  /** The session's sequence before this entry; the entry gets the next one. Fault: `fenced`. */
  readonly expect: number;
  readonly event: Event;
  readonly minted: readonly Action[];
  /** Those of the minted that may begin at once: no policy and no cell has a say in them. */
  readonly dispatches?: readonly Dispatch[];
  readonly state: SessionState;
  readonly atMs: number;
};

export type JournalEntry = {
  readonly sequence: number;
  readonly event: Event;
  readonly atMs: number;
};

export type Dispatch = {
  readonly id: ActionId;
  /** Counts from 1. A second attempt is for a model call alone. */
  readonly attempt: number;
  /** The spool of the cell that performs it; empty for what no cell performs. */
  readonly spool: string;
  readonly atMs: number;
};

/** An end that is no event of the core: what had no answer, came too late, or was dropped undispatched. */
export type Settled = {
  readonly id: ActionId;
  readonly state: "completed" | "unknown" | "refused";
  readonly detail: string;
  readonly atMs: number;
};

export type Save = {
  readonly snapshot: Uint8Array;
  /** The workspace's snapshot id; empty where the workspace is the person's own directory. */
  readonly workspace: string;
  /** The journal's sequence that the snapshot has seen. */
  readonly sequence: number;
  readonly atMs: number;
};

export type NewCheckpoint = {
  /** The workspace's snapshot id; not empty. */
  readonly workspace: string;
  /** The journal's sequence that it was taken after. */
  readonly sequence: number;
  readonly atMs: number;
  readonly cause: CheckpointCause;
};

export type Checkpoint = NewCheckpoint & {
  /** Counts a session's from 1. */
  readonly number: number;
};

/** `begin`: as it was taken; `rewind`: before it was set back; `import`: as it came. */
export type CheckpointCause = "begin" | "effects" | "save" | "rewind" | "import";

/** One action's life: minted → refused, or dispatched → completed or unknown. */
export type LedgerEntry = {
  readonly action: Action;
  readonly lines: readonly LedgerLine[];
};

export type LedgerLine = {
  readonly state: LedgerState;
  readonly atMs: number;
  readonly attempt: number;
  readonly spool: string;
  /** Of a completion: its outcome, for an effect; what was used, for a model call. */
  readonly outcome: Outcome | null;
  readonly usage: Usage | null;
  readonly detail: string;
};

/** One request to the network that a session's cell made, or an action outside it, and its end. */
export type NetworkRequest = {
  /** As the command says that made it; null where it says nothing. */
  readonly action: ActionId | null;
  readonly atMs: number;
  readonly durationMs: number;
  /** Empty where it was not understood. */
  readonly host: string;
  readonly port: number;
  readonly method: string;
  /** Without its query; empty where it was not seen. */
  readonly path: string;
  /** The origin's answer; 0 where there was none, or it was not seen. */
  readonly status: number;
  readonly upBytes: number;
  readonly downBytes: number;
  readonly verdict: "allowed" | "refused" | "failed";
  /** The rule that allowed it; empty where none did. */
  readonly rule: string;
  readonly reason: string;
};

export type LedgerState = "minted" | "refused" | "dispatched" | "completed" | "unknown";
