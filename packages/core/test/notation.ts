import {
  type Agent,
  type Config,
  create,
  DEFAULT_LIMITS,
  type Limits,
  type Slot,
  type State,
  step,
} from "@dev/core";
import {
  type Action,
  type ActionId,
  type CallOp,
  type CancelEvent,
  type Digest,
  type EffectEvent,
  type Event,
  type ExecOp,
  type FaultCode,
  fault,
  type Message,
  type ModelEvent,
  NO_USAGE,
  type Outcome,
  type ReadOp,
  type ReplyEvent,
  type SpawnOp,
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
  windowTokens: 0,
  images: false,
  agents: [],
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
  /** The conversation of the session's own agent, a line a message. */
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
    talk: root(state).messages.map(spoken),
  };
}

/** The session's own agent. */
export function root(state: State): Agent {
  const [first] = state.agents;
  if (first === undefined) throw new Error("a session has an agent");
  return first;
}

/** The actions of the models that are asked, by their agents. */
export function asked(state: State): readonly ActionId[] {
  return state.agents.flatMap(({ phase }) => ("action" in phase ? [phase.action] : []));
}

/** The calls that wait for a result, by their agents. */
export function waiting(state: State): readonly Extract<Slot, { readonly kind: "waiting" }>[] {
  const slots = state.agents.flatMap(({ phase }) => (phase.kind === "acting" ? phase.slots : []));
  return slots.filter((slot) => slot.kind === "waiting");
}

/** An action as a line; that of a sub-agent says whose it is. */
function line({ id: number, agent, op }: Action): string {
  const id = agent === 0 ? `${number}` : `${number} @${agent}`;
  switch (op.kind) {
    case "model": {
      const purpose = op.purpose === "turn" ? "model" : op.purpose;
      return `${id} ${purpose} from ${op.from}: ${op.messages.map(spoken).join(", ")}`;
    }
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

/** What kind of action it is, and whether a sub-agent's. */
export function named({ agent, op }: Action): string {
  const what = op.kind === "done" ? `done ${op.outcome}` : op.kind;
  const name = op.kind === "model" ? op.purpose : what;
  return agent === 0 ? name : `a sub-agent's ${name}`;
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
    answer: { kind: "reply", text, reasoning: "", calls: [], stop: "end", opaque: "" },
    usage,
    costMicroUsd: 0,
  };
}

/** The model's answer to action `id`: these calls, with the refs `a`, `b` and so on. */
export function calls(id: number, ...ops: readonly CallOp[]): ModelEvent {
  const made = ops.map((op, index) => ({ ref: String.fromCharCode(97 + index), op }));
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "reply", text: "", reasoning: "", calls: made, stop: "calls", opaque: "" },
    usage: NO_USAGE,
    costMicroUsd: 0,
  };
}

/** The same answer, as one that used so many tokens. */
export function using(tokenCount: number, event: ModelEvent): ModelEvent {
  return { ...event, usage: { ...NO_USAGE, inputTokens: tokenCount } };
}

export function modelFailed(id: number, code: FaultCode = "unreachable"): ModelEvent {
  const what = fault(code, "no answer", "http://127.0.0.1:1", "start it");
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "failed", fault: what, partial: "half a" },
    usage: NO_USAGE,
    costMicroUsd: 0,
  };
}

export function modelStopped(id: number, partial: string): ModelEvent {
  return {
    kind: "model",
    id: id as ActionId,
    answer: { kind: "cancelled", partial },
    usage: NO_USAGE,
    costMicroUsd: 0,
  };
}

export function run(...argv: readonly string[]): ExecOp {
  return { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
}

export function spawn(prompt: string, agent = "", tools: readonly string[] = []): SpawnOp {
  return { kind: "spawn", prompt, agent, tools };
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
