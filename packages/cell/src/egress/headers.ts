import { redactText } from "./redaction.ts";
import type { Credential } from "./secret.ts";

/** Headers, as Node takes them; names in lower case. */
export type Headers = Record<string, string | string[]>;

/** They are about one connection, and not for who is behind it (RFC 9110, 7.6.1). */
const HOP: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * What of a cell's own is not said where a secret is: who else it could claim to be; a method that is
 * not the one that was judged; and parts and encodings in which a secret that comes back is not found.
 */
const UNSAID: ReadonlySet<string> = new Set([
  "accept-encoding",
  "authorization",
  "cookie",
  "if-range",
  "range",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
]);

/** A request's headers as they go on to `host`; how its body is framed is said anew. */
export function headersUp(
  raw: readonly string[],
  host: string,
  credential: Credential | null,
): Headers {
  const headers = kept(raw, (name) => credential !== null && UNSAID.has(name));
  headers.host = host;
  if (credential !== null) {
    headers["accept-encoding"] = "identity";
    headers[credential.header] = credential.value;
  }
  return headers;
}

/** An answer's headers as they go back to the cell. */
export function headersDown(
  raw: readonly string[],
  credential: Credential | null,
  found: () => void,
): Headers {
  const headers = kept(raw, () => false);
  if (credential === null) return headers;
  const clean = (text: string): string => redactText(text, credential.needles, found);
  const result = none();
  for (const [name, value] of Object.entries(headers)) {
    result[clean(name)] = typeof value === "string" ? clean(value) : value.map(clean);
  }
  return result;
}

/** How a body is framed: its length, or pieces; null where it is neither, or both. */
export function framing(headers: {
  readonly "content-length"?: string | undefined;
  readonly "transfer-encoding"?: string | undefined;
}):
  | { readonly kind: "none" | "chunked" }
  | { readonly kind: "length"; readonly value: string }
  | null {
  const { "content-length": length, "transfer-encoding": coding } = headers;
  if (coding !== undefined) {
    return coding.toLowerCase() === "chunked" && length === undefined ? { kind: "chunked" } : null;
  }
  if (length === undefined) return { kind: "none" };
  return /^\d{1,15}$/.test(length) ? { kind: "length", value: length } : null;
}

function kept(raw: readonly string[], isDropped: (name: string) => boolean): Headers {
  const named = new Set<string>();
  for (const [name, value] of pairs(raw)) {
    if (name === "connection")
      for (const each of value.split(",")) named.add(each.trim().toLowerCase());
  }
  const headers = none();
  for (const [name, value] of pairs(raw)) {
    if (HOP.has(name) || named.has(name) || isDropped(name)) continue;
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else headers[name] = [...(typeof before === "string" ? [before] : before), value];
  }
  return headers;
}

/** Without a prototype: a header may be called anything. */
function none(): Headers {
  return Object.create(null) as Headers;
}

function* pairs(raw: readonly string[]): Generator<readonly [name: string, value: string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    yield [(raw[at] ?? "").toLowerCase(), raw[at + 1] ?? ""];
  }
}
