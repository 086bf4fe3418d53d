import type { EffectEvent } from "./event.ts";
import { never } from "./fault.ts";
import type { ActionId, AgentId, TurnId } from "./id.ts";
import type { EffectOp, Op } from "./op.ts";

/** What the core asks for. Its id names it for ever: in the ledger, in the spool, in its answer. */
export type Action = {
  readonly id: ActionId;
  readonly agent: AgentId;
  readonly turn: TurnId;
  readonly op: Op;
};

/** The kind of event that answers an op. */
export type Family = "model" | "reply" | EffectEvent["kind"] | "none";

export function familyOf(op: Op): Family {
  switch (op.kind) {
    case "model":
      return "model";
    case "question":
      return "reply";
    case "emit":
    case "save":
    case "done":
      return "none";
    default:
      return effectFamily(op);
  }
}

export function effectFamily(op: EffectOp): EffectEvent["kind"] {
  switch (op.kind) {
    case "read":
    case "search":
    case "write":
    case "patch":
      return "file";
    case "exec":
      return "exec";
    case "git":
      return "git";
    case "browse":
      return "browse";
    case "tool":
      return "tool";
    default:
      return never(op);
  }
}

export function isEffect(op: Op): op is EffectOp {
  const family = familyOf(op);
  return family !== "none" && family !== "model" && family !== "reply";
}
