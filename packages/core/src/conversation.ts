import type { Message, TurnEvent, UserMessage } from "@dev/protocol";
import { utf8Bytes } from "./render.ts";
import type { Agent } from "./state.ts";

/** Puts messages at the end of a conversation. */
export function pushed(agent: Agent, messages: readonly Message[]): Agent {
  if (messages.length === 0) return agent;
  let messageBytes = agent.messageBytes;
  for (const message of messages) messageBytes += messageSize(message);
  return { ...agent, messages: [...agent.messages, ...messages], messageBytes };
}

/** The message that a turn's prompt becomes. */
export function prompted(event: TurnEvent): UserMessage {
  return { kind: "user", text: event.prompt, images: event.images };
}

/** What a message weighs: its JSON, as it is in a snapshot, in bytes of UTF-8. */
export function messageSize(message: Message): number {
  return utf8Bytes(messageJson(message));
}

/** A message as JSON. It is encoded once in its life, however often it is weighed and saved. */
export function messageJson(message: Message): string {
  const known = encodings.get(message);
  if (known !== undefined) return known;
  const encoded = JSON.stringify(message);
  encodings.set(message, encoded);
  return encoded;
}

const encodings: WeakMap<Message, string> = /* @__PURE__ */ new WeakMap<Message, string>();
