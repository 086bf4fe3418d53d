import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import type { CellPrograms } from "@dev/cell";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { globFlaw, type Layer, type Rule } from "@dev/session";
import { parse, TomlError } from "smol-toml";
import * as v from "valibot";
import { type ClusterFile, clusterSchema } from "./cluster-file.ts";
import { type NetworkFile, networkSchema } from "./network-file.ts";

/** What one file of settings says. */
export type SettingsFile = {
  readonly model?: string | undefined;
  readonly effort?: "default" | "low" | "medium" | "high" | undefined;
  readonly providers?: Readonly<Record<string, ProviderSettings>> | undefined;
  readonly models?: Readonly<Record<string, ModelFile>> | undefined;
  readonly limits?: LimitsFile | undefined;
  readonly policy?: { readonly rules?: readonly RuleFile[] | undefined } | undefined;
  readonly local?: { readonly confine?: boolean | undefined } | undefined;
  readonly gvisor?: CellPrograms["runsc"];
  readonly runc?: CellPrograms["runc"];
  readonly container?: CellPrograms["container"];
  readonly kubernetes?: ClusterFile | undefined;
  readonly kai?: KaiSettings | undefined;
  readonly fix?: { readonly fallback_model?: string | undefined } | undefined;
  readonly network?: NetworkFile | undefined;
};

/** The service that `dev fix` may ask for decisions. */
export type KaiSettings = {
  readonly decisions: string;
  /** The name of the environment variable that holds the key. */
  readonly env_key?: string | undefined;
};

export type ProviderSettings = {
  readonly wire: "openai-chat" | "openai-responses" | "anthropic";
  readonly base_url: string;
  /** The name of the environment variable that holds the key. */
  readonly env_key?: string | undefined;
};

/** Limits of the core, by their names in a file. */
export type LimitKey =
  | "model_calls_per_turn"
  | "identical_replies"
  | "calls_per_reply"
  | "tokens_per_session"
  | "cost_per_session"
  | "compact_percent"
  | "agent_depth"
  | "agent_count";

type LimitsFile = Readonly<Partial<Record<LimitKey | "model_silence_seconds", number | undefined>>>;

/** Figures of a model, by their names in a file. */
export type ModelFigure =
  | "window_tokens"
  | "output_tokens"
  | "input_price"
  | "cached_input_price"
  | "cache_write_price"
  | "output_price"
  | "long_over_tokens"
  | "long_input_times"
  | "long_output_times";

export type ModelFile = Readonly<Partial<Record<ModelFigure, number | undefined>>> & {
  readonly images?: boolean | undefined;
  readonly reasoning?: "level" | "budget" | "none" | undefined;
};

export type RuleFile = { readonly [K in keyof Rule]: Rule[K] | undefined } & Pick<Rule, "decision">;

/** Dollars per million tokens, and dollars a session: more is a slip of the pen. */
const PRICE_LIMIT = 10_000;
const COST_LIMIT = 1_000_000;

const count: v.GenericSchema<number> = v.pipe(v.number(), v.integer(), v.minValue(1));
const words: v.GenericSchema<string[]> = v.pipe(v.array(v.string()), v.minLength(1));
const glob: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.check(
    (text) => globFlaw(text) === null,
    ({ input }) => `no path can match "${input}": ${globFlaw(input)}`,
  ),
);
const modelName: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.regex(/^[^/\s]+\/\S+$/, "a model is written provider/model"),
);

const price = (what: string): v.GenericSchema<number> =>
  v.pipe(
    v.number(),
    v.minValue(0),
    v.maxValue(PRICE_LIMIT),
    v.description(`${what}, in US dollars per million tokens.`),
  );
const times = (what: string): v.GenericSchema<number> =>
  v.pipe(v.number(), v.minValue(1), v.maxValue(100), v.description(what));

const models: v.GenericSchema<SettingsFile["models"]> = v.record(
  modelName,
  v.strictObject({
    window_tokens: v.optional(v.pipe(count, v.description("What it takes in at most."))),
    output_tokens: v.optional(v.pipe(count, v.description("What one answer has at most."))),
    images: v.optional(v.pipe(v.boolean(), v.description("Whether it takes images."))),
    reasoning: v.optional(
      v.pipe(
        v.picklist(["level", "budget", "none"]),
        v.description("How it is told how hard to think: a word, a budget of tokens, not at all."),
      ),
    ),
    input_price: v.optional(price("What it takes in")),
    cached_input_price: v.optional(price("What it reads from its cache")),
    cache_write_price: v.optional(price("What it writes to its cache")),
    output_price: v.optional(price("What it answers")),
    long_over_tokens: v.optional(
      v.pipe(count, v.description("A call that takes in more than this is dearer.")),
    ),
    long_input_times: v.optional(times("How many times its usual price that call's input costs.")),
    long_output_times: v.optional(
      times("How many times its usual price that call's output costs."),
    ),
  }),
);

const baseUrl: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.regex(/^https?:\/\/[^\s?#/@]+(?:\/[^\s?#]*)?$/, ({ input }) => urlFlaw(input)),
  v.description("Such as `http://127.0.0.1:8080/v1`."),
);
const envKey: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "it is the name of a variable, not the key itself"),
  v.description("The name of the environment variable that holds the key."),
);

const program = (usual: string): v.GenericSchema<string> =>
  v.pipe(v.string(), v.minLength(1), v.description(`The program (default: ${usual}).`));
const programArgs: v.GenericSchema<string[]> = v.pipe(
  v.array(v.string()),
  v.description("Arguments of yours, after Dev's own."),
);

/** The schema of a settings file: the published JSON Schema is made from it. */
export const settingsSchema: v.GenericSchema<SettingsFile> = v.strictObject({
  model: v.optional(v.pipe(modelName, v.description("The model to use, as `provider/model`."))),
  effort: v.optional(v.picklist(["default", "low", "medium", "high"])),
  providers: v.optional(
    v.record(
      v.pipe(v.string(), v.regex(/^[^/\s]+$/, "a provider's name has no slash and no space")),
      v.strictObject({
        wire: v.picklist(["openai-chat", "openai-responses", "anthropic"]),
        base_url: baseUrl,
        env_key: v.optional(envKey),
      }),
    ),
  ),
  models: v.optional(
    v.pipe(models, v.description("What differs from the catalog, by `provider/model`.")),
  ),
  limits: v.optional(
    v.strictObject({
      model_calls_per_turn: v.optional(count),
      identical_replies: v.optional(count),
      calls_per_reply: v.optional(count),
      tokens_per_session: v.optional(count),
      cost_per_session: v.optional(
        v.pipe(
          v.number(),
          v.minValue(0.000001),
          v.maxValue(COST_LIMIT),
          v.description("In US dollars, by the prices of the catalog or of `models`."),
        ),
      ),
      compact_percent: v.optional(
        v.pipe(
          count,
          v.maxValue(100),
          v.description(
            "Of the model's window, the share in use at which a conversation is shortened.",
          ),
        ),
      ),
      agent_depth: v.optional(
        v.pipe(
          v.number(),
          v.integer(),
          v.minValue(0),
          v.description("How deep sub-agents may be nested; 0 is none at all."),
        ),
      ),
      agent_count: v.optional(v.pipe(count, v.description("Sub-agents at work at a time."))),
      model_silence_seconds: v.optional(
        v.pipe(
          count,
          v.description(
            "How long a model may say nothing before its call is given up (default: 180 until it begins, 90 within an answer).",
          ),
        ),
      ),
    }),
  ),
  policy: v.optional(
    v.strictObject({
      rules: v.optional(
        v.array(
          v.strictObject({
            decision: v.picklist(["allow", "ask", "deny"]),
            ops: v.optional(
              v.array(
                v.picklist(["read", "search", "write", "patch", "exec", "git", "browse", "tool"]),
              ),
            ),
            paths: v.optional(v.pipe(v.array(glob), v.minLength(1))),
            argv: v.optional(words),
            reason: v.optional(v.string()),
          }),
        ),
      ),
    }),
  ),
  local: v.optional(v.strictObject({ confine: v.optional(v.boolean()) })),
  gvisor: v.optional(
    v.strictObject({
      binary: v.optional(program("runsc")),
      platform: v.optional(
        v.pipe(
          v.picklist(["systrap", "ptrace", "kvm"]),
          v.description("What it takes system calls with (default: its own choice)."),
        ),
      ),
      args: v.optional(programArgs),
    }),
  ),
  runc: v.optional(
    v.strictObject({ binary: v.optional(program("runc")), args: v.optional(programArgs) }),
  ),
  container: v.optional(
    v.strictObject({
      binary: v.optional(program("podman")),
      image: v.optional(
        v.pipe(
          v.string(),
          v.minLength(1),
          v.description("What a cell is made of (default: this machine's own programs)."),
        ),
      ),
      runtime: v.optional(program("the engine's own choice")),
      args: v.optional(programArgs),
    }),
  ),
  network: v.optional(networkSchema(envKey)),
  kubernetes: v.optional(clusterSchema),
  kai: v.optional(
    v.pipe(
      v.strictObject({ decisions: baseUrl, env_key: v.optional(envKey) }),
      v.description("The service that `dev fix` asks for decisions: `/decisions` below this URL."),
    ),
  ),
  fix: v.optional(
    v.strictObject({
      fallback_model: v.optional(
        v.pipe(
          modelName,
          v.description(
            "The model that `dev fix` asks once where the usual one, thinking hard, has no edit.",
          ),
        ),
      ),
    }),
  ),
});

/** What is wrong with a base URL; what it holds is not said again, for it may be a secret. */
function urlFlaw(url: string): string {
  if (!/^https?:\/\//.test(url)) return "a base URL begins with http:// or https://";
  if (/[?#]/.test(url)) return "a base URL has no `?query` and no `#fragment`";
  if (/^https?:\/\/[^/]*@/.test(url)) {
    return "a base URL has no user and no password: a key comes from the variable that env_key names";
  }
  return "a base URL is http:// or https://, a host, and a path without spaces";
}

/** What a project's own file may not say: it comes with the code, and the code may be anybody's. */
const NOT_FOR_PROJECTS = [
  ...["providers", "models", "kai", "fix", "network"],
  ...["local", "gvisor", "runc", "container", "kubernetes"],
] as const;

/** How long a settings file may be. */
export const SETTINGS_LIMIT_BYTES: number = 1024 * 1024;

/** Reads and checks one file of settings; null if there is none. Fault `config`: what is wrong, and where. */
export function readSettings(path: string, layer: Layer): Result<SettingsFile | null> {
  const text = readText(path);
  if (!text.ok) return text;
  if (text.value === null) return ok(null);
  let value: unknown;
  try {
    value = parse(text.value);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const said = error.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "");
    return wrong(path, `line ${error.line}, column ${error.column}: ${said}`);
  }
  if (layer === "project") {
    const denied = deniedToProjects(value);
    if (denied !== null) return wrong(path, denied);
  }
  const unusable = unusableProvider(value);
  if (unusable !== null) return wrong(path, unusable);
  const read = v.safeParse(settingsSchema, value);
  if (read.success) return ok(read.output);
  return wrong(path, read.issues.map(said).join("; "));
}

/** Names that every object has, or that would change what it is: they are no provider's. */
function unusableProvider(value: unknown): string | null {
  const { providers } = value as Partial<Record<string, unknown>>;
  if (typeof providers !== "object" || providers === null) return null;
  const name = Object.keys(providers).find((key) => key === "__proto__" || key in {});
  return name === undefined ? null : `providers.${name}: a provider cannot have this name`;
}

function deniedToProjects(value: unknown): string | null {
  const file = value as Partial<Record<string, unknown>>;
  for (const key of NOT_FOR_PROJECTS) {
    if (file[key] !== undefined)
      return `"${key}" may not be set by a project: put it into your own`;
  }
  const rules = (file.policy as { readonly rules?: unknown } | undefined)?.rules;
  if (!Array.isArray(rules)) return null;
  const allows = rules.some((rule) => (rule as Partial<Rule> | null)?.decision === "allow");
  return allows ? "policy.rules: a project may ask and deny, and not allow" : null;
}

function said(issue: v.BaseIssue<unknown>): string {
  const key = (issue.path ?? []).map((part) => String(part.key)).join(".");
  if (issue.type === "strict_object" && issue.expected === "never") return `unknown key "${key}"`;
  return `${key}: ${issue.message}`;
}

/** The fault of a settings file. */
export function wrong(path: string, message: string): Result<never> {
  return fail(fault("config", message, path));
}

/** The system's name of what went wrong; null if it was not the system. */
export function errnoOf(error: unknown): string | null {
  return error instanceof Error && "code" in error ? String(error.code) : null;
}

/** The text of a file; null if there is none. A repository may be anybody's, and so what stands here. */
function readText(path: string): Result<string | null> {
  let descriptor: number | null = null;
  try {
    // A FIFO must not make us wait for a writer.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    if (!fstatSync(descriptor).isFile()) return wrong(path, "it is not a regular file");
    return readWhole(descriptor, path);
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return ok(null);
    if (code === null || !(error instanceof Error)) throw error;
    return wrong(path, `it cannot be read: ${error.message}`);
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

function readWhole(descriptor: number, path: string): Result<string> {
  const buffer = Buffer.alloc(SETTINGS_LIMIT_BYTES + 1);
  let length = 0;
  while (length < buffer.length) {
    const count = readSync(descriptor, buffer, length, buffer.length - length, null);
    if (count === 0) return ok(buffer.toString("utf8", 0, length));
    length += count;
  }
  return wrong(path, `it is longer than ${SETTINGS_LIMIT_BYTES} bytes`);
}
