import { BlockList, isIP } from "node:net";
import { readHost } from "./host.ts";

/** A range of addresses that a rule names: `10.1.0.0/16`, or one address. */
export type Range = {
  readonly address: string;
  readonly family: 4 | 6;
  readonly prefix: number;
};

/** An address that may be connected to, or why it may not. */
export type AddressVerdict =
  | { readonly kind: "allowed"; readonly address: string; readonly family: 4 | 6 }
  | { readonly kind: "refused"; readonly address: string; readonly why: string };

/** A wider range would be no name of anything. */
const PREFIX_LEAST: Readonly<Record<4 | 6, number>> = { 4: 8, 6: 16 };

/** Reads a range of a rule. Null: it is none, or so wide that it names nothing. */
export function readRange(text: string): Range | null {
  const [written = "", size, ...more] = text.split("/");
  const host = readHost(written.includes(":") ? `[${written}]` : written);
  if (host?.kind !== "address" || more.length > 0) return null;
  const whole = host.family === 4 ? 32 : 128;
  const prefix = size === undefined ? whole : /^\d{1,3}$/.test(size) ? Number(size) : -1;
  if (prefix < PREFIX_LEAST[host.family] || prefix > whole) return null;
  return { address: host.name, family: host.family, prefix };
}

/**
 * Judges an address that a name has led to, or that a request has named. What no router of the public
 * Internet leads to is refused unless `named` has it, and so is an IPv6 address that stands for an
 * IPv4 one. Where a machine's owner asks who it is (cloud metadata), only that one address names it.
 */
export function judgeAddress(written: string, named: readonly Range[]): AddressVerdict {
  const host =
    isIP(written) === 0 ? null : readHost(isIP(written) === 6 ? `[${written}]` : written);
  const refused = (why: string): AddressVerdict => ({ kind: "refused", address: written, why });
  // A zone (`fe80::1%eth0`) says which of this machine's own wires is meant.
  if (host?.kind !== "address") return refused("it is no plain address");
  const { name: address, family } = host;
  const within = named.filter((range) => range.family === family && contains(range, address));
  const isSingle = within.some(({ prefix }) => prefix === (family === 4 ? 32 : 128));
  if (METADATA.has(address) && !isSingle) return refused("it is a cloud's metadata service");
  const range = reserved(address, family);
  if (range !== null && within.length === 0) return refused(`it is ${range}`);
  return { kind: "allowed", address, family };
}

const METADATA: ReadonlySet<string> = new Set([
  "100.100.100.200",
  "168.63.129.16",
  "169.254.169.254",
  "169.254.170.2",
  "192.0.0.192",
  "fd00:ec2::254",
  "fd20:ce::254",
]);

/** From the IANA registries of special-purpose addresses. */
const RESERVED: readonly (readonly [text: string, what: string])[] = [
  ["0.0.0.0/8", "an address of this machine"],
  ["10.0.0.0/8", "a private address"],
  ["100.64.0.0/10", "an address of a carrier's own network"],
  ["127.0.0.0/8", "a loopback address"],
  ["169.254.0.0/16", "a link-local address"],
  ["172.16.0.0/12", "a private address"],
  ["192.0.0.0/24", "a reserved address"],
  ["192.0.2.0/24", "an address for documentation"],
  ["192.88.99.0/24", "a reserved address"],
  ["192.168.0.0/16", "a private address"],
  ["198.18.0.0/15", "an address for measurements"],
  ["198.51.100.0/24", "an address for documentation"],
  ["203.0.113.0/24", "an address for documentation"],
  ["224.0.0.0/4", "a multicast address"],
  ["240.0.0.0/4", "a reserved address"],
  ["2001::/23", "a reserved address"],
  ["2001:db8::/32", "an address for documentation"],
  ["2002::/16", "an address that stands for an IPv4 one"],
  ["3fff::/20", "an address for documentation"],
];

/** All that is routed publicly lies here; a loopback, a mapped or a multicast address does not. */
const GLOBAL_IPV6: Range = { address: "2000::", family: 6, prefix: 3 };

const RANGES: readonly (readonly [range: Range, what: string])[] = RESERVED.map(([text, what]) => {
  const [address = "", prefix = ""] = text.split("/");
  return [{ address, family: address.includes(":") ? 6 : 4, prefix: Number(prefix) }, what];
});

function reserved(address: string, family: 4 | 6): string | null {
  if (family === 6 && !contains(GLOBAL_IPV6, address)) return "not a public IPv6 address";
  const found = RANGES.find(([range]) => range.family === family && contains(range, address));
  return found?.[1] ?? null;
}

const lists = new WeakMap<Range, BlockList>();

/** Both are of one family: a list would take an IPv4-mapped address for the IPv4 one. */
function contains(range: Range, address: string): boolean {
  const family = range.family === 4 ? "ipv4" : "ipv6";
  let list = lists.get(range);
  if (list === undefined) {
    list = new BlockList();
    list.addSubnet(range.address, range.prefix, family);
    lists.set(range, list);
  }
  return list.check(address, family);
}
