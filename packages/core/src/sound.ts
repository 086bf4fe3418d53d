import type { Message } from "@dev/protocol";
import { never } from "@dev/protocol";
import { type Agent, type State, UNHEARD_LIMIT } from "./state.ts";

/** Whether the parts of a state fit each other, so that no step from it can go wrong. */
export function isSound(state: State): boolean {
  const { config, turn, queue, agents, highestTurn } = state;
  const turns = [...(turn === null ? [] : [turn]), ...queue].map(({ id }) => id);
  if (!isRising(turns) || (turns.at(-1) ?? 0) > highestTurn) return false;
  const [root, ...others] = agents;
  if (root === undefined || root.id !== 0 || root.parent !== null || root.depth !== 0) return false;
  if (!isRising(agents.map(({ id }) => id)) || (agents.at(-1)?.id ?? 0) >= state.nextAgent) {
    return false;
  }
  const unheard = state.unheard.map(({ action }) => action);
  if (!isRising(unheard) || (unheard.at(-1) ?? 0) >= state.nextAction) return false;
  if (unheard.length > UNHEARD_LIMIT) return false;
  // Without a turn nothing is at work and nothing waits.
  if (turn === null && (others.length > 0 || queue.length > 0)) return false;
  const isAtWork = (agent: Agent): boolean => (agent.phase.kind === "idle") === (turn === null);
  const isKnown = ({ kind }: Agent): boolean =>
    kind === "" || config.agents.some(({ name }) => name === kind);
  return (
    agents.every((agent) => isAtWork(agent) && isKnown(agent) && isWhole(agent, state)) &&
    others.every((agent) => hasParent(agent, agents))
  );
}

/** Whether an agent's phase fits its conversation, and waits only for what there is. */
function isWhole(agent: Agent, { nextAction, agents }: State): boolean {
  const { phase, messages, told, summary } = agent;
  if (told > messages.length || (summary !== "none" && messages[0]?.kind !== "user")) return false;
  switch (phase.kind) {
    case "idle":
      return isPaired(messages);
    case "asking":
      return isPaired(messages) && told === messages.length && phase.action < nextAction;
    case "compacting": {
      const { cut, action } = phase;
      const first = messages[cut];
      const isCut = cut > 0 && first !== undefined && first.kind !== "tool";
      return isPaired(messages) && isCut && told === 0 && action < nextAction;
    }
    case "acting": {
      const last = messages.at(-1);
      const refs = last?.kind === "assistant" ? last.calls.map(({ ref }) => ref) : [];
      const { slots } = phase;
      return (
        isPaired(messages.slice(0, -1)) &&
        slots.length === refs.length &&
        slots.every((slot, index) => slot.ref === refs[index]) &&
        slots.some(({ kind }) => kind !== "answered") &&
        slots.every((slot) => slot.kind !== "waiting" || slot.action < nextAction) &&
        slots.every((slot) => slot.kind !== "spawned" || isChild(slot.agent, agent, agents))
      );
    }
    default:
      return never(phase);
  }
}

function isChild(id: number, parent: Agent, agents: readonly Agent[]): boolean {
  return agents.some((agent) => agent.id === id && agent.parent === parent.id);
}

/** Whether a sub-agent's parent waits for it, in one place, and has what it was given. */
function hasParent(agent: Agent, agents: readonly Agent[]): boolean {
  const parent = agents.find(({ id }) => id === agent.parent && id < agent.id);
  if (parent?.phase.kind !== "acting" || agent.depth !== parent.depth + 1) return false;
  const places = parent.phase.slots.filter(
    (slot) => slot.kind === "spawned" && slot.agent === agent.id,
  );
  return places.length === 1 && agent.tools.every((name) => parent.tools.includes(name));
}

/** Whether every call is followed by its result, and by nothing before. */
function isPaired(messages: readonly Message[]): boolean {
  let due: readonly string[] = [];
  for (const message of messages) {
    if (message.kind === "tool") {
      if (due[0] !== message.ref) return false;
      due = due.slice(1);
    } else if (due.length > 0) return false;
    else if (message.kind === "assistant") due = message.calls.map(({ ref }) => ref);
  }
  return due.length === 0;
}

function isRising(ids: readonly number[]): boolean {
  return ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0));
}
