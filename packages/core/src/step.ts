import type {
  Action,
  AssistantMessage,
  Call,
  DoneOp,
  EffectEvent,
  Event,
  ModelAnswer,
  ModelEvent,
  Op,
  ReplyEvent,
  TurnEvent,
  TurnId,
} from "@dev/protocol";
import { actionId, never } from "@dev/protocol";
import { distinct, place, sameCalls } from "./call.ts";
import { messageSize, prompted, pushed } from "./conversation.ts";
import { askLimit, callLimit, promptLimit, queueLimit, steered } from "./limit.ts";
import { clip, tell, tellFault, tellReply } from "./render.ts";
import type { Agent, Slot, State, Turn } from "./state.ts";

/** What a step answers: the next state, and what is to be done. */
export type Step = { readonly state: State; readonly actions: readonly Action[] };

/**
 * Takes one event. An event that was taken before, or that nothing waits for, changes nothing and
 * answers no actions, so delivering any event twice is safe. (A steer has no id: it is known again
 * for as long as the model has not been told of it.)
 */
export function step(state: State, event: Event): Step {
  switch (event.kind) {
    case "turn":
      return accept(state, event);
    case "model":
      return hear(state, event);
    case "exec":
    case "file":
    case "git":
    case "browse":
    case "tool":
    case "reply":
      return land(state, event);
    case "timer":
      return state.dirty ? mint({ ...state, dirty: false }, [SAVE]) : still(state);
    case "steer": {
      const steers = steered(state.steers, event.text, state.config.limits);
      return still(steers === state.steers ? state : { ...state, steers, dirty: true });
    }
    case "cancel":
      return cancel(state, event.turn);
    default:
      return never(event);
  }
}

const SAVE: Op = { kind: "save" };

function still(state: State): Step {
  return { state, actions: [] };
}

/** Takes a turn: begins it, or puts it behind the one in flight. */
function accept(state: State, event: TurnEvent): Step {
  if (event.id <= state.highestTurn) return still(state);
  const accepted = { ...state, highestTurn: event.id, dirty: true };
  if (state.turn === null) return begin(accepted, event);
  const over = queueLimit(state, event);
  if (over !== null) return mint(accepted, [done(event.id, "limit", over)]);
  return still({ ...accepted, queue: [...state.queue, event] });
}

function begin(state: State, event: TurnEvent): Step {
  const turn: Turn = { id: event.id, modelCallCount: 0, identicalCount: 0 };
  const begun: State = { ...state, turn };
  const prompt = prompted(event);
  const over = promptLimit(state, prompt, []);
  if (over !== null) return finish(begun, "limit", over);
  if (prompt.text !== "" || prompt.images.length > 0) {
    return ask({ ...begun, agent: pushed(state.agent, [prompt]) });
  }
  if (state.agent.messages.length > 0 || state.steers.length > 0) return ask(begun);
  return finish(begun, "failed", "there is nothing to go on with: the prompt is empty");
}

/** Asks the model to go on: tells the host the messages that it has not been told yet. */
function ask(state: State): Step {
  const { config, turn } = state;
  if (turn === null) throw new Error("a model is asked only in a turn");
  const steers = state.steers.map((text) => ({ kind: "user", text, images: [] }) as const);
  const agent = pushed(state.agent, steers);
  const over = askLimit(state, turn, agent.messageBytes);
  if (over !== null) return finish(state, "limit", over);
  const from = agent.told;
  const op: Op = {
    kind: "model",
    purpose: "turn",
    model: config.model,
    effort: config.effort,
    from,
    prelude: from === 0 ? config.prelude : "",
    messages: agent.messages.slice(from),
    tools: from === 0 ? config.tools : [],
  };
  return mint(
    {
      ...state,
      steers: [],
      turn: { ...turn, modelCallCount: turn.modelCallCount + 1 },
      agent: {
        ...agent,
        told: agent.messages.length,
        phase: { kind: "asking", action: actionId(state.nextAction) },
      },
      dirty: true,
    },
    [op],
  );
}

/** Hears a model's answer. */
function hear(state: State, event: ModelEvent): Step {
  const { phase } = state.agent;
  if (phase.kind !== "asking" || phase.action !== event.id) return still(state);
  const heard: State = {
    ...state,
    tokenCount: state.tokenCount + event.usage.inputTokens + event.usage.outputTokens,
    agent: { ...state.agent, phase: { kind: "idle" } },
    dirty: true,
  };
  const { answer } = event;
  const { messageBytes } = state.config.limits;
  switch (answer.kind) {
    case "failed": {
      const { code } = answer.fault;
      const isLimit = code === "too_large" || code === "limit";
      return finish(heard, isLimit ? "limit" : "failed", tellFault(answer.fault));
    }
    case "cancelled": {
      const text = clip(answer.partial, messageBytes);
      const partial = { kind: "assistant", text, reasoning: "", calls: [] } as const;
      return finish(said(heard, partial), "cancelled", "the model was stopped");
    }
    case "reply":
      break;
    default:
      return never(answer);
  }
  const { text, reasoning, stop } = answer;
  // What a model that refuses had begun to call is not what it asks for.
  const calls = stop === "refusal" ? [] : distinct(answer.calls);
  const message = { kind: "assistant", text, reasoning, calls } as const;
  const sizeBytes = messageSize(message);
  if (sizeBytes > messageBytes) {
    const over = `messageBytes: the reply has ${sizeBytes} bytes, of ${messageBytes}`;
    return finish(heard, "limit", over);
  }
  const after = said(heard, message);
  const emitted = mint(after, text === "" ? [] : [{ kind: "emit", text }]);
  const next =
    calls.length > 0
      ? act(emitted.state, calls, identical(heard, calls))
      : finish(emitted.state, ...end(stop));
  return { state: next.state, actions: [...emitted.actions, ...next.actions] };
}

/** How a reply without calls ends its turn, and why. */
function end(stop: ModelReply["stop"]): [outcome: DoneOp["outcome"], reason: string] {
  switch (stop) {
    case "end":
    case "calls":
      return ["complete", ""];
    case "length":
      return ["limit", "the model reached its own limit on a reply's length"];
    case "refusal":
      return ["failed", "the model refused to answer"];
    default:
      return never(stop);
  }
}

type ModelReply = Extract<ModelAnswer, { readonly kind: "reply" }>;

/** Puts an assistant's message into the conversation; one that says nothing is left out. */
function said(state: State, message: AssistantMessage): State {
  if (message.text === "" && message.calls.length === 0) return state;
  return { ...state, agent: pushed(state.agent, [message]) };
}

/** How many replies of this turn in a row make just these calls, the one that is heard included. */
function identical({ turn, agent }: State, calls: readonly Call[]): number {
  const last = agent.messages.findLast((message) => message.kind === "assistant");
  return sameCalls(last?.calls ?? [], calls) ? (turn?.identicalCount ?? 0) + 1 : 1;
}

/** Sends the calls of one reply out together. */
function act(state: State, calls: readonly Call[], identicalCount: number): Step {
  const { turn, config } = state;
  if (turn === null) throw new Error("a reply is heard only in a turn");
  const counted: State = { ...state, turn: { ...turn, identicalCount } };
  const over = callLimit(config.limits, calls, identicalCount);
  if (over !== null) return finish(answerAll(counted, calls, `not run: ${over}`), "limit", over);
  let plan = counted.plan;
  const slots: Slot[] = [];
  const ops: Op[] = [];
  for (const call of calls) {
    const id = actionId(counted.nextAction + ops.length);
    const placed = place(call, id, config.limits.resultBytes);
    slots.push(placed.slot);
    if (placed.op !== null) ops.push(placed.op);
    if (call.op.kind === "plan") plan = call.op.items;
  }
  const minted = mint(
    { ...counted, plan, agent: { ...counted.agent, phase: { kind: "acting", slots } } },
    ops,
  );
  const joined = join(minted.state);
  return { state: joined.state, actions: [...minted.actions, ...joined.actions] };
}

/** Lands the result of a call; when it was the last one out, the model is asked again. */
function land(state: State, event: EffectEvent | ReplyEvent): Step {
  const { phase } = state.agent;
  if (phase.kind !== "acting") return still(state);
  let landed = false;
  const slots = phase.slots.map((slot): Slot => {
    if (slot.kind !== "waiting" || slot.action !== event.id || slot.family !== event.kind) {
      return slot;
    }
    landed = true;
    const told =
      event.kind === "reply"
        ? tellReply(event, state.config.limits.resultBytes)
        : tell(event.outcome, state.config.limits.resultBytes);
    return { kind: "answered", ref: slot.ref, ...told };
  });
  if (!landed) return still(state);
  return join({
    ...state,
    agent: { ...state.agent, phase: { kind: "acting", slots } },
    dirty: true,
  });
}

/** When every call has its result, folds them into the conversation in order and asks again. */
function join(state: State): Step {
  const { phase } = state.agent;
  if (phase.kind !== "acting" || phase.slots.some((slot) => slot.kind === "waiting")) {
    return still(state);
  }
  return ask({ ...state, agent: folded(state.agent, phase.slots, "") });
}

/** Folds slots into tool messages; those still waiting get `missing`. */
function folded(agent: Agent, slots: readonly Slot[], missing: string): Agent {
  const messages = slots.map((slot) => ({
    kind: "tool" as const,
    ref: slot.ref,
    text: slot.kind === "answered" ? slot.text : missing,
    failed: slot.kind === "answered" ? slot.failed : true,
  }));
  return { ...pushed(agent, messages), phase: { kind: "idle" } };
}

function answerAll(state: State, calls: readonly Call[], text: string): State {
  const slots = calls.map(
    (call): Slot => ({ kind: "answered", ref: call.ref, text, failed: true }),
  );
  return { ...state, agent: folded(state.agent, slots, "") };
}

/** Stops a turn and what is queued behind it; every call of it gets a tool message. */
function cancel(state: State, turn: TurnId): Step {
  const inFlight = state.turn?.id === turn;
  const at = inFlight ? 0 : state.queue.findIndex((queued) => queued.id === turn);
  if (at < 0) return still(state);
  const dropped = state.queue
    .slice(at)
    .map((queued) => done(queued.id, "cancelled", `turn ${turn} was cancelled`));
  const kept: State = { ...state, queue: state.queue.slice(0, at), dirty: true };
  if (!inFlight) return mint(kept, dropped);
  const { phase } = kept.agent;
  const agent =
    phase.kind === "acting"
      ? folded(kept.agent, phase.slots, "cancelled: it was stopped; what it had done stays done.")
      : ({ ...kept.agent, phase: { kind: "idle" } } as const);
  const ended = finish({ ...kept, agent }, "cancelled", "it was cancelled");
  const rest = mint(ended.state, dropped);
  return { state: rest.state, actions: [...ended.actions, ...rest.actions] };
}

/** Ends the turn in flight, and begins the next one that waits. */
function finish(state: State, outcome: DoneOp["outcome"], reason: string): Step {
  if (state.turn === null) throw new Error("only a turn in flight ends");
  const { id } = state.turn;
  const ended = mint({ ...state, dirty: false }, [SAVE, done(id, outcome, reason)]);
  const [next, ...queue] = state.queue;
  const idle: State = { ...ended.state, turn: null, queue };
  if (next === undefined) return { state: idle, actions: ended.actions };
  const begun = begin(idle, next);
  return { state: begun.state, actions: [...ended.actions, ...begun.actions] };
}

function done(turn: TurnId, outcome: DoneOp["outcome"], reason: string): DoneOp {
  return { kind: "done", turn, outcome, reason };
}

/** Gives ops their ids. What a `done` names is its turn; the rest belongs to the one in flight. */
function mint(state: State, ops: readonly Op[]): Step {
  const turn = state.turn?.id ?? (state.highestTurn as TurnId);
  const actions = ops.map((op, index): Action => {
    const owner = op.kind === "done" ? op.turn : turn;
    return { id: actionId(state.nextAction + index), agent: state.agent.id, turn: owner, op };
  });
  return { state: { ...state, nextAction: state.nextAction + ops.length }, actions };
}
