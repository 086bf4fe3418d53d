import type {
  Action,
  ActionId,
  AgentId,
  CallOp,
  DoneOp,
  ModelEvent,
  ModelOp,
  Op,
  TurnId,
} from "@dev/protocol";
import { NO_USAGE } from "@dev/protocol";

/** An action of an agent in a turn. */
export function action(id: number, op: Op, { agent = 0, turn = 1 } = {}): Action {
  return { id: id as ActionId, agent: agent as AgentId, turn: turn as TurnId, op };
}

export function asks(text: string, purpose: ModelOp["purpose"] = "turn"): ModelOp {
  return {
    kind: "model",
    purpose,
    model: "p/m",
    effort: "default",
    from: 0,
    prelude: "",
    messages: [{ kind: "user", text, images: [] }],
    tools: [],
  };
}

/** The answer to an action; every token and millionth counts as one. */
export function replies(
  { id }: Action,
  text: string,
  calls: readonly CallOp[] = [],
  costMicroUsd = 1,
): ModelEvent {
  return {
    kind: "model",
    id,
    answer: {
      kind: "reply",
      text,
      reasoning: "",
      calls: calls.map((op, index) => ({ ref: `${id}_${index}`, op })),
      stop: calls.length === 0 ? "end" : "calls",
      opaque: "",
    },
    usage: { ...NO_USAGE, inputTokens: 1, outputTokens: 1 },
    costMicroUsd,
  };
}

export function spawns(prompt: string, agent = ""): CallOp {
  return { kind: "spawn", prompt, agent, tools: [] };
}

export function done(turn: number, outcome: DoneOp["outcome"] = "complete"): DoneOp {
  return { kind: "done", turn: turn as TurnId, outcome, reason: "" };
}

export const EXEC: Extract<Op, { kind: "exec" }> = {
  kind: "exec",
  argv: ["true"],
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
};
