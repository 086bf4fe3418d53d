import type { ModelOp, ToolSpec } from "@dev/protocol";
import { actionId } from "@dev/protocol";
import { mint } from "./action.ts";
import { natureOf, toolSpecs } from "./agent.ts";
import { instruction } from "./compact.ts";
import type { AgentDraft, Draft } from "./draft.ts";

/** Asks an agent's model to go on: tells the host the messages that it has not been told yet. */
export function askOn(draft: Draft, agent: AgentDraft): Draft {
  const { messages, told } = agent;
  agent.told = messages.length;
  agent.phase = { kind: "asking", action: actionId(draft.state.nextAction) };
  return send(draft, agent, "turn", told, messages.slice(told));
}

/** Asks for a summary of what is before the cut, of which the host may not have been told all. */
export function askSummary(
  draft: Draft,
  agent: AgentDraft,
  { cut, focus, next }: SummaryAsk,
): Draft {
  const from = Math.min(agent.told, cut);
  // Whatever comes of it, what the host has been told is then no longer the conversation.
  agent.told = 0;
  agent.phase = { kind: "compacting", action: actionId(draft.state.nextAction), cut, next };
  const messages = [...agent.messages.slice(from, cut), instruction(focus)];
  return send(draft, agent, "compact", from, messages);
}

export type SummaryAsk = {
  readonly cut: number;
  /** What a person wants kept above all; empty when nobody said. */
  readonly focus: string;
  readonly next: "ask" | "end";
};

const NO_TOOLS: readonly ToolSpec[] = [];

/** Sends the ask of an agent whose phase waits for the next action. */
function send(
  draft: Draft,
  agent: AgentDraft,
  purpose: ModelOp["purpose"],
  from: number,
  messages: ModelOp["messages"],
): Draft {
  const { state } = draft;
  const { config, turn } = state;
  if (turn === null) throw new Error("a model is asked only in a turn");
  const { model, prelude } = natureOf(config, agent.kind);
  const op: ModelOp = {
    kind: "model",
    purpose,
    model,
    effort: config.effort,
    from,
    prelude: from === 0 ? prelude : "",
    messages,
    tools: from === 0 ? toolSpecs(config, agent) : NO_TOOLS,
  };
  state.turn = { id: turn.id, modelCallCount: turn.modelCallCount + 1 };
  state.dirty = true;
  return mint(draft, op, agent.id);
}
