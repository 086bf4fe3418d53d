import type { Action, AgentId } from "@dev/protocol";
import { isEffect } from "@dev/protocol";
import type { OpenAction } from "./recovery.ts";

/** The effects of a batch, by the agent that wants them, each agent's in its order. */
export function effectsByAgent(batch: readonly OpenAction[]): Iterable<readonly OpenAction[]> {
  const byAgent = new Map<AgentId, OpenAction[]>();
  for (const given of batch) {
    const { agent, op } = given.action;
    if (!isEffect(op)) continue;
    const effects = byAgent.get(agent);
    if (effects === undefined) byAgent.set(agent, [given]);
    else effects.push(given);
  }
  return byAgent.values();
}

export function isCommand({ op }: Action): boolean {
  return op.kind === "exec" || op.kind === "git";
}
