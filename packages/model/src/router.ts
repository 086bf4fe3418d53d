import type { Fault, Message, ModelAnswer, ModelOp, ToolSpec, Usage } from "@dev/protocol";

/** Everything one call of a model needs: the whole conversation, put together from its deltas. */
export type Ask = {
  /** `provider/model`. */
  readonly model: string;
  readonly effort: ModelOp["effort"];
  readonly prelude: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
};

/** A provider, as settings name it. */
export type Provider = {
  readonly wire: "openai-chat";
  /** Such as `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string;
  /** Sent as a bearer token; never in a fault, a log or a ledger. */
  readonly key: string | null;
};

export type Delta = { readonly kind: "text" | "reasoning"; readonly text: string };

export type Answered = { readonly answer: ModelAnswer; readonly usage: Usage };

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
