import type { Call, TurnEvent, UserMessage } from "@dev/protocol";
import type { Limits } from "./config.ts";
import { messageSize, prompted } from "./conversation.ts";
import { clip, utf8Bytes } from "./render.ts";
import type { State, Turn } from "./state.ts";

/** Why a turn may not wait behind the one in flight, naming the limit, or null when it may. */
export function queueLimit(state: State, event: TurnEvent): string | null {
  const { queuedTurns } = state.config.limits;
  if (state.queue.length >= queuedTurns) {
    return `queuedTurns: ${queuedTurns} turns are waiting already`;
  }
  return promptLimit(state, prompted(event), state.queue);
}

/** Why a prompt may not join the conversation behind those that wait, or null when it may. */
export function promptLimit(
  state: State,
  prompt: UserMessage,
  waiting: readonly TurnEvent[],
): string | null {
  const { messageBytes, conversationBytes } = state.config.limits;
  const sizeBytes = messageSize(prompt);
  if (sizeBytes > messageBytes) {
    return `messageBytes: the prompt has ${sizeBytes} bytes, of ${messageBytes}`;
  }
  let sumBytes = state.agent.messageBytes + sizeBytes;
  for (const turn of waiting) sumBytes += messageSize(prompted(turn));
  return sumBytes > conversationBytes ? full(sumBytes, conversationBytes) : null;
}

/** Why the model may not be asked about so many bytes of messages now, or null when it may. */
export function askLimit(state: State, turn: Turn, sumBytes: number): string | null {
  const { modelCallsPerTurn, tokensPerSession, conversationBytes } = state.config.limits;
  if (turn.modelCallCount >= modelCallsPerTurn) {
    return `modelCallsPerTurn: ${modelCallsPerTurn} were made`;
  }
  if (tokensPerSession > 0 && state.tokenCount >= tokensPerSession) {
    return `tokensPerSession: ${state.tokenCount} of ${tokensPerSession} are used`;
  }
  return sumBytes > conversationBytes ? full(sumBytes, conversationBytes) : null;
}

/** Why the calls of a reply may not go out, or null when they may. */
export function callLimit(
  limits: Limits,
  calls: readonly Call[],
  identicalCount: number,
): string | null {
  if (calls.length > limits.callsPerReply) {
    return `callsPerReply: ${calls.length} calls in one reply, of ${limits.callsPerReply}`;
  }
  if (identicalCount > limits.identicalReplies) {
    return `identicalReplies: the same calls ${identicalCount} times in a row`;
  }
  return null;
}

/**
 * Adds a steer to those that wait. A steer has no id: one that says what the last says is taken for
 * that one, delivered again. Past the limits all but the last become one, cut in its middle.
 */
export function steered(
  steers: readonly string[],
  text: string,
  limits: Limits,
): readonly string[] {
  const last = clip(text, limits.messageBytes);
  if (last === "" || last === steers.at(-1)) return steers;
  const waiting = [...steers, last];
  const fits = waiting.length <= limits.steers && steerBytes(waiting) <= limits.messageBytes;
  if (fits || steers.length === 0) return waiting;
  return [clip(steers.join("\n"), limits.messageBytes), last];
}

function steerBytes(steers: readonly string[]): number {
  let sumBytes = 0;
  for (const text of steers) sumBytes += utf8Bytes(text);
  return sumBytes;
}

function full(sumBytes: number, limitBytes: number): string {
  return `conversationBytes: it would have ${sumBytes} bytes, of ${limitBytes}`;
}
