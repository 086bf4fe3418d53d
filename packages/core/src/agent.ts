import type { AgentId, CallOp, ToolSpec } from "@dev/protocol";
import { OWN_SERVER, ROOT_AGENT } from "@dev/protocol";
import type { AgentKind, Config } from "./config.ts";
import type { AgentDraft, StateDraft } from "./draft.ts";
import type { Agent } from "./state.ts";

/** The agent of this id; undefined when it has ended. */
export function agentAt(state: StateDraft, id: AgentId): AgentDraft | undefined {
  return state.agents.find((agent) => agent.id === id);
}

/** The session's own agent. */
export function rootOf(state: StateDraft): AgentDraft {
  const root = agentAt(state, ROOT_AGENT);
  if (root === undefined) throw new Error("a session has an agent of its own");
  return root;
}

/** What an agent is made of: its kind's, or the config's own for the usual kind. */
export function natureOf(
  config: Config,
  kind: string,
): Pick<AgentKind, "model" | "prelude" | "windowTokens"> {
  if (kind === "") return config;
  const named = config.agents.find(({ name }) => name === kind);
  if (named === undefined) throw new Error(`no kind of agent is named ${kind}`);
  return named;
}

/** What an agent's model is told of its tools. */
export function toolSpecs(config: Config, agent: Agent): readonly ToolSpec[] {
  if (agent.parent === null) return config.tools;
  return config.tools.filter(({ name }) => agent.tools.includes(name));
}

/** The name of the tool that makes this call, as models are told of it. */
export function toolName(op: CallOp): string {
  if (op.kind !== "tool") return op.kind;
  if (op.server === OWN_SERVER) return op.name;
  // Providers accept no other characters in a name, and none that is longer.
  return `${op.server}__${op.name}`.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
}
