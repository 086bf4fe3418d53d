import type { ActionId, Call, Op } from "@dev/protocol";
import { effectFamily, never } from "@dev/protocol";
import { confinement } from "./confine.ts";
import { clip, tellPlan } from "./render.ts";
import type { Slot } from "./state.ts";

/** Where a call goes: out as an op, or answered in place. */
export type Placed = { readonly slot: Slot; readonly op: Op | null };

/** Places one call of a reply; `action` is the id its op gets if it becomes one. */
export function place(call: Call, action: ActionId, resultBytes: number): Placed {
  const { ref, op } = call;
  const denied = confinement(op);
  if (denied !== null) return answered(ref, `failed, nothing was done: ${denied}`, true);
  switch (op.kind) {
    case "invalid": {
      const text = `failed, nothing was done: ${op.name}: ${op.reason}`;
      return answered(ref, clip(text, resultBytes), true);
    }
    case "plan":
      return answered(ref, clip(tellPlan(op.items), resultBytes), false);
    case "spawn":
      return answered(ref, "failed, nothing was done: there are no sub-agents here", true);
    case "question":
      return { slot: { kind: "waiting", ref, action, family: "reply" }, op };
    case "read":
    case "search":
    case "write":
    case "patch":
    case "exec":
    case "git":
    case "browse":
    case "tool":
      return { slot: { kind: "waiting", ref, action, family: effectFamily(op) }, op };
    default:
      return never(op);
  }
}

function answered(ref: string, text: string, failed: boolean): Placed {
  return { slot: { kind: "answered", ref, text, failed }, op: null };
}

/**
 * Gives each call of a reply a ref of its own, where a model left one empty or used one twice: a
 * result names its call by its ref, and a provider refuses a conversation in which two are the same.
 */
export function distinct(calls: readonly Call[]): readonly Call[] {
  const refs = new Set<string>(calls.map((call) => call.ref));
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

/** Whether two replies ask for the same, in the same order, whatever their refs. */
export function sameCalls(a: readonly Call[], b: readonly Call[]): boolean {
  if (a.length !== b.length) return false;
  return a.every((call, index) => JSON.stringify(call.op) === JSON.stringify(b[index]?.op));
}
