import { type NetworkRule, type NetworkRules, ruleFlaw, type SecretRule } from "@dev/cell/rules";
import { fail, ok, type Result } from "@dev/protocol";
import * as v from "valibot";

/** What one file of settings says of the network of cells. */
export type NetworkFile = {
  readonly allow?: readonly AllowFile[] | undefined;
  readonly secrets?: Readonly<Record<string, SecretFile>> | undefined;
  readonly certificates?: readonly string[] | undefined;
};

type AllowFile = {
  readonly host: string;
  readonly ports?: readonly number[] | undefined;
  readonly paths?: readonly string[] | undefined;
  readonly methods?: readonly string[] | undefined;
  readonly addresses?: readonly string[] | undefined;
  readonly push?: boolean | undefined;
  readonly secret?: string | undefined;
};

type SecretFile = {
  readonly env_key?: string | undefined;
  readonly file?: string | undefined;
  readonly as?: "bearer" | "basic" | "header" | undefined;
  readonly user?: string | undefined;
  readonly header?: string | undefined;
};

/** The network that all files come to, and the secrets that a rule of any may name. */
export type Network = NetworkRules & { readonly secrets: Readonly<Record<string, SecretRule>> };

export const NO_NETWORK: Network = { allow: [], certificates: [], secrets: {} };

/** What a rule allows when it names no port: HTTPS. */
const USUAL_PORTS: readonly number[] = [443];

const absolute: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.regex(/^\//, "a file is named by its absolute path"),
);
const texts = (what: string): v.GenericSchema<string[]> =>
  v.pipe(v.array(v.string()), v.minLength(1), v.description(what));
const port: v.GenericSchema<number> = v.pipe(
  v.number(),
  v.integer(),
  v.minValue(1),
  v.maxValue(65_535),
);

/** The schema of `[network]`; `envKey` is that of a variable's name. */
export function networkSchema(envKey: v.GenericSchema<string>): v.GenericSchema<NetworkFile> {
  const allow = v.strictObject({
    host: v.pipe(
      v.string(),
      v.description("`git.example.com`, `*.example.com` (what is below it), or an address."),
    ),
    ports: v.optional(v.pipe(v.array(port), v.minLength(1))),
    paths: v.optional(texts("What a path begins with, by whole segments.")),
    methods: v.optional(texts("Such as `GET`; with a secret, GET and HEAD where none is named.")),
    addresses: v.optional(
      texts(
        "Addresses and ranges, such as `10.1.0.0/16`, that the host has and that are not public.",
      ),
    ),
    push: v.optional(v.pipe(v.boolean(), v.description("Whether git may push."))),
    secret: v.optional(v.pipe(v.string(), v.description("One of `network.secrets`."))),
  });
  const secret = v.strictObject({
    env_key: v.optional(envKey),
    file: v.optional(v.pipe(absolute, v.description("A file with the secret and nothing else."))),
    as: v.optional(v.picklist(["bearer", "basic", "header"])),
    user: v.optional(v.pipe(v.string(), v.description("With `basic`: the user."))),
    header: v.optional(v.pipe(v.string(), v.description("With `header`: its name."))),
  });
  return v.strictObject({
    allow: v.optional(
      v.pipe(v.array(allow), v.description("What cells may reach. The rest is refused.")),
    ),
    secrets: v.optional(v.pipe(v.record(v.string(), secret), v.description(SECRETS))),
    certificates: v.optional(
      v.pipe(
        v.array(absolute),
        v.description("Files of authorities that are trusted besides the system's."),
      ),
    ),
  });
}

const SECRETS = "Where each secret is to be had; it is added outside the cell.";

/** Lays what a file says over what is below it; a secret that stands there stays. Fault: the flaw. */
export function layNetwork(below: Network, file: NetworkFile): Result<Network, string> {
  const secrets: Record<string, SecretRule> = { ...below.secrets };
  for (const [name, said] of Object.entries(file.secrets ?? {})) {
    const secret = secretOf(said);
    if (!secret.ok) return fail(`network.secrets.${name}: ${secret.fault}`);
    secrets[name] ??= secret.value;
  }
  const allow: NetworkRule[] = [...below.allow];
  for (const said of file.allow ?? []) {
    const rule = ruleOf(said, secrets);
    if (!rule.ok) return fail(`network.allow "${said.host}": ${rule.fault}`);
    allow.push(rule.value);
  }
  return ok({
    allow,
    secrets,
    certificates: [...below.certificates, ...(file.certificates ?? [])],
  });
}

function ruleOf(
  said: AllowFile,
  secrets: Readonly<Record<string, SecretRule>>,
): Result<NetworkRule, string> {
  const { host, ports, paths, methods, addresses, push, secret: name } = said;
  const secret =
    name === undefined ? null : Object.hasOwn(secrets, name) ? secrets[name] : undefined;
  if (secret === undefined) return fail(`there is no secret "${name}" under [network.secrets]`);
  const rule: NetworkRule = {
    ...{ host, ports: ports ?? USUAL_PORTS, paths: paths ?? [], methods: methods ?? [] },
    ...{ addresses: addresses ?? [], push: push ?? false, secret },
  };
  const flaw = ruleFlaw(rule);
  return flaw === null ? ok(rule) : fail(flaw);
}

function secretOf({
  env_key,
  file,
  as = "bearer",
  user,
  header,
}: SecretFile): Result<SecretRule, string> {
  if ((env_key === undefined) === (file === undefined)) {
    return fail("it is in the variable that env_key names, or in a file: one of the two");
  }
  const from: SecretRule["from"] =
    file === undefined ? { kind: "variable", name: env_key ?? "" } : { kind: "file", path: file };
  if ((as === "basic") !== (user !== undefined)) return fail('`user` belongs to as = "basic"');
  if ((as === "header") !== (header !== undefined))
    return fail('`header` belongs to as = "header"');
  if (as === "basic") return ok({ from, as: { kind: as, user: user ?? "" } });
  if (as === "header") return ok({ from, as: { kind: as, name: header ?? "" } });
  return ok({ from, as: { kind: as } });
}
