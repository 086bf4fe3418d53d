import { type Config, DEFAULT_LIMITS } from "@dev/core";
import type { Session } from "@dev/host";
import {
  type Action,
  type CallOp,
  type Event,
  type FaultCode,
  type ModelEvent,
  NO_USAGE,
  type Result,
  turnId,
} from "@dev/protocol";

export const CONFIG: Config = {
  model: "local/any",
  effort: "default",
  prelude: "You are Dev.",
  tools: [{ name: "run", description: "Runs a program.", parameters: "{}" }],
  limits: DEFAULT_LIMITS,
  windowTokens: 0,
  images: false,
  agents: [],
};

export const TIMER: Event = { kind: "timer" };

export function turn(id: number, prompt = `prompt ${id}`): Event {
  return { kind: "turn", id: turnId(id), prompt, images: [], mode: "ask" };
}

/** The model's answer to action `id`: this text, and a call of each op. */
export function says(id: number, text: string, ...ops: readonly CallOp[]): ModelEvent {
  const calls = ops.map((op, index) => ({ ref: `c${index}`, op }));
  return {
    kind: "model",
    id: id as ModelEvent["id"],
    answer: { kind: "reply", text, reasoning: "", calls, stop: "end", opaque: "" },
    usage: NO_USAGE,
    costMicroUsd: 0,
  };
}

function run(...argv: readonly string[]): CallOp {
  return { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
}

export function ran(id: number, known: string): Event {
  return { kind: "exec", id: id as ModelEvent["id"], outcome: { kind: "unknown", known } };
}

/** A session's work: a turn with two calls, their results, and an answer. */
export const WORK: readonly Event[] = [
  turn(1, "naïve ✓ 🜁"),
  says(1, "look", run("a"), run("b")),
  { kind: "steer", text: "use tabs" },
  ran(4, "two"),
  turn(2),
  ran(3, "one"),
  TIMER,
  says(5, "done"),
  { kind: "cancel", turn: turnId(2) },
];

/** Steps through events, and answers all actions. */
export function work(session: Session, events: readonly Event[]): readonly Action[] {
  return events.flatMap((event) => value(session.step(event)));
}

export function value<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(`${result.fault.code}: ${result.fault.message}`);
  return result.value;
}

/** The code of a fault, or `ok`. */
export function code(result: Result<unknown>): FaultCode | "ok" {
  return result.ok ? "ok" : result.fault.code;
}
