import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DEFAULT_LIMITS, type Limits } from "@dev/core";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { Layer, LayeredRule, Rule } from "@dev/session";
import { parse, TomlError } from "smol-toml";
import * as v from "valibot";
import type { Home } from "./home.ts";

/** What the settings of all layers come to. */
export type Settings = {
  /** `provider/model`, or null: nothing is assumed. */
  readonly model: string | null;
  readonly effort: "default" | "low" | "medium" | "high";
  readonly providers: Readonly<Record<string, ProviderSettings>>;
  readonly limits: Partial<Limits>;
  /** How long a model may say nothing before its call is given up; null: the router's own limits. */
  readonly modelSilenceMs: number | null;
  readonly rules: readonly LayeredRule[];
  /** Whether bubblewrap confines the commands of `--cell local`. */
  readonly confine: boolean;
  /** The files that were read. */
  readonly files: readonly string[];
};

export type ProviderSettings = {
  readonly wire: "openai-chat";
  readonly base_url: string;
  /** The name of the environment variable that holds the key. */
  readonly env_key?: string | undefined;
};

type File = {
  readonly model?: string | undefined;
  readonly effort?: Settings["effort"] | undefined;
  readonly providers?: Readonly<Record<string, ProviderSettings>> | undefined;
  readonly limits?: LimitsFile | undefined;
  readonly policy?: { readonly rules?: readonly RuleFile[] | undefined } | undefined;
  readonly local?: { readonly confine?: boolean | undefined } | undefined;
};

type LimitsFile = Readonly<Partial<Record<LimitKey | "model_silence_seconds", number | undefined>>>;

type RuleFile = { readonly [K in keyof Rule]: Rule[K] | undefined } & Pick<Rule, "decision">;

/** The names in a file, and the limits of the core that they set. */
const LIMIT_KEYS: Readonly<Record<LimitKey, keyof Limits>> = {
  model_calls_per_turn: "modelCallsPerTurn",
  identical_replies: "identicalReplies",
  calls_per_reply: "callsPerReply",
  tokens_per_session: "tokensPerSession",
};

/** Limits of the core, by their names in a file. */
type LimitKey =
  | "model_calls_per_turn"
  | "identical_replies"
  | "calls_per_reply"
  | "tokens_per_session";

const count: v.GenericSchema<number> = v.pipe(v.number(), v.integer(), v.minValue(1));
const words: v.GenericSchema<string[]> = v.pipe(v.array(v.string()), v.minLength(1));

/** The schema of a settings file: the published JSON Schema is made from it. */
export const settingsSchema: v.GenericSchema<File> = v.strictObject({
  model: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[^/\s]+\/\S+$/, "a model is written provider/model"),
      v.description("The model to use, as `provider/model`."),
    ),
  ),
  effort: v.optional(v.picklist(["default", "low", "medium", "high"])),
  providers: v.optional(
    v.record(
      v.pipe(v.string(), v.regex(/^[^/\s]+$/, "a provider's name has no slash and no space")),
      v.strictObject({
        wire: v.picklist(["openai-chat"]),
        base_url: v.pipe(
          v.string(),
          v.regex(/^https?:\/\/[^\s?#]+$/, "a base URL begins with http:// or https://"),
          v.description("Such as `http://127.0.0.1:8080/v1`."),
        ),
        env_key: v.optional(
          v.pipe(
            v.string(),
            v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "it is the name of a variable, not the key itself"),
            v.description("The name of the environment variable that holds the key."),
          ),
        ),
      }),
    ),
  ),
  limits: v.optional(
    v.strictObject({
      model_calls_per_turn: v.optional(count),
      identical_replies: v.optional(count),
      calls_per_reply: v.optional(count),
      tokens_per_session: v.optional(count),
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
            paths: v.optional(words),
            argv: v.optional(words),
            reason: v.optional(v.string()),
          }),
        ),
      ),
    }),
  ),
  local: v.optional(v.strictObject({ confine: v.optional(v.boolean()) })),
});

/** What a project's own file may not say: it comes with the code, and the code may be anybody's. */
const NOT_FOR_PROJECTS = ["providers", "local"] as const;

/**
 * Reads the settings of a directory: the administrator's, the person's, and those of the project
 * that the directory is in. Fault `config`: what is wrong, in which file, at which key.
 */
export function loadSettings(home: Home, directory: string): Result<Settings> {
  const layers: { readonly layer: Layer; readonly file: File; readonly path: string }[] = [];
  const places = [
    { layer: "managed", path: home.managed },
    { layer: "user", path: home.config },
    { layer: "project", path: projectFile(directory) },
  ] as const;
  for (const { layer, path } of places) {
    if (path === null) continue;
    const file = readSettings(path, layer);
    if (!file.ok) return file;
    if (file.value !== null) layers.push({ layer, file: file.value, path });
  }
  let settings = NO_SETTINGS;
  for (const { layer, file, path } of layers) settings = merged(settings, layer, file, path);
  return ok(settings);
}

const NO_SETTINGS: Settings = {
  model: null,
  effort: "default",
  providers: {},
  limits: {},
  modelSilenceMs: null,
  rules: [],
  confine: true,
  files: [],
};

/** Lays a file over the settings below it. A limit is only ever narrowed: by a project, from the default. */
function merged(below: Settings, layer: Layer, file: File, path: string): Settings {
  const limits: { -readonly [K in keyof Limits]?: Limits[K] } = { ...below.limits };
  const { model_silence_seconds: silence, ...given } = file.limits ?? {};
  for (const [key, value] of Object.entries(given)) {
    const name = LIMIT_KEYS[key as LimitKey];
    if (value === undefined) continue;
    const ceiling = limits[name] ?? (layer === "project" ? DEFAULT_LIMITS[name] : 0);
    limits[name] = ceiling === 0 ? value : Math.min(value, ceiling);
  }
  const rules = (file.policy?.rules ?? []).map((rule) => ({ ...rule, layer }) as LayeredRule);
  return {
    model: file.model ?? below.model,
    effort: file.effort ?? below.effort,
    // An administrator's provider is not replaced by one of the same name.
    providers: { ...file.providers, ...below.providers },
    limits,
    modelSilenceMs: silenceOf(silence, below.modelSilenceMs),
    rules: [...below.rules, ...rules],
    confine: file.local?.confine ?? below.confine,
    files: [...below.files, path],
  };
}

/** Like the other limits: a file above another one's can only narrow it. */
function silenceOf(seconds: number | undefined, belowMs: number | null): number | null {
  if (seconds === undefined) return belowMs;
  const ms = seconds * 1000;
  return belowMs === null ? ms : Math.min(ms, belowMs);
}

/** The nearest project's file, from the directory up to the root of its repository. */
function projectFile(directory: string): string | null {
  let at = directory;
  for (;;) {
    const path = join(at, ".dev", "config.toml");
    if (readText(path) !== null) return path;
    const above = dirname(at);
    if (above === at || readText(join(at, ".git", "HEAD")) !== null) return null;
    at = above;
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

function readSettings(path: string, layer: Layer): Result<File | null> {
  let text: string | null;
  try {
    text = readText(path);
  } catch (error) {
    return wrong(path, `it cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  if (text === null) return ok(null);
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const said = error.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "");
    return wrong(path, `line ${error.line}, column ${error.column}: ${said}`);
  }
  if (layer === "project") {
    const denied = deniedToProjects(value);
    if (denied !== null) return wrong(path, denied);
  }
  const read = v.safeParse(settingsSchema, value);
  if (read.success) return ok(read.output);
  return wrong(path, read.issues.map(said).join("; "));
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

function wrong(path: string, message: string): Result<never> {
  return fail(fault("config", message, path));
}
