import type { Message, TurnEvent, UserMessage } from "@dev/protocol";
import { never } from "@dev/protocol";
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

/** What a message weighs, in bytes of UTF-8. */
export function messageSize(message: Message): number {
  switch (message.kind) {
    case "user": {
      let bytes = utf8Bytes(message.text);
      for (const image of message.images) bytes += image.data.length;
      return bytes;
    }
    case "assistant":
      return (
        utf8Bytes(message.text) +
        utf8Bytes(message.reasoning) +
        utf8Bytes(JSON.stringify(message.calls))
      );
    case "tool":
      return utf8Bytes(message.text);
    default:
      return never(message);
  }
}
