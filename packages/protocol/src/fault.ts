/**
 * What the world can do to us, as data. A fault says what failed, on what, and what the reader can
 * do about it; a bug of our own throws instead.
 */
export type Fault = {
  readonly code: FaultCode;
  /** What failed, in a sentence a person can read. */
  readonly message: string;
  /** What it failed on: a path, a URL, an id. Empty when there is no one thing. */
  readonly subject: string;
  /** What the reader can do. Empty when nothing can be done. */
  readonly mend: string;
};

/** Every fault code, in wire order: a code is never renumbered, new ones go to the end. */
export const FAULT_CODES = [
  // Calls and files in a cell.
  "bad_call",
  "unsupported",
  "path_escape",
  "not_found",
  "not_a_file",
  "exists",
  "changed",
  "no_match",
  "many_matches",
  "not_text",
  "too_large",
  "bad_pattern",
  "io",
  "spawn",
  // A model's endpoint.
  "unreachable",
  "silent",
  "cut",
  "garbled",
  "rate_limited",
  "overloaded",
  "unauthorized",
  "bad_request",
  "context_overflow",
  "model_refused",
  // A cell's life.
  "gone",
  "unavailable",
  "link_lost",
  "superseded",
  // A session and its store.
  "limit",
  "diverged",
  "fenced",
  "in_use",
  "unknown_id",
  "corrupt",
  "newer_version",
  // The core's host.
  "handle",
  "malformed",
  "poison",
  "panic",
  "null",
  "busy",
  "full",
  // A person's input.
  "config",
  "usage",
] as const;

export type FaultCode = (typeof FAULT_CODES)[number];

/** Either a value or the fault that stood in its way. */
export type Result<T, F = Fault> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: F };

export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

export function fail<F = Fault>(fault: F): { readonly ok: false; readonly fault: F } {
  return { ok: false, fault };
}

/** Makes a fault; `subject` and `mend` may be left out where there are none. */
export function fault(code: FaultCode, message: string, subject = "", mend = ""): Fault {
  return { code, message, subject, mend };
}

/** Ends every switch over a union: a new variant does not compile until it has a case. */
export function never(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
