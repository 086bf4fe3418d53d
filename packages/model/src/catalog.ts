import type { Usage } from "@dev/protocol";
import { KNOWN } from "./catalog-data.ts";
import type { Provider } from "./router.ts";

/** What is known of a model. A figure that is not known is 0. */
export type Model = {
  /** What it takes in at most, in tokens. */
  readonly windowTokens: number;
  /** What one answer has at most, in tokens. */
  readonly outputTokens: number;
  /** Whether it takes images; null: not known. */
  readonly images: boolean | null;
  /** How it is told how hard to think: by a word, by a budget of tokens, not at all; null: not known. */
  readonly reasoning: "level" | "budget" | "none" | null;
  /** Prices are in US dollars per million tokens. Where all are 0 the model is free, or nobody knows. */
  readonly inputPrice: number;
  /** Of input that was read from the provider's cache. */
  readonly cachedInputPrice: number;
  /** Of input that is written to it; 0: it costs what other input does. */
  readonly cacheWritePrice: number;
  readonly outputPrice: number;
  /** Input of more tokens than this makes the whole call dearer; 0: it does not. */
  readonly longOverTokens: number;
  /** How many times the usual prices a long call's input, from the cache or not, and its output cost. */
  readonly longInputTimes: number;
  readonly longOutputTimes: number;
};

/** Models by `provider/model`, with the fields in which they differ from the catalog. */
export type ModelOverrides = Readonly<Record<string, Partial<Model>>>;

/** A provider that is known without settings, and its models by their own names. */
export type KnownProvider = {
  readonly wire: Provider["wire"];
  readonly baseUrl: string;
  /** The environment variable that usually holds its key. */
  readonly keyVariable: string;
  /** The month in which its models' figures were looked up, such as `2026-11`. */
  readonly asOf: string;
  readonly models: Readonly<Record<string, Model>>;
};

const UNKNOWN: Model = {
  windowTokens: 0,
  outputTokens: 0,
  images: null,
  reasoning: null,
  inputPrice: 0,
  cachedInputPrice: 0,
  cacheWritePrice: 0,
  outputPrice: 0,
  longOverTokens: 0,
  longInputTimes: 1,
  longOutputTimes: 1,
};

/** The providers that are known without settings, by name. */
export const KNOWN_PROVIDERS: Readonly<Record<string, KnownProvider>> = KNOWN;

/** A provider that is known without settings. */
export function knownProvider(name: string): KnownProvider | null {
  return (Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined) ?? null;
}

/** What is known of `provider/model`: what the catalog says, and over it what the overrides do. */
export function modelOf(name: string, overrides: ModelOverrides = {}): Model {
  const given = (Object.hasOwn(overrides, name) ? overrides[name] : undefined) ?? {};
  const known = catalogued(name);
  const isPriced = known !== null && known.inputPrice > 0;
  // A price of input alone is that of cached input too: what is not said to be cheaper is not.
  const cachedInputPrice = isPriced ? known.cachedInputPrice : (given.inputPrice ?? 0);
  return { ...UNKNOWN, ...known, cachedInputPrice, ...given };
}

/** Whether anyone has said what a model costs, be it nothing. */
export function hasPrice(name: string, overrides: ModelOverrides = {}): boolean {
  const given = Object.hasOwn(overrides, name) ? overrides[name] : undefined;
  return given?.outputPrice !== undefined || modelOf(name).outputPrice > 0;
}

/**
 * What a call cost, in millionths of a US dollar, rounded up; 0 where no price is known. Providers do not
 * all say how much of the input they wrote to their cache, so that all that was not read from it counts
 * as written: the figure is never below the bill for want of knowing.
 */
export function costMicroUsd(model: Model, usage: Usage): number {
  const cached = Math.min(usage.cachedTokens, usage.inputTokens);
  const fresh = usage.inputTokens - cached;
  const isLong = model.longOverTokens > 0 && usage.inputTokens > model.longOverTokens;
  const inputTimes = isLong ? model.longInputTimes : 1;
  const outputTimes = isLong ? model.longOutputTimes : 1;
  const freshPrice = Math.max(model.inputPrice, model.cacheWritePrice);
  // Dollars per million tokens are millionths of a dollar per token.
  const cost =
    parts(fresh, freshPrice * inputTimes) +
    parts(cached, model.cachedInputPrice * inputTimes) +
    parts(usage.outputTokens, model.outputPrice * outputTimes);
  return Number((cost + PARTS - 1n) / PARTS);
}

/** In how many parts a millionth of a dollar is counted: whole numbers lose nothing when they add up. */
const PARTS = 1_000_000n;

function parts(tokens: number, price: number): bigint {
  return BigInt(tokens) * BigInt(Math.round(price * Number(PARTS)));
}

/** The catalog's entry; a name that ends in the date of a release is that of the model itself. */
function catalogued(name: string): Model | null {
  const slash = name.indexOf("/");
  const models = knownProvider(name.slice(0, slash))?.models ?? {};
  const exact = name.slice(slash + 1);
  const undated = exact.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2})$/, "");
  const found = [exact, undated].find((each) => Object.hasOwn(models, each));
  return found === undefined ? null : (models[found] ?? null);
}
