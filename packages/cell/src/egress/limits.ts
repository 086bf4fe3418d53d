/** What a cell's network may take; each is reached with an answer, or an end, that says so. */
export type EgressLimits = {
  /** Connections that a cell has open at once. */
  readonly connectionCount: number;
  /** Requests in the life of one cell's network: each is a line of the ledger. */
  readonly requestCount: number;
  /** Requests that wait on one connection for the answer to the one before them. */
  readonly pipelineCount: number;
  /** Of a request's or an answer's head. */
  readonly headerBytes: number;
  /** From the beginning of a connection, or the end of an answer, to the end of the next head. */
  readonly headerMs: number;
  /** To find an address, reach it, and agree on TLS. */
  readonly connectMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
  /** Of one request, or of one connection that passes through. */
  readonly totalMs: number;
  /** Up and down together, of the same. */
  readonly bytes: number;
};

export const EGRESS_LIMITS: EgressLimits = {
  connectionCount: 256,
  requestCount: 100_000,
  pipelineCount: 16,
  headerBytes: 32 * 1024,
  headerMs: 30_000,
  connectMs: 20_000,
  idleMs: 2 * 60 * 1000,
  totalMs: 2 * 60 * 60 * 1000,
  bytes: 8 * 1024 * 1024 * 1024,
};
