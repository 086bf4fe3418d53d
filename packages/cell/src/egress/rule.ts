import { fail, fault, ok, type Result } from "@dev/protocol";
import { type Range, readRange } from "./address.ts";
import { readRuleHost, type Target } from "./host.ts";
import { isPush, pathFlaw, type RequestPath, services } from "./path.ts";

/** What a cell may reach; nothing else. It holds no secret, only where each is to be had. */
export type NetworkRules = {
  readonly allow: readonly NetworkRule[];
  /** Files of PEM certificates that are trusted besides the system's; absolute. */
  readonly certificates: readonly string[];
};

/** One host that may be reached. The first rule that fits a request is the one that it goes by. */
export type NetworkRule = {
  /** `git.example.com`, `*.example.com` (whatever is below it, and not it), or an address. */
  readonly host: string;
  readonly ports: readonly number[];
  /** What a path begins with, by whole segments. None: any path, and TLS passes through unseen. */
  readonly paths: readonly string[];
  /** None: any; with a secret, `GET` and `HEAD`, and what git fetches by. */
  readonly methods: readonly string[];
  /** Addresses and ranges that are not public and that the host may have. */
  readonly addresses: readonly string[];
  /** Whether git may push. */
  readonly push: boolean;
  readonly secret: SecretRule | null;
};

/** How a request is given a secret that the cell never sees. */
export type SecretRule = {
  readonly from:
    | { readonly kind: "variable"; readonly name: string }
    | { readonly kind: "file"; readonly path: string };
  readonly as:
    | { readonly kind: "bearer" }
    | { readonly kind: "basic"; readonly user: string }
    /** As the whole of a header of this name. */
    | { readonly kind: "header"; readonly name: string };
};

/** A rule, read. */
export type Allowance = {
  /** What it is called in a record. */
  readonly name: string;
  readonly rule: NetworkRule;
  readonly host: HostPattern;
  readonly named: readonly Range[];
  /** Whether it can be held only by who sees the requests themselves. */
  readonly sees: boolean;
};

type HostPattern =
  | { readonly kind: "one"; readonly name: string }
  | { readonly kind: "below"; readonly suffix: string };

export type Judged =
  | { readonly kind: "allowed"; readonly allowance: Allowance }
  | { readonly kind: "refused"; readonly reason: string };

export const RULE_LIMIT = 1000;

/** Reads rules. Fault: `config`, naming the rule and what is wrong with it. */
export function readRules(rules: NetworkRules): Result<readonly Allowance[]> {
  if (rules.allow.length > RULE_LIMIT) {
    return fail(fault("config", `there are more than ${RULE_LIMIT} rules`, "network.allow"));
  }
  const allowances: Allowance[] = [];
  for (const rule of rules.allow) {
    const flaw = ruleFlaw(rule);
    if (flaw !== null) return fail(fault("config", flaw, `network.allow: ${rule.host}`));
    allowances.push(allowanceOf(rule));
  }
  return ok(allowances);
}

/** Why a rule can allow nothing, or more than anybody means; null if nothing shows that. */
export function ruleFlaw(rule: NetworkRule): string | null {
  const { host, ports, paths, methods, addresses, secret } = rule;
  const pattern = patternOf(host);
  if (pattern === null) return `"${host}" is no host: a name, *.name, or an address`;
  const port = ports.find((each) => !Number.isInteger(each) || each < 1 || each > 65_535);
  if (port !== undefined) return `${port} is no port`;
  for (const path of paths) {
    const said = pathFlaw(path);
    if (said !== null) return `"${path}": ${said}`;
  }
  const method = methods.find((each) => !/^(?!CONNECT$|TRACE$)[A-Z]+$/.test(each));
  if (method !== undefined) return `"${method}" is no method`;
  const range = addresses.find((each) => readRange(each) === null);
  if (range !== undefined) return `"${range}" is no address, and no range as 10.1.0.0/16`;
  if (secret === null) return null;
  if (pattern.kind === "below") return "a secret goes to one host, and not to all below a name";
  const { as } = secret;
  if (as.kind === "basic" && !/^[\x21-\x39\x3b-\x7e]+$/.test(as.user)) return "that is no user";
  if (as.kind === "header" && !/^[A-Za-z0-9-]+$/.test(as.name)) return "that is no header";
  return null;
}

/** Every rule that speaks of a host and a port. */
export function allowancesOf(all: readonly Allowance[], target: Target): readonly Allowance[] {
  return all.filter(({ host, rule }) => {
    if (!rule.ports.includes(target.port)) return false;
    if (host.kind === "one") return target.host.name === host.name;
    return target.host.kind === "name" && target.host.name.endsWith(host.suffix);
  });
}

/** Judges a request that is seen whole. */
export function judgeRequest(
  all: readonly Allowance[],
  target: Target,
  request: { readonly method: string; readonly path: RequestPath; readonly isSecure: boolean },
): Judged {
  const here = allowancesOf(all, target);
  if (here.length === 0) return { kind: "refused", reason: noRule(target) };
  let reason = "";
  for (const allowance of here) {
    const said = refusalBy(allowance.rule, request);
    if (said === null) return { kind: "allowed", allowance };
    reason ||= said;
  }
  return { kind: "refused", reason };
}

export function noRule({ host, port }: Target): string {
  return `no rule allows ${host.name} on port ${port}`;
}

function refusalBy(
  rule: NetworkRule,
  { method, path, isSecure }: Parameters<typeof judgeRequest>[2],
): string | null {
  // With its escapes resolved: a scoped package is `/@scope%2fname`, and lies below `/@scope`.
  const meant = path.forms.at(-1) ?? "";
  const fits = (prefix: string): boolean => meant === prefix || meant.startsWith(under(prefix));
  if (rule.paths.length > 0 && !rule.paths.some(fits)) return "no rule for this host has this path";
  if (isPush(path) && !rule.push) return "the rule for this repository does not allow to push";
  if (rule.secret !== null && !isSecure) return "the rule has a secret, which goes over TLS only";
  if (!isMethodAllowed(rule, method, path)) return `the rule for this path allows no ${method}`;
  return null;
}

function isMethodAllowed(rule: NetworkRule, method: string, path: RequestPath): boolean {
  if (rule.methods.length > 0) return rule.methods.includes(method);
  if (rule.secret === null || method === "GET" || method === "HEAD") return true;
  return method === "POST" && services(path);
}

function under(prefix: string): string {
  return prefix.endsWith("/") ? prefix : `${prefix}/`;
}

function patternOf(text: string): HostPattern | null {
  const isBelow = text.startsWith("*.");
  const host = readRuleHost(isBelow ? text.slice(2) : text);
  if (host === null) return null;
  if (!isBelow) return { kind: "one", name: host.name };
  return host.kind === "name" ? { kind: "below", suffix: `.${host.name}` } : null;
}

function allowanceOf(rule: NetworkRule): Allowance {
  const host = patternOf(rule.host);
  if (host === null) throw new Error(`a rule that was found good: ${rule.host}`);
  const own = readRange(rule.host);
  const ranges = rule.addresses.map(readRange).filter((range) => range !== null);
  const where = rule.ports.length === 1 ? `${rule.host}:${rule.ports[0]}` : rule.host;
  return {
    name: `allow ${where}${rule.paths.length > 0 ? ` ${rule.paths.join(" ")}` : ""}`,
    rule,
    host,
    // Who writes an address down has named it.
    named: own === null ? ranges : [own, ...ranges],
    sees: rule.paths.length > 0 || rule.methods.length > 0 || rule.secret !== null,
  };
}
