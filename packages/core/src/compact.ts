import type { Message, ModelAnswer } from "@dev/protocol";
import { natureOf } from "./agent.ts";
import type { Config } from "./config.ts";
import { messageSize, push, userMessage } from "./conversation.ts";
import type { AgentDraft } from "./draft.ts";
import { tellFault, tellPlan } from "./render.ts";
import type { Agent } from "./state.ts";

/** Whether an agent's last answer has used its share of the model's window. */
export function isFull(config: Config, agent: Agent): boolean {
  const { windowTokens } = natureOf(config, agent.kind);
  if (windowTokens === 0 || agent.usedTokens === 0) return false;
  return agent.usedTokens * 100 >= windowTokens * config.limits.compactPercent;
}

/**
 * Where the messages begin that compaction keeps, or null when there is nothing before them to
 * summarise. `full`: as few as it takes; `asked`: a person wants it, and so sees the last exchange.
 * What is kept never begins with a result, so that no call is parted from its own.
 */
export function cutOf(config: Config, agent: Agent, why: "full" | "asked"): number | null {
  const { messages, summary } = agent;
  // A summary alone is not worth another.
  const least = summary === "none" ? 0 : 1;
  const last = messages.findLastIndex(begins);
  // What was kept beside a fresh summary was too much.
  const cut = summary === "fresh" && why === "full" ? last : sizeCut(config, agent);
  if (cut > least) return cut;
  if (why === "full") return last > least ? last : null;
  const prompt = messages.findLastIndex(isPrompt);
  if (prompt > least) return prompt;
  // Of one exchange that is long, the last message stays with its results.
  const isLong = messages.slice(least, last).some(({ kind }) => kind === "assistant");
  return isLong ? last : null;
}

/** Whether a conversation that is full may be compacted: twice in a row, and no more. */
export function mayCompact(agent: Agent): boolean {
  return agent.summary !== "last";
}

/** Where the newest messages begin that are small enough together; at the least the last that may. */
function sizeCut(config: Config, agent: Agent): number {
  const { messages } = agent;
  const { windowTokens } = natureOf(config, agent.kind);
  const { keptBytes } = config.limits;
  // A token is seldom less than a byte, so that what is kept leaves most of a small window free.
  const limitBytes = windowTokens === 0 ? keptBytes : Math.min(keptBytes, windowTokens);
  let cut = messages.findLastIndex(begins);
  let sumBytes = 0;
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index];
    if (message === undefined) break;
    sumBytes += messageSize(message);
    if (sumBytes > limitBytes) break;
    if (begins(message) && index < cut) cut = index;
  }
  return cut;
}

function begins(message: Message): boolean {
  return message.kind !== "tool";
}

function isPrompt(message: Message): boolean {
  return message.kind === "user";
}

/** What a model is told to do with the conversation so far; `focus` is a person's, or empty. */
export function instruction(focus: string): Message {
  return userMessage(focus === "" ? SUMMARISE : `${SUMMARISE}\n\nAbove all keep this: ${focus}`);
}

const SUMMARISE = `Summarise this conversation. Your answer takes the place of everything above, which you will not see again; only the newest messages stay.
Say what was asked for, in the words that matter; what was done and found, with the names of files, commands and their results; what was decided, and why; and what is open and comes next.
If an earlier summary stands above, carry on what still matters of it.
Answer with the summary alone, and call no tool.`;

/** Lets a summary stand for all messages of a conversation before the cut. */
export function replace(agent: AgentDraft, cut: number, summary: string): void {
  const plan = agent.plan.length === 0 ? "" : `\n\nThe plan as it stands:\n${tellPlan(agent.plan)}`;
  const first = userMessage(`The conversation before this, in a summary:\n\n${summary}${plan}`);
  const kept = agent.messages.slice(cut);
  agent.messages = [];
  agent.messageBytes = 0;
  push(agent, [first, ...kept]);
  agent.told = 0;
  agent.usedTokens = 0;
  agent.summary = agent.summary === "fresh" ? "last" : "fresh";
}

/** Why an answer is no summary, or null when it is one. */
export function noSummary(
  heard: Exclude<ModelAnswer, { readonly kind: "cancelled" }>,
): string | null {
  if (heard.kind === "failed") return tellFault(heard.fault);
  if (heard.stop === "refusal") return "the model refused to answer";
  return heard.text.trim() === "" ? "the answer is empty" : null;
}
