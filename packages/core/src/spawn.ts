import type { AgentId, DoneOp, SpawnOp } from "@dev/protocol";
import type { Config } from "./config.ts";
import { push, userMessage } from "./conversation.ts";
import type { AgentDraft } from "./draft.ts";
import type { Told } from "./render.ts";
import { type Agent, NOTHING_SAID } from "./state.ts";
import { clip } from "./text.ts";

/** The agent that a call of `spawn` makes, beside so many at work; or why it makes none. */
export function spawned(
  config: Config,
  parent: Agent,
  op: SpawnOp,
  id: AgentId,
  atWorkCount: number,
): AgentDraft | string {
  const { agentDepth, agentCount } = config.limits;
  if (parent.depth >= agentDepth) {
    return `agentDepth: an agent at depth ${parent.depth} spawns none, of ${agentDepth}`;
  }
  if (atWorkCount >= agentCount) {
    return `agentCount: ${atWorkCount} agents are at work, of ${agentCount}`;
  }
  if (op.prompt === "") return "prompt: it is empty";
  const kind = config.agents.find(({ name }) => name === op.agent);
  if (op.agent !== "" && kind === undefined) {
    const names = config.agents.map(({ name }) => name);
    return `agent: there is no kind named ${JSON.stringify(op.agent)}; there are ${listed(names)}`;
  }
  const unknown = op.tools.find((name) => !parent.tools.includes(name));
  if (unknown !== undefined) {
    return `tools: there is no tool named ${JSON.stringify(unknown)} here; there are ${listed(parent.tools)}`;
  }
  const ofKind = op.agent === "" ? null : (kind?.tools ?? null);
  const tools = parent.tools.filter(
    (name) =>
      (ofKind === null || ofKind.includes(name)) &&
      (op.tools.length === 0 || op.tools.includes(name)),
  );
  const agent: AgentDraft = {
    id,
    parent: parent.id,
    depth: parent.depth + 1,
    kind: op.agent === "" ? parent.kind : op.agent,
    tools,
    ...NOTHING_SAID,
  };
  push(agent, [userMessage(op.prompt)]);
  return agent;
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? "none" : names.join(", ");
}

/** What a sub-agent's parent is told when it ends: its last text, and why it did not finish. */
export function tellEnd(
  agent: Agent,
  outcome: DoneOp["outcome"],
  reason: string,
  limitBytes: number,
): Told {
  const last = agent.messages.findLast(
    (message) => message.kind === "assistant" && message.text !== "",
  );
  const text = last?.kind === "assistant" ? last.text : "";
  if (outcome === "complete") {
    return { text: clip(text === "" ? NO_TEXT : text, limitBytes), failed: false };
  }
  const end = `failed: the agent did not finish: ${reason}`;
  const told = text === "" ? end : `${end}\nThe last it said:\n${text}`;
  return { text: clip(told, limitBytes), failed: true };
}

const NO_TEXT = "(the agent ended without a text)";
