import type { ActionId, Call, Op } from "@dev/protocol";
import { effectFamily, never } from "@dev/protocol";
import { confinement } from "./confine.ts";
import type { Slot } from "./state.ts";

/** Where a call goes: out as an op, or answered in place. */
export type Placed = { readonly slot: Slot; readonly op: Op | null };

/** Places one call of a reply; `action` is the id its op gets if it becomes one. */
export function place(call: Call, action: ActionId): Placed {
  const { ref, op } = call;
  const denied = confinement(op);
  if (denied !== null) return answered(ref, `failed, nothing was done: ${denied}`, true);
  switch (op.kind) {
    case "invalid":
      return answered(ref, `failed, nothing was done: ${op.name}: ${op.reason}`, true);
    case "plan":
      return answered(ref, `the plan has ${op.items.length} items`, false);
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

/** The calls without their refs, as text: equal for calls that ask for the same. */
export function callsText(calls: readonly Call[]): string {
  return JSON.stringify(calls.map((call) => call.op));
}
