import { readFileSync, writeFileSync } from "node:fs";
import { NO_USAGE, type Usage } from "@dev/protocol";
import fc from "fast-check";
import * as v from "valibot";
import { expect, test } from "vitest";
import {
  costMicroUsd,
  KNOWN_PROVIDERS,
  knownProvider,
  type Model,
  modelOf,
} from "../src/catalog.ts";
import { openRouter, ROUTER_LIMITS } from "../src/index.ts";
import { type Script, startScripted } from "../src/scripted.ts";
import { askOf, askOnce, faultOf, openEndpoint } from "./endpoint.ts";

const tokens = v.pipe(v.number(), v.integer(), v.minValue(1));
/** To a millionth of a dollar per million tokens: what `costMicroUsd` counts in. */
const price = v.pipe(
  v.number(),
  v.minValue(0),
  v.maxValue(1_000),
  v.check((each) => Math.round(each * 1e6) / 1e6 === each, "at most six decimals"),
);
const times = v.pipe(v.number(), v.minValue(1), v.maxValue(10));

const MODEL = v.pipe(
  v.strictObject({
    windowTokens: tokens,
    outputTokens: v.pipe(v.number(), v.integer(), v.minValue(0)),
    images: v.boolean(),
    reasoning: v.picklist(["level", "budget", "none"]),
    inputPrice: price,
    cachedInputPrice: price,
    cacheWritePrice: price,
    outputPrice: price,
    longOverTokens: v.pipe(v.number(), v.integer(), v.minValue(0)),
    longInputTimes: times,
    longOutputTimes: times,
  }),
  v.check((model) => model.cachedInputPrice <= model.inputPrice, "the cache costs no more"),
  v.check((model) => model.outputPrice >= model.inputPrice, "output costs no less than input"),
  v.check(
    ({ cacheWritePrice, inputPrice }) => cacheWritePrice === 0 || cacheWritePrice >= inputPrice,
    "to write to the cache costs no less than to pass it by",
  ),
  v.check((model) => model.longOverTokens < model.windowTokens, "a long call fits the window"),
);

const PROVIDER = v.strictObject({
  wire: v.picklist(["openai-chat", "openai-responses", "anthropic"]),
  baseUrl: v.pipe(v.string(), v.url(), v.startsWith("https://"), v.regex(/[^/]$/)),
  keyVariable: v.pipe(v.string(), v.regex(/^[A-Z_]+_API_KEY$/)),
  asOf: v.pipe(v.string(), v.isoDate(), v.length(10)),
  models: v.record(
    v.pipe(
      v.string(),
      v.regex(/^\S+$/),
      v.check((name) => !name.endsWith("latest"), "what a name means must not change unseen"),
    ),
    MODEL,
  ),
});

test("the catalog is what its schema says", () => {
  const parsed = v.safeParse(v.record(v.pipe(v.string(), v.regex(/^[a-z]+$/)), PROVIDER), {
    ...Object.fromEntries(
      Object.entries(KNOWN_PROVIDERS).map(([name, provider]) => [
        name,
        { ...provider, asOf: `${provider.asOf}-01` },
      ]),
    ),
  });
  expect(parsed.issues?.map((issue) => [v.getDotPath(issue), issue.message])).toBeUndefined();
});

const OPUS = modelOf("anthropic/claude-opus-5-5");
const SOL = modelOf("openai/gpt-6.2-sol");
const usage = (part: Partial<Usage>): Usage => ({ ...NO_USAGE, ...part });

test.each([
  [OPUS, usage({ inputTokens: 1_000_000 }), 5_000_000, "input that is written to the cache"],
  [OPUS, usage({ inputTokens: 1_000_000, cachedTokens: 1_000_000 }), 200_000, "cached input"],
  [OPUS, usage({ outputTokens: 1_000_000, reasoningTokens: 900_000 }), 20_000_000, "output"],
  [SOL, usage({ inputTokens: 272_000 }), 680_000, "input that is not long"],
  [SOL, usage({ inputTokens: 272_001, outputTokens: 2 }), 1_360_035, "a long call, whole"],
  [modelOf("openai/gpt-6-luna"), usage({ inputTokens: 1 }), 1, "a part of a millionth, rounded up"],
  [modelOf("local/any"), usage({ inputTokens: 1_000, outputTokens: 1_000 }), 0, "an unknown price"],
  [
    modelOf("mistral/devstral-2512"),
    usage({ inputTokens: 10, cachedTokens: 99 }),
    4,
    "more cached than read",
  ],
])("%o and %o cost %i: %s", (model, used, cost) => {
  expect(costMicroUsd(model, used)).toBe(cost);
});

test("a call never costs less than its tokens do, nor a millionth too much", () => {
  const counts = fc.nat(2_000_000);
  const prices = fc.integer({ min: 0, max: 200_000_000 }).map((units) => units / 1e6);
  fc.assert(
    fc.property(
      counts,
      counts,
      prices,
      prices,
      (inputTokens, outputTokens, inputPrice, outputPrice) => {
        const model = modelOf("local/m", { "local/m": { inputPrice, outputPrice } });
        const cost = costMicroUsd(model, usage({ inputTokens, outputTokens }));
        const exact =
          BigInt(inputTokens) * BigInt(Math.round(inputPrice * 1e6)) +
          BigInt(outputTokens) * BigInt(Math.round(outputPrice * 1e6));
        expect(BigInt(cost) * 1_000_000n - exact).toBeGreaterThanOrEqual(0n);
        expect(BigInt(cost) * 1_000_000n - exact).toBeLessThan(1_000_000n);
      },
    ),
  );
});

test("overrides go field by field over what the catalog says, and of other models it says no less", () => {
  const overrides = { "openai/gpt-6.2-sol": { inputPrice: 1, images: false } };
  expect(modelOf("openai/gpt-6.2-sol", overrides)).toEqual({
    ...SOL,
    inputPrice: 1,
    images: false,
  });
  expect(modelOf("anthropic/claude-opus-5-5", overrides)).toEqual(OPUS);
  const own = modelOf("local/m", { "local/m": { inputPrice: 3, windowTokens: 8 } });
  expect(own).toMatchObject({ windowTokens: 8, images: null, cachedInputPrice: 3, outputPrice: 0 });
  const unpriced = modelOf("deepseek/deepseek-v4-pro", {
    "deepseek/deepseek-v4-pro": { inputPrice: 2, outputPrice: 4 },
  });
  expect(unpriced).toMatchObject({ windowTokens: 1_000_000, cachedInputPrice: 2 });
});

test("a name with the date of a release is that model, and names of objects are none", () => {
  const haiku = modelOf("anthropic/claude-haiku-4-5");
  expect(haiku.windowTokens).toBe(200_000);
  expect(modelOf("anthropic/claude-haiku-4-5-20251001")).toEqual(haiku);
  expect(modelOf("openai/gpt-4.1-2025-04-14")).toEqual(modelOf("openai/gpt-4.1"));
  expect(modelOf("groq/openai/gpt-oss-120b").windowTokens).toBe(131_072);
  for (const name of ["toString/x", "openai/toString", "openai", "__proto__/constructor", ""]) {
    expect(modelOf(name, {})).toEqual(modelOf("local/any"));
  }
  expect(knownProvider("constructor")).toBe(null);
});

/** Asks `local/m`, whose tokens cost 1 and 2 millionths, once. */
async function priced(script: Script, part: { readonly images?: boolean } = {}) {
  const scripted = await startScripted(script);
  const router = openRouter(
    { local: { wire: "openai-chat", baseUrl: scripted.url, key: null } },
    { sleep: async () => {}, random: () => 0, limits: ROUTER_LIMITS },
    { "local/m": { inputPrice: 1, outputPrice: 2, images: part.images ?? false } },
  );
  const image = { mediaType: "image/png", data: "aGk=" };
  const images = part.images === undefined ? [] : [image];
  try {
    const asked = await router.ask(
      askOf({ model: "local/m", messages: [{ kind: "user", text: "x", images }] }),
      () => {},
      async () => {},
      new AbortController().signal,
    );
    return { ...asked, requestCount: scripted.requests.length };
  } finally {
    router.close();
    await scripted.close();
  }
}

test("an answer is priced, and so is one that failed after it was paid for", async () => {
  const used = { input: 1_000, output: 50 };
  const good = await priced([{ reply: { text: "hi" }, usage: used }]);
  expect(good).toMatchObject({ answer: { kind: "reply" }, costMicroUsd: 1_100 });
  await using endpoint = await openEndpoint((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
    response.write('data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":1}}\n\n');
    response.end();
  });
  const ask = { model: "test/gpt" };
  const cut = await askOnce({
    wire: "openai-chat",
    url: endpoint.url,
    ask,
    models: { "test/gpt": { inputPrice: 1, outputPrice: 2 } },
  });
  expect(faultOf(cut).code).toBe("cut");
  expect(cut).toMatchObject({ usage: { inputTokens: 1_000 }, costMicroUsd: 1_002 });
});

test("an ask that is stopped costs what the provider had said by then", async () => {
  await using endpoint = await openEndpoint((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":1}}\n\n');
    response.write('data: {"choices":[{"index":0,"delta":{"content":"stop here"}}]}\n\n');
  });
  const stop = new AbortController();
  const asked = await askOnce({
    wire: "openai-chat",
    url: endpoint.url,
    ask: { model: "test/gpt" },
    models: { "test/gpt": { inputPrice: 1, outputPrice: 2 } },
    signal: stop.signal,
    onDelta: () => stop.abort(),
  });
  expect(asked).toMatchObject({ answer: { kind: "cancelled" }, costMicroUsd: 32 });
});

test("an image without usage is priced as an image, and not as the text that it is sent as", async () => {
  await using endpoint = await openEndpoint((response) => {
    response.end('{"choices":[{"index":0,"message":{"content":"a cat"},"finish_reason":"stop"}]}');
  });
  const data = "A".repeat(300_000);
  const asked = await askOnce({
    wire: "openai-chat",
    url: endpoint.url,
    ask: {
      model: "test/gpt",
      messages: [{ kind: "user", text: "?", images: [{ mediaType: "image/png", data }] }],
    },
    models: { "test/gpt": { inputPrice: 1, outputPrice: 2 } },
  });
  expect(asked.costMicroUsd).toBeGreaterThan(2_000);
  expect(asked.costMicroUsd).toBeLessThan(3_000);
});

test("images are not sent to a model that takes none, and the setting is named", async () => {
  const refused = await priced([], { images: false });
  expect(refused).toMatchObject({
    requestCount: 0,
    costMicroUsd: 0,
    answer: { kind: "failed", fault: { code: "unsupported", subject: "local/m" } },
  });
  expect(faultOf(refused).mend).toContain('images = true under [models."local/m"]');
  const sent = await priced([{ reply: { text: "a cat" } }], { images: true });
  expect(sent).toMatchObject({ requestCount: 1, answer: { kind: "reply" } });
});

test("the published catalog is that of the code", () => {
  const path = new URL("../../../docs/reference/models.md", import.meta.url);
  const text = catalogText();
  if (process.env.UPDATE_GOLDEN) writeFileSync(path, text);
  expect(readFileSync(path, "utf8")).toBe(text);
});

/** The catalog for a reader: a table for each provider. */
function catalogText(): string {
  const parts = Object.entries(KNOWN_PROVIDERS).map(([name, provider]) => {
    const { wire, baseUrl, keyVariable, asOf, models } = provider;
    const rows = Object.entries(models).map(([model, known]) => row(`${name}/${model}`, known));
    const what = `\`${wire}\` at <${baseUrl}>, key in \`${keyVariable}\`.`;
    if (rows.length === 0) return `## ${name}\n\n${what} No model of it is listed.\n`;
    return `## ${name}\n\n${what} As of ${asOf}.\n\n${HEAD}${rows.join("")}`;
  });
  return `# Models\n\n<!-- Made by a test: UPDATE_GOLDEN=1 npx vitest run packages/model/test/catalog.test.ts -->\n\n${INTRODUCTION}\n\n${parts.join("\n")}`;
}

const INTRODUCTION = `What Dev knows of models without being told. Prices are in US dollars per million tokens as their providers published them in the
month that stands at each provider; they change, and settings (\`[models."provider/model"]\`) override every figure. A model that is
not listed works as well: its window, its price and whether it takes images are then for the settings to say, and 0 here means that
it is not known. Input that is not read from the provider's cache counts as written to it, where that has a price. A call that
takes in more than its *long* figure costs so many times the usual for its input and its output.`;

const HEAD = `| model | takes in | answers | images | input | cached | written | output | long |
| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |
`;

function row(name: string, known: Model): string {
  const long =
    known.longOverTokens === 0
      ? ""
      : `${known.longOverTokens}: ×${known.longInputTimes}, ×${known.longOutputTimes}`;
  const cells = [
    `\`${name}\``,
    known.windowTokens,
    known.outputTokens,
    known.images === true ? "yes" : "no",
    known.inputPrice,
    known.cachedInputPrice,
    known.cacheWritePrice,
    known.outputPrice,
    long,
  ];
  return `| ${cells.join(" | ")} |\n`;
}
