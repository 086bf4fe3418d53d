import type { ColumnType, Kysely, Transaction } from "kysely";
import type { CheckpointCause, LedgerState, NetworkRequest, SessionState } from "./store.ts";

/** The tables, as queries see them; `migration.ts` makes them. */
export type Schema = {
  readonly sessions: SessionTable;
  readonly journal: JournalTable;
  readonly actions: ActionTable;
  readonly ledger: LedgerTable;
  readonly saves: SaveTable;
  readonly requests: RequestTable;
  readonly checkpoints: CheckpointTable;
};

export type Db = Kysely<Schema>;
export type Tx = Transaction<Schema>;

/** Bytes go in as a view and may come out as the buffer below it, depending on the driver. */
export type Bytes = ColumnType<Uint8Array | ArrayBuffer, Uint8Array, Uint8Array>;

export type SessionTable = {
  readonly id: string;
  readonly created_ms: number;
  readonly directory: string;
  readonly vendor: string;
  readonly model: string;
  readonly config: string;
  readonly updated_ms: number;
  readonly sequence: number;
  readonly title: string;
  readonly state: SessionState;
  readonly cell_id: string | null;
  readonly cell_workspace: string | null;
  readonly holder: string | null;
  readonly claimed_ms: number | null;
  /** Of the newest claim; 0 before there is one. It only rises. */
  readonly fence: number;
};

export type JournalTable = {
  readonly session: string;
  readonly sequence: number;
  readonly at_ms: number;
  readonly format: number;
  readonly body: Bytes;
};

export type ActionTable = {
  readonly session: string;
  readonly id: number;
  /** The journal's entry that minted it. */
  readonly sequence: number;
  readonly family: string;
  readonly format: number;
  readonly body: Bytes;
};

/** One line of an action's life. Lines are only ever added. */
export type LedgerTable = {
  readonly session: string;
  readonly action: number;
  /** Counts an action's lines from 0. */
  readonly line: number;
  readonly state: LedgerState;
  readonly at_ms: number;
  readonly attempt: number;
  readonly spool: string;
  readonly detail: string;
  /** The journal's entry that this line and its event are one write with; null for a dispatch. */
  readonly sequence: number | null;
};

export type SaveTable = {
  readonly session: string;
  readonly sequence: number;
  readonly at_ms: number;
  readonly workspace: string;
  readonly snapshot: Bytes;
};

/** One request to the network. Lines are only ever added. */
export type RequestTable = {
  readonly session: string;
  /** Counts a session's requests from 0. */
  readonly line: number;
  /** What a command says of itself: it may name one that never was. */
  readonly action: number | null;
  readonly at_ms: number;
  readonly duration_ms: number;
  readonly host: string;
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly up_bytes: number;
  readonly down_bytes: number;
  readonly verdict: NetworkRequest["verdict"];
  readonly rule: string;
  readonly reason: string;
};

export type CheckpointTable = {
  readonly session: string;
  /** Counts a session's checkpoints from 1. */
  readonly number: number;
  readonly sequence: number;
  readonly at_ms: number;
  readonly workspace: string;
  readonly cause: CheckpointCause;
};
