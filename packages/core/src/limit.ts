import type { AssistantMessage, Call, ModelEvent, TurnEvent, UserMessage } from "@dev/protocol";
import type { Limits } from "./config.ts";
import { answeredBytes, messageSize } from "./conversation.ts";
import { prompted } from "./prompt.ts";
import type { Agent, Slot, State } from "./state.ts";
import { clip, utf8Bytes } from "./text.ts";

/** Why a turn may not wait behind the one in flight, naming the limit, or null when it may. */
export function queueLimit(state: State, event: TurnEvent): string | null {
  const { queuedTurns } = state.config.limits;
  if (state.queue.length >= queuedTurns) {
    return `queuedTurns: ${queuedTurns} turns are waiting already`;
  }
  return promptLimit(state, prompted(event));
}

/** Why a prompt may not join the conversation, or wait to, or null when it may. */
export function promptLimit(state: State, prompt: UserMessage): string | null {
  const { messageBytes } = state.config.limits;
  const sizeBytes = messageSize(prompt);
  if (sizeBytes > messageBytes) {
    return `messageBytes: the prompt has ${sizeBytes} bytes, of ${messageBytes}`;
  }
  return roomLimit(state, sizeBytes);
}

/**
 * Why the conversations, with the results and prompts that wait to be in them, may not grow by so many
 * bytes, or null when they may.
 */
export function roomLimit(state: State, addedBytes: number): string | null {
  const { conversationBytes } = state.config.limits;
  let sumBytes = addedBytes;
  for (const agent of state.agents) sumBytes += agent.messageBytes;
  for (const turn of state.queue) sumBytes += messageSize(prompted(turn));
  if (sumBytes <= conversationBytes) return null;
  return `conversationBytes: it would have ${sumBytes} bytes, of ${conversationBytes}`;
}

/** Why a model may not be asked so many times more in this turn, or null when it may. */
export function callLimit(state: State, askCount: number): string | null {
  const { modelCallsPerTurn, tokensPerSession, costMicroUsdPerSession } = state.config.limits;
  const madeCount = state.turn?.modelCallCount ?? 0;
  if (madeCount + askCount > modelCallsPerTurn) {
    return madeCount >= modelCallsPerTurn
      ? `modelCallsPerTurn: ${modelCallsPerTurn} were made`
      : `modelCallsPerTurn: ${madeCount} were made and ${askCount} are asked for, of ${modelCallsPerTurn}`;
  }
  if (tokensPerSession > 0 && state.tokenCount >= tokensPerSession) {
    return `tokensPerSession: ${state.tokenCount} of ${tokensPerSession} are used`;
  }
  if (costMicroUsdPerSession > 0 && state.costMicroUsd >= costMicroUsdPerSession) {
    return `costMicroUsdPerSession: ${usd(state.costMicroUsd)} of ${usd(costMicroUsdPerSession)} are used`;
  }
  return null;
}

/** Millionths of a US dollar as dollars, with no digit that says nothing. */
function usd(microUsd: number): string {
  const whole = Math.floor(microUsd / 1_000_000);
  const part = String(microUsd % 1_000_000)
    .padStart(6, "0")
    .replace(/0+$/, "");
  return part === "" ? `$${whole}` : `$${whole}.${part}`;
}

/**
 * What an answer counts against the limit on tokens. A reply whose provider said nothing of its usage
 * counts as an estimate where there is a limit: by what its conversation and it weigh.
 */
export function countedTokens(
  limits: Limits,
  { answer, usage }: ModelEvent,
  messageBytes: number,
): number {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = usage;
  const saidTokens = sum(inputTokens, outputTokens);
  const isSaid = saidTokens + cachedTokens + reasoningTokens > 0;
  if (isSaid || limits.tokensPerSession === 0 || answer.kind !== "reply") return saidTokens;
  const { text, reasoning, calls, opaque } = answer;
  const reply: AssistantMessage = { kind: "assistant", text, reasoning, calls, opaque };
  return Math.ceil((messageBytes + messageSize(reply)) / BYTES_PER_TOKEN);
}

/** Fewer than a token has in most texts, so that an estimate is rather too high. */
const BYTES_PER_TOKEN = 3;

/** Why the calls of a reply may not go out, or null when they may. */
export function replyLimit(
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

/** Two counts together; at the end of the integers that a double holds exactly it stays there. */
export function sum(a: number, b: number): number {
  return Math.min(a + b, Number.MAX_SAFE_INTEGER);
}

/** Adds a steer to those that wait. Past the limits all but the last become one, cut in its middle. */
export function steered(
  steers: readonly string[],
  last: string,
  limits: Limits,
): readonly string[] {
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

/** Why the calls of a reply may not take their places, naming the limit, or null when they may. */
export function placeLimit(
  state: State,
  slots: readonly Slot[],
  agents: readonly Agent[],
): string | null {
  let addedBytes = answeredBytes(slots);
  for (const { messageBytes } of agents) addedBytes += messageBytes;
  const over = agents.length === 0 ? null : callLimit(state, agents.length);
  return over ?? roomLimit(state, addedBytes);
}
