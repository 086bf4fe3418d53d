import type { AgentId } from "@dev/protocol";
import { ROOT_AGENT } from "@dev/protocol";
import type { Member } from "@dev/session";
import { onOneLine } from "./say.ts";

/** What sub-agents are called on a terminal: several work at once, and each line says whose it is. */
export type Labels = {
  take(member: Member): void;
  /** `[reviewer 3] `; empty for the session's own agent. */
  of(agent: AgentId): string;
};

export function openLabels(): Labels {
  const kinds = new Map<AgentId, string>();
  return {
    take: ({ agent, kind }) => {
      kinds.set(agent, kind);
    },
    of: (agent) => {
      if (agent === ROOT_AGENT) return "";
      return `[${onOneLine(kinds.get(agent) || "agent")} ${agent}] `;
    },
  };
}
