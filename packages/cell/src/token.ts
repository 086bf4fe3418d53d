import { createHmac, timingSafeEqual } from "node:crypto";
import { type CellId, fail, fault, ok, parseCellId, type Result } from "@dev/protocol";

/** Who may open a link, and until when: the agent in a cell, or a vendor on another machine. */
export type TokenClaims = CellClaims | VendorClaims;

export type CellClaims = {
  readonly kind: "cell";
  readonly account: string;
  readonly cell: CellId;
  readonly generation: number;
  readonly untilMs: number;
};

export type VendorClaims = {
  readonly kind: "vendor";
  readonly account: string;
  readonly untilMs: number;
};

/** A secret that an account's tokens are made with has at least this. */
export const TOKEN_SECRET_BYTES: number = 32;
/** A longer text is no token. */
export const TOKEN_LIMIT_BYTES: number = 2048;
/** How long a token is good for; a live link gets a new one at half of it. */
export const TOKEN_LIFE_MS: number = 24 * 60 * 60 * 1000;

/** Makes a token: its claims in the open, with an HMAC-SHA-256 over them by the account's secret. */
export function mintToken(claims: TokenClaims, secret: Uint8Array): string {
  if (secret.length < TOKEN_SECRET_BYTES) {
    throw new RangeError(`a secret has at least ${TOKEN_SECRET_BYTES} bytes`);
  }
  const { account, kind, untilMs } = claims;
  const its = kind === "cell" ? [claims.cell, claims.generation] : ["", 0];
  const text = Buffer.from(JSON.stringify([kind, account, ...its, untilMs])).toString("base64url");
  return `${PREFIX}.${text}.${macOf(text, secret)}`;
}

/**
 * Gives the secret of an account; undefined when there is no such account. A fault, when that cannot be
 * known now, is no verdict on a token: `unavailable`.
 */
export type SecretOf = (account: string) => Promise<Result<Uint8Array | undefined>>;

/**
 * Reads a token that somebody has sent. Fault `unauthorized`: it is none, its account is not known, it was
 * made with another secret, or it has expired; and those of `secretOf`. The comparison takes the same time for every wrong one.
 */
export async function readToken(
  token: string,
  secretOf: SecretOf,
  nowMs: number,
): Promise<Result<TokenClaims>> {
  const [prefix, text, mac, ...rest] = token.slice(0, TOKEN_LIMIT_BYTES + 1).split(".");
  const isWhole = token.length <= TOKEN_LIMIT_BYTES && rest.length === 0 && prefix === PREFIX;
  if (!isWhole || text === undefined || mac === undefined) return refused("this is not a token");
  const claims = claimsOf(text);
  if (claims === undefined) return refused("this is not a token");
  // An account that is not there costs as much as one that is: nobody can ask which there are.
  const known = await secretOf(claims.account);
  if (!known.ok) return known;
  const secret = known.value ?? NOBODY;
  // As texts: the last letter of one may be changed and its bytes stay the same.
  const given = Buffer.from(mac);
  const right = Buffer.from(macOf(text, secret));
  const isRight = given.length === right.length && timingSafeEqual(given, right);
  if (!isRight || secret === NOBODY) return refused("the token's signature is not right");
  if (claims.untilMs <= nowMs) {
    return refused(`the token has expired at ${new Date(claims.untilMs).toISOString()}`);
  }
  return ok(claims);
}

/** Says what a text is, so that one that is made for something else can never pass. */
const PREFIX = "dev1";
const NOBODY: Uint8Array = new Uint8Array(TOKEN_SECRET_BYTES);

function macOf(text: string, secret: Uint8Array): string {
  return createHmac("sha256", secret).update(`${PREFIX}.${text}`).digest("base64url");
}

function claimsOf(text: string): TokenClaims | undefined {
  const fields = parsed(Buffer.from(text, "base64url").toString("utf8"));
  if (!Array.isArray(fields) || fields.length !== 5) return undefined;
  const [kind, account, cell, generation, untilMs]: readonly unknown[] = fields;
  if (typeof account !== "string" || !isCount(untilMs) || !isCount(generation)) return undefined;
  if (kind === "vendor") return { kind, account, untilMs };
  const id = typeof cell === "string" ? parseCellId(cell) : undefined;
  if (kind !== "cell" || !id?.ok) return undefined;
  return { kind, account, cell: id.value, generation, untilMs };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refused(message: string): Result<never> {
  return fail(fault("unauthorized", message, "the token", "get a new one from the server"));
}
