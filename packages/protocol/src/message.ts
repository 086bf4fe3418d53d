import type { CallOp } from "./op.ts";

/** One message of a conversation. Every call of an assistant's message has one tool message. */
export type Message = UserMessage | AssistantMessage | ToolMessage;

export type UserMessage = {
  readonly kind: "user";
  readonly text: string;
  readonly images: readonly Image[];
};

export type AssistantMessage = {
  readonly kind: "assistant";
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly Call[];
  /**
   * What the provider must be given back with this message, as its wire wrote it: signed or encrypted
   * reasoning. No one else reads it. Empty where there is nothing.
   */
  readonly opaque: string;
};

export type ToolMessage = {
  readonly kind: "tool";
  /** The `ref` of the call that it answers. */
  readonly ref: string;
  readonly text: string;
  /** Whether the call did not do what it was asked. */
  readonly failed: boolean;
};

export type Image = {
  /** Such as `image/png`. */
  readonly mediaType: string;
  /** The bytes, in base64. */
  readonly data: string;
};

/** A call as a model made it; `ref` is the provider's id, unique within its message. */
export type Call = { readonly ref: string; readonly op: CallOp };
