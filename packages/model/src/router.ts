import {
  type Fault,
  fail,
  fault,
  type Message,
  type ModelAnswer,
  type ModelOp,
  NO_USAGE,
  never,
  ok,
  type Result,
  type ToolSpec,
  type Usage,
} from "@dev/protocol";
import { type Attempt, attempt, type Heard } from "./attempt.ts";
import { backoff } from "./backoff.ts";
import { costMicroUsd, type ModelOverrides, modelOf } from "./catalog.ts";
import { openConnections } from "./connections.ts";
import type { RouterLimits } from "./limit.ts";
import type { Endpoint } from "./provider-fault.ts";
import { estimated } from "./usage.ts";
import { ANTHROPIC } from "./wires/anthropic.ts";
import { OPENAI_CHAT } from "./wires/openai-chat.ts";
import { OPENAI_RESPONSES } from "./wires/openai-responses.ts";
import type { Wire } from "./wires/wire.ts";

/** Everything one call of a model needs: the whole conversation, put together from its deltas. */
export type Ask = {
  /** `provider/model`. */
  readonly model: string;
  readonly effort: ModelOp["effort"];
  readonly prelude: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** What the answer's text has to be; left out, it is any text. A server that takes none is asked without. */
  readonly format?: Format;
};

/** One JSON value, of a schema that is strict as providers mean it: all fields required, and no others. */
export type Format = { readonly name: string; readonly schema: object };

/** A provider, as settings name it. */
export type Provider = {
  readonly wire: "openai-chat" | "openai-responses" | "anthropic";
  /** Such as `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string;
  /** Sent in the header that the wire has for it; never in a fault, a log or a ledger. */
  readonly key: string | null;
  /** Where the key comes from, such as the name of a variable: what to set when it is refused. */
  readonly keySource?: string;
};

export type Delta = { readonly kind: "text" | "reasoning"; readonly text: string };

export type Answered = {
  readonly answer: ModelAnswer;
  readonly usage: Usage;
  /**
   * What it cost, in millionths of a US dollar; 0 where the price is not known. Of an answer
   * whose provider did not say its usage it is an estimate, by the bytes that went and came: a limit in
   * money holds all the same.
   */
  readonly costMicroUsd: number;
};

/** Sends asks to the providers that settings name, and to no other. */
export interface Router {
  /**
   * Asks a model and streams its reply. Never rejects: what went wrong is a `failed` answer, with the
   * text that had arrived as its `partial`. Tries again only when nothing was received, on
   * named faults, with backoff; `onAttempt` is awaited before each try (counted from 1), with the fault of the one before.
   */
  ask(
    ask: Ask,
    onDelta: (delta: Delta) => void,
    onAttempt: (attempt: number, after: Fault | null) => Promise<void>,
    signal: AbortSignal,
  ): Promise<Answered>;
  close(): void;
}

export type RouterOptions = {
  /** Resolves after `ms`; ends at once when the signal is aborted. The waits between tries. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly limits: RouterLimits;
};

/**
 * Opens a router to these providers; `models` says in what models differ from the catalog. A model is
 * named `provider/model`, split at the first slash; a provider that is not among them is a `config` fault.
 * Images for a model that is known to take none are not sent: fault `unsupported`. An ask rejects only
 * if one of its own callbacks does.
 */
export function openRouter(
  providers: Readonly<Record<string, Provider>>,
  options: RouterOptions,
  models: ModelOverrides = {},
): Router {
  const connections = openConnections(options.limits.connectionCount);
  /** Models that have refused a format: they are asked without, for as long as this router lives. */
  const formless = new Set<string>();
  const running = new Set<AbortController>();
  return {
    async ask(ask, onDelta, onAttempt, signal) {
      const target = resolveModel(providers, ask.model);
      if (!target.ok) return unsent(target.fault);
      const known = modelOf(ask.model, models);
      if (known.images === false && hasImages(ask)) return unsent(noImages(ask.model));
      const stop = new AbortController();
      const onAbort = () => stop.abort();
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) stop.abort();
      running.add(stop);
      const { endpoint, model } = target.value;
      const wire = wireOf(endpoint.provider);
      const means = { endpoint, wire, known, connections, limits: options.limits };
      try {
        let sent = formless.has(ask.model) ? withoutFormat(ask) : ask;
        let heardBytes = 0;
        const listen = (delta: Delta) => {
          heardBytes += Buffer.byteLength(delta.text);
          onDelta(delta);
        };
        const once = async () => {
          const tried = await attempt(means, sent, model, listen, stop.signal);
          if (refusesOpaque(tried)) sent = withoutOpaque(sent);
          if (sent.format === undefined || !refusesFormat(tried)) return tried;
          sent = withoutFormat(sent);
          const plain = await attempt(means, sent, model, listen, stop.signal);
          // Where it is refused all the same, it was not for the format.
          if (!isBad(plain)) formless.add(ask.model);
          return plain;
        };
        const heard = await tryUntilAnswered(once, onAttempt, options, stop.signal);
        const { answer, usage } = heard;
        return {
          answer,
          usage,
          costMicroUsd: costMicroUsd(known, toPrice(heard, sent, heardBytes)),
        };
      } finally {
        signal.removeEventListener("abort", onAbort);
        running.delete(stop);
      }
    },
    close() {
      for (const stop of running) stop.abort();
      connections.close();
    },
  };
}

/** The usage that is priced: as the provider said it, and an estimate of what it did not say. */
function toPrice({ answer, usage, requestBytes }: Heard, ask: Ask, heardBytes: number): Usage {
  if (requestBytes === 0) return usage;
  const { inputTokens, outputTokens } = estimated({ ask, requestBytes, heardBytes, answer });
  return {
    ...usage,
    inputTokens: usage.inputTokens || inputTokens,
    outputTokens: usage.outputTokens || outputTokens,
  };
}

/** A bad request that is worth another try: the provider cannot read what it wrote for itself. */
function refusesOpaque(tried: Attempt): boolean {
  return tried.again && isBad(tried);
}

function isBad({ answered: { answer } }: Attempt): boolean {
  return answer.kind === "failed" && answer.fault.code === "bad_request";
}

/** By what servers call the field that they do not take, or what is in it. */
const FORMAT_WORDS =
  /response[_ ]format|json[_ ]schema|output[_ ]config|text\.format|structured|schema|grammar|extra (?:inputs|fields)/i;

function refusesFormat(tried: Attempt): boolean {
  const { answer } = tried.answered;
  return isBad(tried) && answer.kind === "failed" && FORMAT_WORDS.test(answer.fault.message);
}

function withoutFormat(ask: Ask): Ask {
  const { format: _, ...rest } = ask;
  return rest;
}

/** The ask without signed or encrypted reasoning, as to a model that never saw it. */
function withoutOpaque(ask: Ask): Ask {
  const messages = ask.messages.map((message) =>
    message.kind === "assistant" ? { ...message, opaque: "" } : message,
  );
  return { ...ask, messages };
}

function hasImages(ask: Ask): boolean {
  return ask.messages.some((message) => message.kind === "user" && message.images.length > 0);
}

function noImages(model: string): Fault {
  const mend = `choose a model that does; if this one does, set images = true under [models."${model}"]`;
  return fault("unsupported", "the model takes no images", model, mend);
}

async function tryUntilAnswered(
  once: () => Promise<Attempt>,
  onAttempt: (attempt: number, after: Fault | null) => Promise<void>,
  { sleep, random, limits }: RouterOptions,
  signal: AbortSignal,
): Promise<Heard> {
  let spentMs = 0;
  let before: Fault | null = null;
  for (let count = 1; ; count++) {
    if (signal.aborted)
      return { answer: { kind: "cancelled", partial: "" }, usage: NO_USAGE, requestBytes: 0 };
    await onAttempt(count, before);
    const { answered, again, askedMs, silentMs } = await once();
    const { answer } = answered;
    if (answer.kind !== "failed" || !again) return answered;
    spentMs += silentMs;
    const plan = backoff(count, spentMs, askedMs, random(), limits);
    if (plan.kind === "give_up")
      return { ...answered, answer: gaveUp(givenUp(answer.fault, count, askedMs)) };
    spentMs += plan.waitMs;
    before = answer.fault;
    // A sleep that is cut short may say so by rejecting; the next round looks at the signal itself.
    await sleep(plan.waitMs, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
}

/** Says how often it was tried and how long to wait: the reader need not find out by trying. */
function givenUp(last: Fault, count: number, askedMs: number | null): Fault {
  const message = count === 1 ? last.message : `${last.message} (tried ${count} times)`;
  const mend =
    askedMs === null ? last.mend : `the provider asks to wait ${Math.ceil(askedMs / 1000)} s`;
  return { ...last, message, mend };
}

type Target = { readonly endpoint: Endpoint; readonly model: string };

function resolveModel(providers: Readonly<Record<string, Provider>>, name: string): Result<Target> {
  const slash = name.indexOf("/");
  const known = Object.keys(providers).sort();
  const those = known.length === 0 ? "none is set up" : `there are ${known.join(", ")}`;
  if (slash < 1 || slash === name.length - 1) {
    const mend = `name it as provider/model; of providers, ${those}`;
    return fail(fault("config", "not the name of a model", name, mend));
  }
  const providerName = name.slice(0, slash);
  const provider = Object.hasOwn(providers, providerName) ? providers[providerName] : undefined;
  if (provider === undefined) {
    const mend = `${those}; add it to the settings with its wire, base URL and key`;
    return fail(fault("config", "no provider of that name", providerName, mend));
  }
  const url = endpointUrl(provider);
  if (url === null) {
    const mend = "set an http or https address without a password in it";
    return fail(fault("config", "the provider's base URL is none", providerName, mend));
  }
  // Printable ASCII alone: anything else, such as a line end, is no part of a header.
  if (!/^[\x21-\x7e]*$/.test(provider.key ?? "")) {
    const mend = `set ${provider.keySource ?? "its key"} again, without spaces or line ends`;
    return fail(fault("config", "the provider's key cannot be sent", providerName, mend));
  }
  return ok({ endpoint: { name: providerName, provider, url }, model: name.slice(slash + 1) });
}

/** The address that the provider's wire posts to; a query of the base URL, if any, is kept. */
function endpointUrl(provider: Provider): URL | null {
  if (!URL.canParse(provider.baseUrl)) return null;
  const url = new URL(provider.baseUrl);
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  if (!isWeb || url.username !== "" || url.password !== "") return null;
  url.pathname = url.pathname.replace(/\/+$/, "") + wireOf(provider).path;
  url.hash = "";
  return url;
}

function wireOf(provider: Provider): Wire {
  switch (provider.wire) {
    case "openai-chat":
      return OPENAI_CHAT;
    case "openai-responses":
      return OPENAI_RESPONSES;
    case "anthropic":
      return ANTHROPIC;
    default:
      return never(provider.wire);
  }
}

/** The answer to an ask that went to nobody. */
function unsent(what: Fault): Answered {
  return { answer: gaveUp(what), usage: NO_USAGE, costMicroUsd: 0 };
}

function gaveUp(what: Fault): ModelAnswer {
  return { kind: "failed", fault: what, partial: "" };
}
