import type { ActionId, CellId } from "@dev/protocol";

/** One request that a cell, or an action outside it, made of the network, and what came of it. */
export type EgressRecord = {
  /** Null where no cell made it. */
  readonly cell: CellId | null;
  /** As the command says that made it; null where it says nothing. */
  readonly action: ActionId | null;
  /** When it was made, in Unix milliseconds, and how long it took. */
  readonly atMs: number;
  readonly durationMs: number;
  /** Empty where it was not even understood. */
  readonly host: string;
  readonly port: number;
  /** `CONNECT` where what it carries passes through unseen. */
  readonly method: string;
  /** Without its query, which may hold anything; empty where it was not seen. */
  readonly path: string;
  /** The origin's; 0 where it was not seen, or there was none. */
  readonly status: number;
  /** Of bodies, or of all that passed through. */
  readonly upBytes: number;
  readonly downBytes: number;
  /** `failed`: it was allowed, and did not come to its end. */
  readonly verdict: "allowed" | "refused" | "failed";
  /** The rule that allowed it; empty where none did. */
  readonly rule: string;
  /** Why it was refused or failed, or what was done about its answer. */
  readonly reason: string;
};

/** Why something is not done: `refused` by a rule or a limit, or `failed` in the world outside. */
export type Refusal = {
  readonly kind: "refused" | "failed";
  /** What HTTP calls it. */
  readonly status: number;
  readonly reason: string;
};

export function refusal(status: number, reason: string): Refusal {
  return { kind: "refused", status, reason };
}

export function failure(reason: string): Refusal {
  return { kind: "failed", status: 502, reason };
}

/** A record as it grows. */
export type Draft = {
  readonly atMs: number;
  readonly action: ActionId | null;
  host: string;
  port: number;
  method: string;
  path: string;
  rule: string;
  status: number;
  /** Said of an answer that was let through. */
  remark: string;
};

export function beginDraft(atMs: number, action: ActionId | null, method: string): Draft {
  const nothing = { host: "", port: 0, path: "", rule: "", status: 0, remark: "" };
  return { atMs, action, method, ...nothing };
}

/** Of a path, and of a reason: what a cell says is not to fill a store. */
const TEXT_LIMIT = 512;

export function finishRecord(
  draft: Draft,
  cell: CellId | null,
  endMs: number,
  passed: { readonly up: number; readonly down: number },
  end: Refusal | null,
): EgressRecord {
  const { atMs, action, host, port, method, path, rule, status, remark } = draft;
  return {
    cell,
    action,
    atMs,
    durationMs: Math.max(0, endMs - atMs),
    host,
    port,
    method: method.slice(0, TEXT_LIMIT),
    path: path.slice(0, TEXT_LIMIT),
    status,
    upBytes: passed.up,
    downBytes: passed.down,
    verdict: end === null ? "allowed" : end.kind,
    rule,
    reason: (end === null ? remark : end.reason).slice(0, TEXT_LIMIT),
  };
}
