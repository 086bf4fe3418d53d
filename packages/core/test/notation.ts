import { type Config, create, DEFAULT_LIMITS, type Limits, type State, step } from "@dev/core";
import {
  type Action,
  type ActionId,
  type CallOp,
  type CancelEvent,
  type Digest,
  type EffectEvent,
  type Event,
  type ExecOp,
  fault,
  type Message,
  type ModelEvent,
  NO_USAGE,
  type Outcome,
  type ReadOp,
  type ReplyEvent,
  type SteerEvent,
  type TurnEvent,
  type TurnId,
  type Usage,
} from "@dev/protocol";

/*
 * A notation for scenarios: events are made by short functions, `play` takes them in order, and what
 * came of it is lines of text, such as `3 exec ls` or `5 done 1 complete`.
 */

export const CONFIG: Config = {
  model: "local/any",
  effort: "default",
  prelude: "You are Dev.",
  tools: [{ name: "run", description: "Runs a program.", parameters: "{}" }],
  limits: DEFAULT_LIMITS,
};

export function limited(limits: Partial<Limits>): Config {
  return { ...CONFIG, limits: { ...DEFAULT_LIMITS, ...limits } };
}

export type Played = {
  readonly state: State;
  /** Every action, as a line; `last` has those of the last event alone. */
  readonly lines: readonly string[];
  readonly last: readonly string[];
  readonly actions: readonly Action[];
  /** The conversation, a line a message. */
  readonly talk: readonly string[];
};

export function play(config: Config, ...events: readonly Event[]): Played {
  return resume(create(config), ...events);
}

export function resume(from: State, ...events: readonly Event[]): Played {
  let state = from;
  let last: readonly Action[] = [];
  const actions: Action[] = [];
  for (const event of events) {
    const stepped = step(state, event);
    state = stepped.state;
    last = stepped.actions;
    actions.push(...last);
  }
  return {
    state,
    actions,
    lines: actions.map(line),
    last: last.map(line),
    talk: state.agent.messages.map(spoken),
  };
}

function line({ id, op }: Action): string {
  switch (op.kind) {
    case "model":
      return `${id} model from ${op.from}: ${op.messages.map(spoken).join(", ")}`;
    case "exec":
    case "git":
      return `${id} ${op.kind} ${op.argv.join(" ")}`;
    case "read":
    case "write":
    case "patch":
    case "search":
      return `${id} ${op.kind} ${op.path}`;
    case "browse":
      return `${id} browse ${op.url}`;
    case "tool":
      return `${id} tool ${op.name}`;
    case "question":
    case "emit":
      return `${id} ${op.kind} ${op.text}`;
    case "save":
      return `${id} save`;
    case "done":
      return `${id} done ${op.turn} ${op.outcome}${op.reason === "" ? "" : `: ${op.reason}`}`;
  }
}

function spoken(message: Message): string {
  switch (message.kind) {
    case "user":
      return `user ${message.text}`;
    case "assistant":
      return `assistant ${[message.text, ...message.calls.map((call) => `[${call.ref}]`)].join("")}`;
    case "tool":
      return `tool ${message.ref} ${message.failed ? "failed" : "ok"}: ${message.text}`;
  }
}

export function turn(id: number, prompt = `prompt ${id}`): TurnEvent {
  return { kind: "turn", id: id as TurnId, prompt, images: [], mode: "ask" };
}

/** The model's answer to action `id`, without calls. */
export function says(id: number, text: string, usage: Usage = NO_USAGE): ModelEvent {
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "reply", text, reasoning: "", calls: [], stop: "end" },
    usage,
  };
}

/** The model's answer to action `id`: these calls, with the refs `a`, `b` and so on. */
export function calls(id: number, ...ops: readonly CallOp[]): ModelEvent {
  const made = ops.map((op, index) => ({ ref: String.fromCharCode(97 + index), op }));
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "reply", text: "", reasoning: "", calls: made, stop: "calls" },
    usage: NO_USAGE,
  };
}

export function modelFailed(id: number): ModelEvent {
  const what = fault("unreachable", "no answer", "http://127.0.0.1:1", "start it");
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "failed", fault: what, partial: "half a" },
    usage: NO_USAGE,
  };
}

export function modelStopped(id: number, partial: string): ModelEvent {
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "cancelled", partial },
    usage: NO_USAGE,
  };
}

export function run(...argv: readonly string[]): ExecOp {
  return { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
}

export function read(path: string): ReadOp {
  return { kind: "read", path, from: 0, to: 0 };
}

/** The outcome of `run`: it wrote this, and exited with 0. */
export function ran(id: number, stdout = ""): EffectEvent {
  return exec(id, {
    kind: "ok",
    result: {
      kind: "exec",
      end: { kind: "exit", code: 0 },
      stdout,
      stderr: "",
      stdoutCutBytes: 0,
      stderrCutBytes: 0,
      durationMs: 5,
      outputPath: "",
    },
  });
}

export function exec(id: number, outcome: Outcome): EffectEvent {
  return { kind: "exec", id: id as ActionId, outcome };
}

/** The outcome of `read`. */
export function had(id: number, text: string): EffectEvent {
  return {
    kind: "file",
    id: id as ActionId,
    outcome: {
      kind: "ok",
      result: {
        kind: "read",
        text,
        lossy: false,
        sizeBytes: text.length,
        lineCount: 1,
        digest: "ab".repeat(32) as Digest,
        cut: false,
      },
    },
  };
}

export function chose(id: number, ...choices: readonly string[]): ReplyEvent {
  return { kind: "reply", id: id as ActionId, text: "", choices };
}

export function steer(text: string): SteerEvent {
  return { kind: "steer", text };
}

export function cancel(id: number): CancelEvent {
  return { kind: "cancel", turn: id as TurnId };
}

export const TIMER: Event = { kind: "timer" };
