import type { Action } from "@dev/protocol";
import type { Agent, State } from "./state.ts";

/**
 * A step while it is taken: the state and the actions that it will answer. It is changed in place, as
 * an engine that interprets takes longer to copy a state than to change it. All that it begins with
 * is its own, so the state before stays as it was, and so does this one when the step has ended.
 * What lies deeper than the fields of a state and its agents is shared, and replaced as a whole.
 */
export type Draft = { readonly state: StateDraft; readonly actions: Action[] };

export type StateDraft = Changing<Omit<State, "agents">> & { agents: readonly AgentDraft[] };

export type AgentDraft = Changing<Agent>;

type Changing<T> = { -readonly [Name in keyof T]: T[Name] };

/** Begins a step from a state. */
export function drafted(state: State): Draft {
  const agents = state.agents.map((agent): AgentDraft => ({ ...agent }));
  return { state: { ...state, agents }, actions: [] };
}
