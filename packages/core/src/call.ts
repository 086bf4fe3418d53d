import type { Call, CallOp, Op, PlanItem } from "@dev/protocol";
import { actionId, agentId, effectFamily, never } from "@dev/protocol";
import { toolName } from "./agent.ts";
import { confinement } from "./confine.ts";
import type { AgentDraft } from "./draft.ts";
import { tellPlan } from "./render.ts";
import { spawned } from "./spawn.ts";
import type { Agent, Slot, State } from "./state.ts";
import { clip } from "./text.ts";

/** Where the calls of one reply go. */
export type Placement = {
  /** One of each call. */
  readonly slots: readonly Slot[];
  /** Those that go out, in the order in which they get the next ids. */
  readonly ops: readonly Op[];
  /** The agents that they spawn; their ids are the next ones. */
  readonly agents: readonly AgentDraft[];
  readonly plan: readonly PlanItem[];
};

/** Places the calls of one reply: each goes out as an op, spawns an agent, or is answered in place. */
export function placed(state: State, agent: Agent, calls: readonly Call[]): Placement {
  const slots: Slot[] = [];
  const ops: Op[] = [];
  const agents: AgentDraft[] = [];
  let { plan } = agent;
  for (const { ref, op } of calls) {
    const place = placeOf(state, agent, op, agents.length);
    switch (place.kind) {
      case "out": {
        const family = place.op.kind === "question" ? "reply" : effectFamily(place.op);
        const action = actionId(state.nextAction + ops.length);
        slots.push({ kind: "waiting", ref, action, family });
        ops.push(place.op);
        break;
      }
      case "spawned":
        slots.push({ kind: "spawned", ref, agent: place.agent.id });
        agents.push(place.agent);
        break;
      case "answered": {
        const text = clip(place.text, state.config.limits.resultBytes);
        slots.push({ kind: "answered", ref, text, failed: place.failed });
        if (op.kind === "plan" && !place.failed) plan = op.items;
        break;
      }
      default:
        never(place);
    }
  }
  return { slots, ops, agents, plan };
}

type Place =
  | { readonly kind: "out"; readonly op: Extract<CallOp, Op> }
  | { readonly kind: "spawned"; readonly agent: AgentDraft }
  | { readonly kind: "answered"; readonly text: string; readonly failed: boolean };

/** Places one call; so many agents were spawned by those before it. */
function placeOf(state: State, agent: Agent, op: CallOp, spawnedCount: number): Place {
  const denied = denial(agent, op) ?? confinement(op);
  if (denied !== null) return failed(denied);
  switch (op.kind) {
    case "invalid":
      return failed(`${op.name}: ${op.reason}`);
    case "plan":
      return { kind: "answered", text: tellPlan(op.items), failed: false };
    case "spawn": {
      const id = agentId(state.nextAgent + spawnedCount);
      // The session's own agent is none of those that are counted.
      const atWorkCount = state.agents.length - 1 + spawnedCount;
      const made = spawned(state.config, agent, op, id, atWorkCount);
      return typeof made === "string" ? failed(made) : { kind: "spawned", agent: made };
    }
    case "question":
    case "read":
    case "search":
    case "write":
    case "patch":
    case "exec":
    case "git":
    case "browse":
    case "tool":
      return { kind: "out", op };
    default:
      return never(op);
  }
}

function failed(reason: string): Place {
  return { kind: "answered", text: `failed, nothing was done: ${reason}`, failed: true };
}

/** Why a sub-agent may not make this call: it was not given the tool. */
function denial(agent: Agent, op: CallOp): string | null {
  if (agent.parent === null || op.kind === "invalid") return null;
  const name = toolName(op);
  if (agent.tools.includes(name)) return null;
  const given = agent.tools.length === 0 ? "none" : agent.tools.join(", ");
  return `this agent was not given the tool ${name}; it was given ${given}`;
}

/**
 * Gives each call of a reply a ref of its own, where a model left one empty or used one twice: a
 * result names its call by its ref, and a provider refuses a conversation in which two are the same.
 */
export function distinct(calls: readonly Call[]): readonly Call[] {
  const refs = new Set<string>(calls.map((call) => call.ref));
  if (refs.size === calls.length && !refs.has("")) return calls;
  const taken = new Set<string>([""]);
  return calls.map((call, index) => {
    let { ref } = call;
    if (taken.has(ref)) {
      ref = `${ref}#${index}`;
      while (refs.has(ref) || taken.has(ref)) ref += "#";
    }
    taken.add(ref);
    return ref === call.ref ? call : { ...call, ref };
  });
}

/** How many replies of this turn in a row make just these calls, the one that is heard included. */
export function identical(agent: Agent, calls: readonly Call[]): number {
  const last = agent.messages.findLast((message) => message.kind === "assistant");
  return sameCalls(last?.calls ?? [], calls) ? agent.identicalCount + 1 : 1;
}

/** Whether two replies ask for the same, in the same order, whatever their refs. */
function sameCalls(a: readonly Call[], b: readonly Call[]): boolean {
  if (a.length !== b.length) return false;
  return a.every((call, index) => same(call.op, b[index]?.op));
}

/** Whether two values of plain data are the same; no field of such is undefined. */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const [left, right] = [a as Fields, b as Fields];
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => same(left[name], right[name]))
  );
}

type Fields = { readonly [name: string]: unknown };
