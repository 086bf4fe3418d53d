import type { KnownProvider, Model } from "./catalog.ts";

/*
 * Figures as the providers publish them, looked up in the month that stands at each provider (`asOf`).
 * They age: settings override every one of them. A name that a provider lets point to one model today and
 * to another tomorrow (`…-latest`) is not listed, as its price would change unseen. Where a price
 * depends on the hour, it is left out.
 */

/** Tokens that it takes in, and that an answer has, at most; 0: not known. */
type Size = readonly [windowTokens: number, outputTokens: number];
/** In US dollars per million tokens; `written`: to the cache, 0 where that costs nothing more. */
type Prices = readonly [input: number, cached: number, written: number, output: number];
type Long = readonly [overTokens: number, inputTimes: number, outputTimes: number];

function model(
  [windowTokens, outputTokens]: Size,
  takes: "text" | "images",
  reasoning: Model["reasoning"],
  [inputPrice, cachedInputPrice, cacheWritePrice, outputPrice]: Prices,
  [longOverTokens, longInputTimes, longOutputTimes]: Long = [0, 1, 1],
): Model {
  return {
    windowTokens,
    outputTokens,
    images: takes === "images",
    reasoning,
    inputPrice,
    cachedInputPrice,
    cacheWritePrice,
    outputPrice,
    longOverTokens,
    longInputTimes,
    longOutputTimes,
  };
}

const NO_PRICE: Prices = [0, 0, 0, 0];

const CLAUDE: Size = [1_000_000, 128_000];
const CLAUDE_SMALL: Size = [200_000, 64_000];

const ANTHROPIC: KnownProvider["models"] = {
  "claude-fable-5-1": model(CLAUDE, "images", "level", [10, 0.25, 12.5, 50]),
  "claude-opus-5-5": model(CLAUDE, "images", "level", [4, 0.2, 5, 20]),
  "claude-opus-5": model(CLAUDE, "images", "level", [5, 0.5, 6.25, 25]),
  "claude-opus-4-8": model(CLAUDE, "images", "level", [5, 0.5, 6.25, 25]),
  "claude-opus-4-7": model(CLAUDE, "images", "level", [5, 0.5, 6.25, 25]),
  "claude-opus-4-5": model(CLAUDE_SMALL, "images", "budget", [5, 0.5, 6.25, 25]),
  "claude-sonnet-5-5": model(CLAUDE, "images", "level", [2, 0.1, 2.5, 10]),
  "claude-sonnet-5": model(CLAUDE, "images", "level", [2, 0.2, 2.5, 10]),
  "claude-sonnet-4-6": model([1_000_000, 64_000], "images", "level", [3, 0.3, 3.75, 15]),
  "claude-haiku-5-5": model(CLAUDE, "images", "level", [0.1, 0.01, 0.125, 0.5], [100_000, 5, 5]),
  "claude-haiku-4-5": model(CLAUDE_SMALL, "images", "budget", [1, 0.1, 1.25, 5]),
};

const GPT: Size = [922_000, 128_000];
const GPT_SMALL: Size = [272_000, 128_000];
const GPT_LONG: Long = [272_000, 2, 1.5];

const OPENAI: KnownProvider["models"] = {
  "gpt-6.2-astra": model(GPT, "images", "level", [8, 0.4, 10, 40], GPT_LONG),
  "gpt-6.2-sol": model(GPT, "images", "level", [2, 0.1, 2.5, 10], GPT_LONG),
  "gpt-6.1-sol": model(GPT, "images", "level", [2, 0.1, 2.5, 10], GPT_LONG),
  "gpt-6.1-terra": model(GPT, "images", "level", [1, 0.05, 1.25, 5], GPT_LONG),
  "gpt-6-luna": model(GPT, "images", "level", [0.1, 0.01, 0.125, 0.5], GPT_LONG),
  "gpt-5.5": model(GPT, "images", "level", [5, 0.5, 0, 30], GPT_LONG),
  "gpt-5.4": model(GPT, "images", "level", [2.5, 0.25, 0, 15], GPT_LONG),
  "gpt-5.4-mini": model(GPT_SMALL, "images", "level", [0.75, 0.075, 0, 4.5]),
  "gpt-5.3-codex": model(GPT_SMALL, "images", "level", [1.75, 0.175, 0, 14]),
  "gpt-5-mini": model(GPT_SMALL, "images", "level", [0.25, 0.025, 0, 2]),
  "gpt-4.1": model([1_047_576, 32_768], "images", "none", [2, 0.5, 0, 8]),
};

const GEMINI: Size = [1_048_576, 65_536];

const GOOGLE: KnownProvider["models"] = {
  "gemini-4-neon": model(GEMINI, "images", "level", [3, 0.15, 0, 15]),
  "gemini-4-hydrogen": model(GEMINI, "images", "level", [1.5, 0.075, 0, 7.5]),
  "gemini-3.5-flash": model(GEMINI, "images", "level", [1.5, 0.15, 0, 9]),
  "gemini-3.1-pro-preview": model(GEMINI, "images", "level", [2, 0.2, 0, 12], [200_000, 2, 1.5]),
  "gemini-2.5-pro": model(GEMINI, "images", "level", [1.25, 0.125, 0, 10], [200_000, 2, 1.5]),
  "gemini-2.5-flash": model(GEMINI, "images", "level", [0.3, 0.03, 0, 2.5]),
};

const MISTRAL: KnownProvider["models"] = {
  "devstral-2512": model([262_144, 262_144], "text", "none", [0.4, 0.4, 0, 2]),
  "mistral-medium-2604": model([262_144, 262_144], "images", "none", [1.5, 1.5, 0, 7.5]),
  "mistral-large-2512": model([262_144, 262_144], "images", "none", [0.5, 0.5, 0, 1.5]),
};

const GROK_LONG: Long = [200_000, 2, 2];

const XAI: KnownProvider["models"] = {
  "grok-4.5": model([500_000, 0], "images", "level", [2, 0.5, 0, 6], GROK_LONG),
  "grok-4.3": model([1_000_000, 30_000], "images", "level", [1.25, 0.2, 0, 2.5], GROK_LONG),
  "grok-build-0.1": model([256_000, 256_000], "images", "none", [1, 0.2, 0, 2], GROK_LONG),
};

/** The providers that are known without settings, by the names that models are called with. */
export const KNOWN: Readonly<Record<string, KnownProvider>> = {
  anthropic: {
    wire: "anthropic",
    baseUrl: "https://api.anthropic.com/v1",
    keyVariable: "ANTHROPIC_API_KEY",
    asOf: "2026-11",
    models: ANTHROPIC,
  },
  openai: {
    wire: "openai-responses",
    baseUrl: "https://api.openai.com/v1",
    keyVariable: "OPENAI_API_KEY",
    asOf: "2026-11",
    models: OPENAI,
  },
  google: {
    wire: "openai-chat",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    keyVariable: "GEMINI_API_KEY",
    asOf: "2026-11",
    models: GOOGLE,
  },
  mistral: {
    wire: "openai-chat",
    baseUrl: "https://api.mistral.ai/v1",
    keyVariable: "MISTRAL_API_KEY",
    asOf: "2026-07",
    models: MISTRAL,
  },
  xai: {
    wire: "openai-chat",
    baseUrl: "https://api.x.ai/v1",
    keyVariable: "XAI_API_KEY",
    asOf: "2026-07",
    models: XAI,
  },
  deepseek: {
    wire: "openai-chat",
    baseUrl: "https://api.deepseek.com",
    keyVariable: "DEEPSEEK_API_KEY",
    asOf: "2026-11",
    models: {
      "deepseek-flash": model([1_000_000, 384_000], "images", "level", NO_PRICE),
      "deepseek-v4-pro": model([1_000_000, 384_000], "text", "level", NO_PRICE),
    },
  },
  moonshotai: {
    wire: "openai-chat",
    baseUrl: "https://api.moonshot.ai/v1",
    keyVariable: "MOONSHOT_API_KEY",
    asOf: "2026-07",
    models: {
      "kimi-k2.7-code": model([262_144, 262_144], "images", "none", [0.95, 0.19, 0, 4]),
    },
  },
  zai: {
    wire: "openai-chat",
    baseUrl: "https://api.z.ai/api/paas/v4",
    keyVariable: "ZAI_API_KEY",
    asOf: "2026-07",
    models: {
      "glm-5.2": model([1_000_000, 131_072], "text", "none", [1.4, 0.26, 0, 4.4]),
    },
  },
  groq: {
    wire: "openai-chat",
    baseUrl: "https://api.groq.com/openai/v1",
    keyVariable: "GROQ_API_KEY",
    asOf: "2026-07",
    models: {
      "openai/gpt-oss-120b": model([131_072, 65_536], "text", "level", [0.15, 0.075, 0, 0.6]),
    },
  },
  // Its models are those of others, at prices of their own.
  openrouter: {
    wire: "openai-chat",
    baseUrl: "https://openrouter.ai/api/v1",
    keyVariable: "OPENROUTER_API_KEY",
    asOf: "2026-07",
    models: {},
  },
};
