import { lstatSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { CellPrograms } from "@dev/cell";
import { DEFAULT_LIMITS, type Limits } from "@dev/core";
import { knownProvider, type Model, type ModelOverrides, modelOf } from "@dev/model";
import { ok, type Result } from "@dev/protocol";
import type { Layer, LayeredRule } from "@dev/session";
import { clusterOf } from "./cluster-file.ts";
import type { Home } from "./home.ts";
import { LIMIT_KEYS } from "./limit.ts";
import { layNetwork, type Network, NO_NETWORK } from "./network-file.ts";
import {
  errnoOf,
  type KaiSettings,
  type LimitKey,
  type ModelFigure,
  type ModelFile,
  type ProviderSettings,
  type RuleFile,
  readSettings,
  type SettingsFile,
  wrong,
} from "./settings-file.ts";

/** What the settings of all layers come to. */
export type Settings = {
  /** `provider/model`, or null: nothing is assumed. */
  readonly model: string | null;
  /** The model that the person or the administrator names, whatever a project does; null if neither does. */
  readonly ownModel: string | null;
  readonly effort: "default" | "low" | "medium" | "high";
  readonly providers: Readonly<Record<string, ProviderSettings>>;
  /** In what models differ from the catalog. */
  readonly models: ModelOverrides;
  readonly limits: Partial<Limits>;
  /** How long a model may say nothing before its call is given up; null: the router's own limits. */
  readonly modelSilenceMs: number | null;
  readonly rules: readonly LayeredRule[];
  /** Whether bubblewrap confines the commands of `--cell local`. */
  readonly confine: boolean;
  /** What runs the cells of other kinds. */
  readonly programs: CellPrograms;
  /** What cells may reach. */
  readonly network: Network;
  /** Null: no service decides. */
  readonly kai: KaiSettings | null;
  /** Whom `dev fix` asks where the model has no edit; null: nobody. */
  readonly fallbackModel: string | null;
  /** The files that were read. */
  readonly files: readonly string[];
};

/** The names in a file, and the figures of a model that they set. */
const MODEL_FIGURES: Readonly<Record<ModelFigure, keyof Model>> = {
  window_tokens: "windowTokens",
  output_tokens: "outputTokens",
  input_price: "inputPrice",
  cached_input_price: "cachedInputPrice",
  cache_write_price: "cacheWritePrice",
  output_price: "outputPrice",
  long_over_tokens: "longOverTokens",
  long_input_times: "longInputTimes",
  long_output_times: "longOutputTimes",
};

const MICRO_USD = 1_000_000;

/** How many directories are looked into for a project's files, from one of its directories up. */
const CLIMB_LIMIT = 64;

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
  const described: Described[] = [];
  for (const place of places) {
    const file = readSettings(place.path, place.layer);
    if (!file.ok) return file;
    if (file.value === null) continue;
    settings = merged(settings, place, file.value);
    const flaw = modelFlaw(settings.models);
    if (flaw !== null) return wrong(place.path, flaw);
    const network = layNetwork(settings.network, file.value.network ?? {});
    if (!network.ok) return wrong(place.path, network.fault);
    settings = { ...settings, network: network.value };
    const names = Object.keys(file.value.models ?? {});
    described.push(...names.map((name) => ({ name, path: place.path })));
  }
  const stray = described.find(({ name }) => !hasProvider(name, settings));
  if (stray !== undefined) return wrong(stray.path, strayFlaw(stray.name));
  return ok(settings);
}

/** A model that a file says something of. */
type Described = { readonly name: string; readonly path: string };

function hasProvider(model: string, { providers }: Settings): boolean {
  const name = providerOf(model);
  return Object.hasOwn(providers, name) || knownProvider(name) !== null;
}

/** What is said of a model that nobody can ask was meant for another. */
function strayFlaw(model: string): string {
  const name = providerOf(model);
  return `models."${model}": there is no provider "${name}": add [providers.${name}], or mend the name`;
}

function providerOf(model: string): string {
  return model.slice(0, model.indexOf("/"));
}

/** Where a file of settings may be, and where the workspace lies below what its paths start from. */
type Place = { readonly layer: Layer; readonly path: string; readonly below: string };

const NO_SETTINGS: Settings = {
  model: null,
  ownModel: null,
  effort: "default",
  providers: {},
  models: {},
  limits: {},
  modelSilenceMs: null,
  rules: [],
  confine: true,
  programs: {},
  network: NO_NETWORK,
  kai: null,
  fallbackModel: null,
  files: [],
};

/** Lays a file over the settings below it. A limit is only ever narrowed: by a project, from the default. */
function merged(below: Settings, place: Place, file: SettingsFile): Settings {
  const { layer, path } = place;
  const { model_silence_seconds: silence, ...limits } = file.limits ?? {};
  const rules = (file.policy?.rules ?? []).map((rule) => layered(rule, place));
  return {
    model: file.model ?? below.model,
    ownModel: (layer === "project" ? null : file.model) ?? below.ownModel,
    effort: file.effort ?? below.effort,
    // An administrator's provider is not replaced by one of the same name.
    providers: { ...file.providers, ...below.providers },
    models: overridden(below.models, file.models ?? {}),
    limits: narrowed(below.limits, layer, limits),
    modelSilenceMs: silenceOf(silence, below.modelSilenceMs),
    rules: [...below.rules, ...rules],
    confine: file.local?.confine ?? below.confine,
    network: below.network,
    // Like a provider: an administrator's stands.
    programs: {
      runsc: below.programs.runsc ?? file.gvisor,
      runc: below.programs.runc ?? file.runc,
      container: below.programs.container ?? file.container,
      kubernetes: below.programs.kubernetes ?? clusterOf(file.kubernetes),
    },
    kai: below.kai ?? file.kai ?? null,
    fallbackModel: file.fix?.fallback_model ?? below.fallbackModel,
    files: [...below.files, path],
  };
}

function narrowed(
  below: Partial<Limits>,
  layer: Layer,
  given: Partial<Record<LimitKey, number | undefined>>,
): Partial<Limits> {
  const limits: { -readonly [K in keyof Limits]?: Limits[K] } = { ...below };
  for (const [key, said] of Object.entries(given)) {
    if (said === undefined) continue;
    const name = LIMIT_KEYS[key as LimitKey];
    const value = name === "costMicroUsdPerSession" ? Math.round(said * MICRO_USD) : said;
    // A default of 0 is no limit: any is narrower.
    const usual = layer === "project" ? DEFAULT_LIMITS[name] : 0;
    limits[name] = Math.min(value, limits[name] ?? (usual === 0 ? value : usual));
  }
  return limits;
}

/** What a file says of models; an administrator's figure is not replaced, nor is any other of theirs lost. */
function overridden(
  below: ModelOverrides,
  given: Readonly<Record<string, ModelFile>>,
): ModelOverrides {
  const models: Record<string, Partial<Model>> = { ...below };
  for (const [name, { images, reasoning, ...figures }] of Object.entries(given)) {
    const said = Object.entries(figures).filter(([, value]) => value !== undefined);
    models[name] = {
      ...Object.fromEntries(said.map(([key, value]) => [MODEL_FIGURES[key as ModelFigure], value])),
      ...(images !== undefined && { images }),
      ...(reasoning !== undefined && { reasoning }),
      ...below[name],
    };
  }
  return models;
}

/** What cannot be true of a model. Half a price is none: what a model costs would be told too low. */
function modelFlaw(models: ModelOverrides): string | null {
  for (const [name, given] of Object.entries(models)) {
    const known = modelOf(name);
    const has = (price: "inputPrice" | "outputPrice"): boolean =>
      given[price] !== undefined || known[price] > 0;
    if (has("inputPrice") !== has("outputPrice")) {
      return `models."${name}": it takes input_price and output_price, or neither`;
    }
    const figures = Object.entries(MODEL_FIGURES);
    const [part] =
      figures.find(([, key]) => PRICE_PARTS.has(key) && given[key] !== undefined) ?? [];
    if (part !== undefined && !has("inputPrice")) {
      return `models."${name}": ${part} is nothing without input_price and output_price`;
    }
    const { windowTokens } = modelOf(name, models);
    if (given.outputTokens !== undefined && windowTokens > 0 && given.outputTokens > windowTokens) {
      return `models."${name}": output_tokens, ${given.outputTokens}, is over its window of ${windowTokens}`;
    }
  }
  return null;
}

/** What refines a price. */
const PRICE_PARTS: ReadonlySet<keyof Model> = new Set<keyof Model>([
  "cachedInputPrice",
  "cacheWritePrice",
  "longOverTokens",
  "longInputTimes",
  "longOutputTimes",
]);

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
