import type { Call, Message, UserMessage } from "@dev/protocol";
import type { Model } from "../catalog.ts";
import type { Ask, Format } from "../router.ts";
import { renderCall } from "../tools.ts";
import { openReply } from "./openai-chat-reply.ts";
import { wellFormed } from "./text.ts";
import type { Wire } from "./wire.ts";

/** Chat completions, as OpenAI defined them and most servers of models speak them. */
export const OPENAI_CHAT: Wire = {
  path: "/chat/completions",
  headers: (key) => ({
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    "accept-encoding": "identity",
    ...(key ? { authorization: `Bearer ${key}` } : {}),
  }),
  body,
  open: openReply,
};

/** The messages come last, so that the body of a longer conversation begins with the shorter one's. */
function body(ask: Ask, model: string, known: Model): string {
  const takesEffort = ask.effort !== "default" && known.reasoning !== "none";
  return JSON.stringify({
    model,
    stream: true,
    stream_options: { include_usage: true },
    ...(takesEffort ? { reasoning_effort: ask.effort } : {}),
    ...(ask.tools.length === 0 ? {} : { tools: ask.tools.map(toolOf) }),
    ...(ask.format === undefined ? {} : { response_format: formatOf(ask.format) }),
    messages: [
      ...(ask.prelude === "" ? [] : [{ role: "system", content: wellFormed(ask.prelude) }]),
      ...ask.messages.flatMap(messageOf),
    ],
  });
}

function formatOf({ name, schema }: Format): object {
  return { type: "json_schema", json_schema: { name, strict: true, schema } };
}

function toolOf(tool: Ask["tools"][number]): object {
  const parameters: unknown = JSON.parse(tool.parameters);
  const { name, description } = tool;
  return { type: "function", function: { name, description, parameters } };
}

function messageOf(message: Message): readonly object[] {
  switch (message.kind) {
    case "user":
      return [{ role: "user", content: userContent(message) }];
    case "assistant": {
      // A message of reasoning alone: reasoning is not sent back, and providers refuse what is left.
      if (message.text === "" && message.calls.length === 0) return [];
      const content = message.text === "" ? null : wellFormed(message.text);
      if (message.calls.length === 0) return [{ role: "assistant", content }];
      return [{ role: "assistant", content, tool_calls: message.calls.map(callOf) }];
    }
    case "tool":
      return [{ role: "tool", tool_call_id: message.ref, content: wellFormed(message.text) }];
  }
}

function userContent(message: UserMessage): string | readonly object[] {
  const text = wellFormed(message.text);
  if (message.images.length === 0) return text;
  const images = message.images.map((image) => ({
    type: "image_url",
    image_url: { url: `data:${image.mediaType};base64,${image.data}` },
  }));
  return text === "" ? images : [{ type: "text", text }, ...images];
}

function callOf(call: Call): object {
  const rendered = renderCall(call.op);
  return {
    id: call.ref,
    type: "function",
    function: { name: rendered.name, arguments: wellFormed(rendered.arguments) },
  };
}
