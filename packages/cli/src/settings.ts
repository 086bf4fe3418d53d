import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { DEFAULT_LIMITS, type Limits } from "@dev/core";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { globFlaw, type Layer, type LayeredRule, type Rule } from "@dev/session";
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
const glob: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.check(
    (text) => globFlaw(text) === null,
    ({ input }) => `no path can match "${input}": ${globFlaw(input)}`,
  ),
);

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
          v.regex(/^https?:\/\/[^\s?#/@]+(?:\/[^\s?#]*)?$/, ({ input }) => urlFlaw(input)),
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
            paths: v.optional(v.pipe(v.array(glob), v.minLength(1))),
            argv: v.optional(words),
            reason: v.optional(v.string()),
          }),
        ),
      ),
    }),
  ),
  local: v.optional(v.strictObject({ confine: v.optional(v.boolean()) })),
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
const NOT_FOR_PROJECTS = ["providers", "local"] as const;

/** How many directories are looked into for a project's files, from one of its directories up. */
const CLIMB_LIMIT = 64;
/** How long a settings file may be. */
export const SETTINGS_LIMIT_BYTES: number = 1024 * 1024;

/**
 * Reads the settings of a directory: the administrator's, the person's, and those of the project that
 * the directory is in, whose files all count, the nearest before the others. Fault `config`: what is
 * wrong, in which file, at which key.
 */
export function loadSettings(home: Home, directory: string): Result<Settings> {
  const places: readonly Place[] = [
    { layer: "managed", path: home.managed, below: "" },
    { layer: "user", path: home.config, below: "" },
    ...projectPlaces(directory),
  ];
  let settings = NO_SETTINGS;
  for (const place of places) {
    const file = readSettings(place);
    if (!file.ok) return file;
    if (file.value !== null) settings = merged(settings, place, file.value);
  }
  return ok(settings);
}

/** Where a file of settings may be, and where the workspace lies below what its paths start from. */
type Place = { readonly layer: Layer; readonly path: string; readonly below: string };

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
function merged(below: Settings, place: Place, file: File): Settings {
  const { layer, path } = place;
  const limits: { -readonly [K in keyof Limits]?: Limits[K] } = { ...below.limits };
  const { model_silence_seconds: silence, ...given } = file.limits ?? {};
  for (const [key, value] of Object.entries(given)) {
    const name = LIMIT_KEYS[key as LimitKey];
    if (value === undefined) continue;
    const ceiling = limits[name] ?? (layer === "project" ? DEFAULT_LIMITS[name] : 0);
    limits[name] = ceiling === 0 ? value : Math.min(value, ceiling);
  }
  const rules = (file.policy?.rules ?? []).map((rule) => layered(rule, place));
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

function layered(rule: RuleFile, { layer, below }: Place): LayeredRule {
  return { ...rule, layer, ...(below !== "" && { below }) } as LayeredRule;
}

/** Like the other limits: a file above another one's can only narrow it. */
function silenceOf(seconds: number | undefined, belowMs: number | null): number | null {
  if (seconds === undefined) return belowMs;
  const ms = seconds * 1000;
  return belowMs === null ? ms : Math.min(ms, belowMs);
}

/**
 * The project's files, farthest first: from the root of the directory's repository down to it. Outside
 * a repository the directory's own alone, as what lies above belongs to nobody in particular.
 */
function projectPlaces(directory: string): readonly Place[] {
  const climbed: string[] = [];
  for (let at = directory; climbed.length < CLIMB_LIMIT; at = dirname(at)) {
    climbed.unshift(at);
    if (isRoot(at)) return climbed.map((from) => projectPlace(from, directory));
    if (dirname(at) === at) break;
  }
  return [projectPlace(directory, directory)];
}

function projectPlace(from: string, directory: string): Place {
  const path = join(from, ".dev", "config.toml");
  return { layer: "project", path, below: relative(from, directory) };
}

/** Whether a repository begins here: in a worktree or a submodule, `.git` is a file. */
function isRoot(directory: string): boolean {
  try {
    lstatSync(join(directory, ".git"));
    return true;
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return false;
  }
}

function errnoOf(error: unknown): string | null {
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

function readSettings({ path, layer }: Place): Result<File | null> {
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

function wrong(path: string, message: string): Result<never> {
  return fail(fault("config", message, path));
}
