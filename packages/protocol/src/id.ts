import { fail, fault, ok, type Result } from "./fault.ts";

declare const brand: unique symbol;

/** Minted by the caller, rising within a session; the core refuses one it has already accepted. */
export type TurnId = number & { readonly [brand]: "TurnId" };
/** Minted by the core: one counter for all actions of a session, never reused. */
export type ActionId = number & { readonly [brand]: "ActionId" };
/** 0 is the session's own agent; a sub-agent gets the next one. */
export type AgentId = number & { readonly [brand]: "AgentId" };
/** The name of a session in the store; 26 characters of Crockford base 32, sortable by time. */
export type SessionId = string & { readonly [brand]: "SessionId" };
/** The name of a cell; never interchangeable with a session's. */
export type CellId = string & { readonly [brand]: "CellId" };
/** The SHA-256 of some bytes, as 64 hexadecimal digits. */
export type Digest = string & { readonly [brand]: "Digest" };

/** Numeric ids are whole and below this: a double holds each of them exactly. */
export const ID_LIMIT: number = 2 ** 53;

export const ROOT_AGENT: AgentId = 0 as AgentId;

export function turnId(value: number): TurnId {
  return checked(value, "turn") as TurnId;
}

export function actionId(value: number): ActionId {
  return checked(value, "action") as ActionId;
}

export function agentId(value: number): AgentId {
  return checked(value, "agent") as AgentId;
}

/** Reads a session id that a person or a program wrote. */
export function parseSessionId(text: string): Result<SessionId> {
  return /^s_[0-9a-hjkmnp-tv-z]{26}$/.test(text)
    ? ok(text as SessionId)
    : fail(fault("usage", "not a session id", text, "`dev sessions` lists them"));
}

/** Makes a session id from the time in Unix milliseconds and 10 random bytes. */
export function sessionId(nowMs: number, random: Uint8Array): SessionId {
  return `s_${sortable(nowMs, random)}` as SessionId;
}

/** Makes a cell id from the time in Unix milliseconds and 10 random bytes. */
export function cellId(nowMs: number, random: Uint8Array): CellId {
  return `c_${sortable(nowMs, random)}` as CellId;
}

export function parseCellId(text: string): Result<CellId> {
  return /^c_[0-9a-hjkmnp-tv-z]{26}$/.test(text)
    ? ok(text as CellId)
    : fail(fault("usage", "not a cell id", text));
}

export function parseDigest(text: string): Result<Digest> {
  return /^[0-9a-f]{64}$/.test(text)
    ? ok(text as Digest)
    : fail(fault("malformed", "not a SHA-256 digest", text));
}

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** 48 bits of time and 80 of chance as 26 digits, the layout of a ULID. */
function sortable(nowMs: number, random: Uint8Array): string {
  let text = "";
  let time = nowMs;
  for (let digit = 0; digit < 10; digit++) {
    text = (ALPHABET[time % 32] ?? "") + text;
    time = Math.floor(time / 32);
  }
  let bits = 0;
  let held = 0;
  for (let index = 0; index < 10; index++) {
    held = (held << 8) | (random[index] ?? 0);
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(held >> bits) & 31] ?? "";
    }
    held &= (1 << bits) - 1;
  }
  return text;
}

function checked(value: number, what: string): number {
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`not a ${what} id: ${value}`);
  return value;
}
