import type { ModelAnswer, Usage } from "@dev/protocol";
import type { Model } from "../catalog.ts";
import type { RouterLimits } from "../limit.ts";
import type { ProviderError } from "../provider-fault.ts";
import type { Ask, Delta } from "../router.ts";

/** A provider's API: how an ask is put to it, and how its stream is read. No sockets in here. */
export type Wire = {
  /** Below the provider's base URL. */
  readonly path: string;
  readonly headers: (key: string | null) => Readonly<Record<string, string>>;
  /**
   * The request's body; `model` is the name without its provider, `known` what is known of it. All but
   * the closing brackets of one ask's body is a prefix of the next one's in the same conversation, markers
   * for the provider's cache left out: providers cache by prefix.
   */
  readonly body: (ask: Ask, model: string, known: Model) => string;
  readonly open: (ask: Ask, onDelta: (delta: Delta) => void, limits: RouterLimits) => Reply;
};

/** A reply as it comes in. */
export type Reply = {
  /** Takes the data of one event of the stream. */
  readonly event: (data: string) => Step;
  /** Takes the whole body of an answer that is no stream. */
  readonly whole: (body: string) => Step;
  /** What has come so far. */
  readonly state: () => ReplyState;
};

export type Step =
  | { readonly kind: "more" }
  /** The answer is whole; what may follow is its usage. */
  | { readonly kind: "finished" }
  /** The stream's own last word. */
  | { readonly kind: "done" }
  /** It is not what this wire speaks. */
  | { readonly kind: "garbled"; readonly what: string }
  | { readonly kind: "error"; readonly error: ProviderError }
  | { readonly kind: "too_large"; readonly what: string };

export type ReplyState = {
  /** The answer, once its terminal marker has come; null until then. */
  readonly answer: (ModelAnswer & { readonly kind: "reply" }) | null;
  /** The text so far. */
  readonly partial: string;
  readonly usage: Usage;
  /** Whether any part of an answer has come. */
  readonly begun: boolean;
};
