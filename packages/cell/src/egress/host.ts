import { isIPv4 } from "node:net";
import { domainToASCII } from "node:url";

/** A host and a port, in the one spelling that rules are compared with. */
export type Target = { readonly host: Host; readonly port: number };

/** `name` has no trailing dot, only lower case, and `xn--` for what is not ASCII. */
export type Host =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "address"; readonly name: string; readonly family: 4 | 6 };

const NAME_LIMIT = 253;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * Reads `host`, `host:port` or `[address]:port` as a client writes it. An address in another than its
 * usual notation (octal, one number, a zone) is none: what one program reads as a name, another may
 * read as 127.0.0.1. Null: not to be understood in one way only.
 */
export function readTarget(text: string, usualPort: number): Target | null {
  const parts = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/.exec(text);
  const host = readHost(parts?.[1] ?? "");
  const port = parts?.[2] === undefined ? usualPort : Number(parts[2]);
  if (host === null || port < 1 || port > 65_535) return null;
  return { host, port };
}

/** Reads a host as it stands in a request, or in an authority; IPv6 in brackets. */
export function readHost(text: string): Host | null {
  if (text.startsWith("[")) return readIPv6(text);
  const name = text.toLowerCase().replace(/\.$/, "");
  if (name.length > NAME_LIMIT) return null;
  const labels = name.split(".");
  if (!labels.every((label) => LABEL.test(label))) return null;
  const isNumber = /^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "");
  if (!isNumber) return { kind: "name", name };
  return isIPv4(name) && text === name ? { kind: "address", name, family: 4 } : null;
}

/** Reads a host as a person writes it in a rule: Unicode becomes `xn--`. Null: it is no host. */
export function readRuleHost(text: string): Host | null {
  if (text.includes(":") && !text.startsWith("[")) return readHost(`[${text}]`);
  if (/^[\x20-\x7e]*$/.test(text)) return readHost(text);
  return readHost(domainToASCII(text));
}

/** `host:port`, as a header has it. */
export function authorityOf({ host, port }: Target, usualPort: number): string {
  const name = host.kind === "address" && host.family === 6 ? `[${host.name}]` : host.name;
  return port === usualPort ? name : `${name}:${port}`;
}

export function isSameTarget(one: Target, other: Target): boolean {
  return one.host.name === other.host.name && one.port === other.port;
}

function readIPv6(text: string): Host | null {
  if (!/^\[[0-9a-fA-F:.]{2,45}\]$/.test(text) || !URL.canParse(`http://${text}/`)) return null;
  const name = new URL(`http://${text}/`).hostname.slice(1, -1);
  return { kind: "address", name, family: 6 };
}
