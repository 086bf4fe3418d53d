import type {
  Action,
  Call,
  DoneOp,
  EffectEvent,
  Event,
  ModelEvent,
  Op,
  ReplyEvent,
  TurnEvent,
  TurnId,
} from "@dev/protocol";
import { actionId, never } from "@dev/protocol";
import { callsText, place } from "./call.ts";
import { messageSize, pushed } from "./conversation.ts";
import { exceeds, tell, tellFault, tellReply } from "./render.ts";
import type { Agent, Slot, State, Turn } from "./state.ts";

/** What a step answers: the next state, and what is to be done. */
export type Step = { readonly state: State; readonly actions: readonly Action[] };

/**
 * Takes one event. An event that was taken before, or that nothing waits for, changes nothing and
 * answers no actions, so delivering any event twice is safe.
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
    case "steer":
      return still({ ...state, steers: steered(state, event.text), dirty: true });
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
  const limit = state.config.limits.queuedTurns;
  if (state.queue.length < limit) return still({ ...accepted, queue: [...state.queue, event] });
  return mint(accepted, [
    done(event.id, "limit", `queuedTurns: ${limit} turns are waiting already`),
  ]);
}

function begin(state: State, event: TurnEvent): Step {
  const { limits } = state.config;
  const turn: Turn = { id: event.id, modelCallCount: 0, lastCalls: "", identicalCount: 0 };
  if (exceeds(event.prompt, limits.messageBytes)) {
    const reason = `messageBytes: the prompt is over ${limits.messageBytes} bytes`;
    return finish({ ...state, turn }, "limit", reason);
  }
  const empty = event.prompt === "" && event.images.length === 0;
  if (empty && state.agent.messages.length === 0) {
    return finish(
      { ...state, turn },
      "failed",
      "there is nothing to go on with: the prompt is empty",
    );
  }
  const agent = empty
    ? state.agent
    : pushed(state.agent, [{ kind: "user", text: event.prompt, images: event.images }]);
  return ask({ ...state, turn, agent });
}

/** Asks the model to go on: tells the host the messages that it has not been told yet. */
function ask(state: State): Step {
  const { config, turn } = state;
  const { limits } = config;
  if (turn === null) throw new Error("a model is asked only in a turn");
  if (turn.modelCallCount >= limits.modelCallsPerTurn) {
    return finish(state, "limit", `modelCallsPerTurn: ${limits.modelCallsPerTurn} were made`);
  }
  if (limits.tokensPerSession > 0 && state.tokenCount >= limits.tokensPerSession) {
    return finish(
      state,
      "limit",
      `tokensPerSession: ${state.tokenCount} of ${limits.tokensPerSession} are used`,
    );
  }
  const steers = state.steers.map((text) => ({ kind: "user", text, images: [] }) as const);
  const agent = pushed(state.agent, steers);
  if (agent.messageBytes > limits.conversationBytes) {
    const reason = `conversationBytes: ${agent.messageBytes} of ${limits.conversationBytes} are used`;
    return finish({ ...state, agent, steers: [] }, "limit", reason);
  }
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
  switch (answer.kind) {
    case "failed":
      return finish(heard, "failed", tellFault(answer.fault));
    case "cancelled":
      return finish(said(heard, answer.partial, "", []), "cancelled", "the model was stopped");
    case "reply":
      break;
    default:
      return never(answer);
  }
  const message = { kind: "assistant", text: answer.text, reasoning: answer.reasoning } as const;
  const { limits } = state.config;
  if (messageSize({ ...message, calls: answer.calls }) > limits.messageBytes) {
    return finish(heard, "limit", `messageBytes: the reply is over ${limits.messageBytes} bytes`);
  }
  const after = said(heard, answer.text, answer.reasoning, answer.calls);
  const spoken: readonly Op[] = answer.text === "" ? [] : [{ kind: "emit", text: answer.text }];
  if (answer.calls.length > 0) return act(after, answer.calls, spoken);
  const emitted = mint(after, spoken);
  const ended =
    answer.stop === "refusal"
      ? finish(emitted.state, "failed", "the model refused to answer")
      : answer.stop === "length"
        ? finish(emitted.state, "limit", "the model reached its own limit on a reply's length")
        : finish(emitted.state, "complete", "");
  return { state: ended.state, actions: [...emitted.actions, ...ended.actions] };
}

/** Puts an assistant's message into the conversation; one that says nothing is left out. */
function said(state: State, text: string, reasoning: string, calls: readonly Call[]): State {
  if (text === "" && calls.length === 0) return state;
  return { ...state, agent: pushed(state.agent, [{ kind: "assistant", text, reasoning, calls }]) };
}

/** Sends the calls of one reply out together. */
function act(state: State, calls: readonly Call[], spoken: readonly Op[]): Step {
  const { turn, config } = state;
  if (turn === null) throw new Error("a reply is heard only in a turn");
  const text = callsText(calls);
  const identicalCount = text === turn.lastCalls ? turn.identicalCount + 1 : 1;
  const counted: State = { ...state, turn: { ...turn, lastCalls: text, identicalCount } };
  const over = callLimit(config.limits, calls.length, identicalCount);
  if (over !== null) {
    const emitted = mint(counted, spoken);
    const ended = finish(answerAll(emitted.state, calls, `not run: ${over}`), "limit", over);
    return { state: ended.state, actions: [...emitted.actions, ...ended.actions] };
  }
  let plan = counted.plan;
  const slots: Slot[] = [];
  const ops: Op[] = [...spoken];
  for (const call of calls) {
    const placed = place(call, actionId(counted.nextAction + ops.length));
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

function callLimit(
  limits: State["config"]["limits"],
  callCount: number,
  identicalCount: number,
): string | null {
  if (callCount > limits.callsPerReply) {
    return `callsPerReply: ${callCount} calls in one reply, of ${limits.callsPerReply}`;
  }
  if (identicalCount > limits.identicalReplies) {
    return `identicalReplies: the same calls ${identicalCount} times in a row`;
  }
  return null;
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
        ? tellReply(event)
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
  const ended = mint({ ...state, turn: null, dirty: false }, [
    SAVE,
    done(state.turn.id, outcome, reason),
  ]);
  const [next, ...queue] = ended.state.queue;
  if (next === undefined) return ended;
  const begun = begin({ ...ended.state, queue }, next);
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

/** Adds a steer; past the limit the two oldest become one, so that no word is lost. */
function steered(state: State, text: string): readonly string[] {
  const steers = [...state.steers, text];
  if (steers.length <= state.config.limits.steers) return steers;
  const [first = "", second = "", ...rest] = steers;
  return [`${first}\n${second}`, ...rest];
}
