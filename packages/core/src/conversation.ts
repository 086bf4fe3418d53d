import type { AssistantMessage, Call, Message, ToolMessage, UserMessage } from "@dev/protocol";
import type { AgentDraft } from "./draft.ts";
import { messageJson } from "./json.ts";
import type { Slot } from "./state.ts";
import { utf8Bytes } from "./text.ts";

/** Puts messages at the end of a conversation. */
export function push(agent: AgentDraft, messages: readonly Message[]): void {
  agent.messages = agent.messages.concat(messages);
  agent.messageBytes += sizeOf(messages);
}

/** Puts an assistant's message into a conversation; one that says nothing is left out. */
export function say(agent: AgentDraft, message: AssistantMessage): void {
  if (message.text !== "" || message.calls.length > 0) push(agent, [message]);
}

/** Puts the results of an agent's calls into its conversation; a call that is open gets `missing`. */
export function fold(agent: AgentDraft, missing: string): void {
  if (agent.phase.kind !== "acting") return;
  const { slots } = agent.phase;
  const folded = slots.map((slot): ToolMessage => {
    if (slot.kind === "answered") return resultOf(slot);
    const open: ToolMessage = { kind: "tool", ref: slot.ref, text: missing, failed: true };
    // Those that were answered were weighed then.
    agent.messageBytes += messageSize(open);
    return open;
  });
  agent.messages = agent.messages.concat(folded);
  agent.phase = { kind: "idle" };
}

/** Lets an agent wait with these slots; what newly waits in them weighs in its conversation at once. */
export function act(agent: AgentDraft, slots: readonly Slot[]): void {
  const before = new Set(agent.phase.kind === "acting" ? agent.phase.slots : []);
  agent.messageBytes += answeredBytes(slots.filter((slot) => !before.has(slot)));
  agent.phase = { kind: "acting", slots };
}

/** What the results weigh that wait in slots. */
export function answeredBytes(slots: readonly Slot[]): number {
  let sumBytes = 0;
  for (const slot of slots) {
    if (slot.kind === "answered") sumBytes += messageSize(resultOf(slot));
  }
  return sumBytes;
}

type Answered = Extract<Slot, { readonly kind: "answered" }>;

/** The message that a result becomes: the same one each time, so that it is encoded and weighed once. */
export function resultOf(slot: Answered): ToolMessage {
  const known = results.get(slot);
  if (known !== undefined) return known;
  const { ref, text, failed } = slot;
  const made: ToolMessage = { kind: "tool", ref, text, failed };
  results.set(slot, made);
  return made;
}

const results: WeakMap<Answered, ToolMessage> = /* @__PURE__ */ new WeakMap();

/** A text as a message to the model. */
export function userMessage(text: string): UserMessage {
  return { kind: "user", text, images: [] };
}

export function sizeOf(messages: readonly Message[]): number {
  let sumBytes = 0;
  for (const message of messages) sumBytes += messageSize(message);
  return sumBytes;
}

/** What a message weighs: its JSON, as it is in a snapshot, in bytes of UTF-8. */
export function messageSize(message: Message): number {
  const known = weights.get(message);
  if (known !== undefined) return known;
  const sizeBytes = utf8Bytes(messageJson(message));
  weights.set(message, sizeBytes);
  return sizeBytes;
}

const weights: WeakMap<Message, number> = /* @__PURE__ */ new WeakMap();

/** Lets calls not go out: each has that for its result. */
export function notRun(agent: AgentDraft, calls: readonly Call[], why: string): void {
  const slots = calls.map(
    ({ ref }): Slot => ({ kind: "answered", ref, text: `not run: ${why}`, failed: true }),
  );
  act(agent, slots);
  fold(agent, "");
}
