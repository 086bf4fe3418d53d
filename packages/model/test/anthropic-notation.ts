import type { AssistantMessage, Message } from "@dev/protocol";
import type { Ask } from "../src/index.ts";
import { type Asked, askOnce, openEndpoint } from "./endpoint.ts";

export const event = (fields: object): string => `data: ${JSON.stringify(fields)}\n\n`;
export const started = (usage?: object): string =>
  event({ type: "message_start", message: { type: "message", role: "assistant", usage } });
export const begun = (index: number, content_block: object): string =>
  event({ type: "content_block_start", index, content_block });
export const piece = (index: number, delta: object): string =>
  event({ type: "content_block_delta", index, delta });
export const ended = (index: number): string => event({ type: "content_block_stop", index });
export const stopped = (stop_reason: string | null, usage?: object): string =>
  event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage });
export const STOP = event({ type: "message_stop" });

export const said = (index: number, text: string): string =>
  begun(index, { type: "text", text: "" }) +
  piece(index, { type: "text_delta", text }) +
  ended(index);
export const thought = (index: number, thinking: string, signature: string): string =>
  begun(index, { type: "thinking", thinking: "", signature: "" }) +
  piece(index, { type: "thinking_delta", thinking }) +
  piece(index, { type: "signature_delta", signature }) +
  ended(index);
export const called = (index: number, id: string, json: string): string =>
  begun(index, { type: "tool_use", id, name: "read", input: {} }) +
  piece(index, { type: "input_json_delta", partial_json: json }) +
  ended(index);

export const problem = (type: string, message: string) => ({
  type: "error",
  error: { type, message },
});

/** Asks a provider that says these events. */
export async function hear(pieces: readonly string[], ask: Partial<Ask> = {}): Promise<Asked> {
  await using endpoint = await openEndpoint((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(pieces.join(""));
  });
  return await askOnce({ wire: "anthropic", url: endpoint.url, ask });
}

/** A reply's message, as the core keeps it. */
export function kept({ answer }: Asked): AssistantMessage {
  if (answer.kind !== "reply") throw new Error(`no reply: ${JSON.stringify(answer)}`);
  const { text, reasoning, calls, opaque } = answer;
  return { kind: "assistant", text, reasoning, calls, opaque };
}

export const user = (text: string): Message => ({ kind: "user", text, images: [] });
export const read = (ref: string) => ({
  ref,
  op: { kind: "read", path: "a", from: 0, to: 0 } as const,
});
export const result = (ref: string, text = "found"): Message => ({
  kind: "tool",
  ref,
  text,
  failed: false,
});
export const reply = (
  text: string,
  refs: readonly string[] = [],
  opaque = "",
): AssistantMessage => ({
  kind: "assistant",
  text,
  reasoning: "",
  calls: refs.map(read),
  opaque,
});
