import {
  type AssistantMessage,
  type Call,
  type Message,
  never,
  type UserMessage,
} from "@dev/protocol";
import type { Model } from "../catalog.ts";
import type { Ask, Format } from "../router.ts";
import { renderCall } from "../tools.ts";
import { OPENAI_CHAT } from "./openai-chat.ts";
import { type Carried, readOpaque } from "./openai-responses-opaque.ts";
import { openReply } from "./openai-responses-reply.ts";
import { wellFormed } from "./text.ts";
import type { Wire } from "./wire.ts";

/** The Responses API of OpenAI. Nothing is stored there: reasoning goes back and forth encrypted. */
export const OPENAI_RESPONSES: Wire = {
  path: "/responses",
  headers: OPENAI_CHAT.headers,
  body,
  open: openReply,
};

/** The input comes last, so that the body of a longer conversation begins with the shorter one's. */
function body(ask: Ask, model: string, known: Model): string {
  const reasons = known.reasoning !== "none";
  return JSON.stringify({
    model,
    stream: true,
    store: false,
    // A model that does not reason refuses a request that asks for its reasoning.
    ...(reasons ? { include: ["reasoning.encrypted_content"] } : {}),
    ...(reasons && ask.effort !== "default" ? { reasoning: { effort: ask.effort } } : {}),
    ...(ask.prelude === "" ? {} : { instructions: wellFormed(ask.prelude) }),
    ...(ask.tools.length === 0 ? {} : { tools: ask.tools.map(toolOf) }),
    ...(ask.format === undefined ? {} : { text: { format: formatOf(ask.format) } }),
    input: ask.messages.flatMap((message) => itemsOf(message, ask.model)),
  });
}

function formatOf({ name, schema }: Format): object {
  return { type: "json_schema", name, strict: true, schema };
}

function toolOf(tool: Ask["tools"][number]): object {
  const parameters: unknown = JSON.parse(tool.parameters);
  const { name, description } = tool;
  // Strict is this API's default, and it refuses schemas with optional arguments.
  return { type: "function", name, description, parameters, strict: false };
}

function itemsOf(message: Message, model: string): readonly object[] {
  switch (message.kind) {
    case "user":
      return [{ role: "user", content: userContent(message) }];
    case "assistant":
      return assistantItems(message, model);
    case "tool":
      return [
        { type: "function_call_output", call_id: message.ref, output: wellFormed(message.text) },
      ];
    default:
      return never(message);
  }
}

function userContent(message: UserMessage): string | readonly object[] {
  const text = wellFormed(message.text);
  if (message.images.length === 0) return text;
  const images = message.images.map((image) => ({
    type: "input_image",
    detail: "auto",
    image_url: `data:${image.mediaType};base64,${image.data}`,
  }));
  return text === "" ? images : [{ type: "input_text", text }, ...images];
}

/** The message's items in the order in which they came, where its `opaque` tells that. */
function assistantItems(message: AssistantMessage, model: string): readonly object[] {
  const carried = readOpaque(message, model);
  if (carried === null) {
    const text = message.text === "" ? [] : [messageItem(message.text, "")];
    return [...text, ...message.calls.map(callItem)];
  }
  return carried.map(carriedItem);
}

function carriedItem(carried: Carried): object {
  switch (carried.kind) {
    case "reasoning":
      return carried.item;
    case "message":
      return messageItem(carried.text, carried.phase);
    case "call":
      return callItem(carried.call);
    default:
      return never(carried);
  }
}

function messageItem(text: string, phase: string): object {
  return { role: "assistant", content: wellFormed(text), ...(phase === "" ? {} : { phase }) };
}

function callItem(call: Call): object {
  const rendered = renderCall(call.op);
  return {
    type: "function_call",
    call_id: call.ref,
    name: rendered.name,
    arguments: wellFormed(rendered.arguments),
  };
}
