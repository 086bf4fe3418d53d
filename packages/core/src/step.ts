import type {
  AgentId,
  Call,
  DoneOp,
  EffectEvent,
  Event,
  ModelAnswer,
  ModelEvent,
  ReplyEvent,
  TurnEvent,
  TurnId,
} from "@dev/protocol";
import { never } from "@dev/protocol";
import { done, mint, type Step, still } from "./action.ts";
import { agentAt, natureOf, rootOf } from "./agent.ts";
import { askOn, askSummary, type SummaryAsk } from "./ask.ts";
import { distinct, identical, placed } from "./call.ts";
import { cutOf, isFull, mayCompact, noSummary, replace } from "./compact.ts";
import { act, fold, messageSize, notRun, push, say, sizeOf, userMessage } from "./conversation.ts";
import { type AgentDraft, type Draft, drafted } from "./draft.ts";
import {
  callLimit,
  placeLimit,
  promptLimit,
  queueLimit,
  replyLimit,
  roomLimit,
  steered,
  sum,
} from "./limit.ts";
import { focusOf, isAnswer, prompted, unseen } from "./prompt.ts";
import { answerQuestions, openQuestions } from "./question.ts";
import { type Told, tell, tellFault, tellReply } from "./render.ts";
import { tellEnd } from "./spawn.ts";
import type { Agent, Phase, Slot, State } from "./state.ts";
import { clip } from "./text.ts";
import { count, hearLate, leaveUnheard } from "./unheard.ts";

/**
 * Takes one event. An event that was taken before, or that nothing waits for, changes nothing and
 * answers no actions, so delivering any event twice is safe. (A steer has no id: one that says what
 * the last one said is taken for that one, for as long as no model has answered since.)
 */
export function step(state: State, event: Event): Step {
  switch (event.kind) {
    case "turn":
      return event.id <= state.highestTurn ? still(state) : accept(drafted(state), event);
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
      return save(state);
    case "steer":
      return steer(state, event.text);
    case "cancel":
      return cancel(state, event.turn);
    default:
      return never(event);
  }
}

const SAVE = { kind: "save" } as const;

function save(before: State): Step {
  if (!before.dirty) return still(before);
  const draft = drafted(before);
  draft.state.dirty = false;
  return mint(draft, SAVE);
}

/** Takes a turn: begins it, takes it as an answer, or puts it behind the one in flight. */
function accept(draft: Draft, event: TurnEvent): Draft {
  const { state } = draft;
  state.highestTurn = event.id;
  state.dirty = true;
  if (state.turn === null) return begin(draft, event);
  const blind = unseen(state.config, event);
  if (blind !== null) return mint(draft, done(event.id, "failed", blind));
  const questions = isAnswer(event) ? openQuestions(state) : [];
  if (questions.length > 0) {
    const reason = clip(`it answered: ${questions.join("; ")}`, state.config.limits.resultBytes);
    return answer(mint(draft, done(event.id, "complete", reason)), event.prompt);
  }
  const over = queueLimit(state, event);
  if (over !== null) return mint(draft, done(event.id, "limit", over));
  state.queue = [...state.queue, event];
  return draft;
}

/** Begins a turn, when none is in flight. */
function begin(draft: Draft, event: TurnEvent): Draft {
  const { state } = draft;
  const agent = rootOf(state);
  agent.identicalCount = 0;
  // What did not fit before may be compacted once more.
  if (agent.summary !== "none") agent.summary = "settled";
  state.turn = { id: event.id, modelCallCount: 0 };
  const blind = unseen(state.config, event);
  if (blind !== null) return finish(draft, "failed", blind);
  const focus = focusOf(event);
  if (focus !== null) return compactNow(draft, agent, focus);
  const prompt = prompted(event);
  const over = promptLimit(state, prompt);
  if (over !== null) return finish(draft, "limit", over);
  if (prompt.text !== "" || prompt.images.length > 0) push(agent, [prompt]);
  if (agent.messages.length > 0 || state.steers.length > 0) return ask(draft, agent);
  return finish(draft, "failed", "there is nothing to go on with: the prompt is empty");
}

/** Takes a message that is an answer, or is put in front of the model at its next call. */
function steer(before: State, words: string): Step {
  const text = clip(words, before.config.limits.messageBytes);
  if (text === "" || text === before.lastSteer) return still(before);
  const draft = drafted(before);
  const { state } = draft;
  state.lastSteer = text;
  state.dirty = true;
  if (openQuestions(state).length > 0) return answer(draft, text);
  state.steers = steered(state.steers, text, state.config.limits);
  return draft;
}

/** Answers every open question with a person's words. */
function answer(draft: Draft, text: string): Draft {
  const { agents } = draft.state;
  answerQuestions(draft.state, text);
  for (const { id } of agents) join(draft, id);
  return draft;
}

/** Asks an agent's model to go on, or first to make room when the conversation fills its window. */
function ask(draft: Draft, agent: AgentDraft): Draft {
  const { state } = draft;
  if (isFull(state.config, agent)) return compact(draft, agent);
  // A person steers the session's own agent.
  const steers = agent.parent === null ? state.steers.map(userMessage) : [];
  const over = callLimit(state, 1) ?? roomLimit(state, sizeOf(steers));
  if (over !== null) return finish(draft, "limit", over);
  if (steers.length > 0) {
    push(agent, steers);
    state.steers = [];
  }
  return askOn(draft, agent);
}

/** Makes room in a conversation; where that was just done twice, nothing more can be. */
function compact(draft: Draft, agent: AgentDraft): Draft {
  const { config } = draft.state;
  const cut = mayCompact(agent) ? cutOf(config, agent, "full") : null;
  if (cut !== null) return summarise(draft, agent, { cut, focus: "", next: "ask" });
  const { windowTokens } = natureOf(config, agent.kind);
  // What no answer has said is not known.
  const isKnown = windowTokens > 0 && agent.usedTokens > 0;
  const figures = isKnown ? `: ${agent.usedTokens} tokens were used, of ${windowTokens}` : "";
  return end(draft, agent, "failed", `what must stay does not fit the model's window${figures}`);
}

/** Makes room because a person wants it. */
function compactNow(draft: Draft, agent: AgentDraft, words: string): Draft {
  const { config } = draft.state;
  const cut = cutOf(config, agent, "asked");
  const focus = clip(words, config.limits.messageBytes);
  if (cut !== null) return summarise(draft, agent, { cut, focus, next: "end" });
  return finishSaying(draft, "There is nothing to compact.");
}

function summarise(draft: Draft, agent: AgentDraft, asked: SummaryAsk): Draft {
  const over = callLimit(draft.state, 1);
  return over === null ? askSummary(draft, agent, asked) : finish(draft, "limit", over);
}

/** Hears a model's answer. */
function hear(before: State, event: ModelEvent): Step {
  const draft = drafted(before);
  const { state } = draft;
  const agent = state.agents.find(({ phase }) => "action" in phase && phase.action === event.id);
  if (agent === undefined) return hearLate(before, event);
  count(state, event, agent.messageBytes);
  state.lastSteer = "";
  const { phase } = agent;
  agent.phase = { kind: "idle" };
  if (phase.kind === "compacting") return hearSummary(draft, agent, phase, event.answer);
  const usedTokens = sum(event.usage.inputTokens, event.usage.outputTokens);
  // Where a provider does not say what was used, what it said before is the best there is.
  if (usedTokens !== 0) agent.usedTokens = usedTokens;
  return hearAnswer(draft, agent, event.answer);
}

function hearAnswer(draft: Draft, agent: AgentDraft, heard: ModelAnswer): Draft {
  switch (heard.kind) {
    case "failed": {
      const { code } = heard.fault;
      if (code === "context_overflow") return compact(draft, agent);
      const isLimit = code === "too_large" || code === "limit";
      return end(draft, agent, isLimit ? "limit" : "failed", tellFault(heard.fault));
    }
    case "cancelled": {
      const text = clip(heard.partial, draft.state.config.limits.messageBytes);
      say(agent, { kind: "assistant", text, reasoning: "", calls: [], opaque: "" });
      return end(draft, agent, "cancelled", "the model was stopped");
    }
    case "reply":
      return hearReply(draft, agent, heard);
    default:
      return never(heard);
  }
}

type ModelReply = Extract<ModelAnswer, { readonly kind: "reply" }>;

function hearReply(draft: Draft, agent: AgentDraft, reply: ModelReply): Draft {
  const { config } = draft.state;
  const { text, reasoning, stop, opaque } = reply;
  const { messageBytes } = config.limits;
  // What a model that refuses had begun to call is not what it asks for.
  const calls = stop === "refusal" ? [] : distinct(reply.calls);
  const message = { kind: "assistant", text, reasoning, calls, opaque } as const;
  const sizeBytes = messageSize(message);
  if (sizeBytes > messageBytes) {
    const over = `messageBytes: the reply has ${sizeBytes} bytes, of ${messageBytes}`;
    return end(draft, agent, "limit", over);
  }
  if (calls.length > 0) agent.identicalCount = identical(agent, calls);
  if (agent.summary !== "none" && !isFull(config, agent)) agent.summary = "settled";
  say(agent, message);
  if (text !== "") mint(draft, { kind: "emit", text }, agent.id);
  return calls.length > 0 ? call(draft, agent, calls) : end(draft, agent, ...ending(stop));
}

/** How a reply without calls ends its agent, and why. */
function ending(stop: ModelReply["stop"]): [outcome: DoneOp["outcome"], reason: string] {
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

/** Hears a summary, which takes the place of what it summarises; what it calls is not heard. */
function hearSummary(
  draft: Draft,
  agent: AgentDraft,
  { cut, next }: Extract<Phase, { readonly kind: "compacting" }>,
  heard: ModelAnswer,
): Draft {
  if (heard.kind === "cancelled") return end(draft, agent, "cancelled", "the model was stopped");
  const missing = noSummary(heard);
  if (heard.kind === "failed" || missing !== null) {
    return end(draft, agent, "failed", `the conversation was not summarised: ${missing}`);
  }
  replace(agent, cut, clip(heard.text, draft.state.config.limits.messageBytes));
  if (next === "ask") return ask(draft, agent);
  return finishSaying(draft, "All but the newest messages are a summary now.");
}

/** Sends the calls of one reply out together. */
function call(draft: Draft, agent: AgentDraft, calls: readonly Call[]): Draft {
  const { state } = draft;
  const over = replyLimit(state.config.limits, calls, agent.identicalCount);
  if (over !== null) {
    notRun(agent, calls, over);
    return end(draft, agent, "limit", over);
  }
  const { slots, ops, agents, plan } = placed(state, agent, calls);
  // All that is spawned is asked, or nothing of the reply is done.
  const spent = placeLimit(state, slots, agents);
  if (spent !== null) {
    notRun(agent, calls, spent);
    return finish(draft, "limit", spent);
  }
  agent.plan = plan;
  act(agent, slots);
  state.nextAgent += agents.length;
  if (agents.length > 0) state.agents = [...state.agents, ...agents];
  for (const op of ops) mint(draft, op, agent.id);
  for (const child of agents) askOn(draft, child);
  return join(draft, agent.id);
}

/** Lands the result of a call, whichever agent made it. */
function land(before: State, event: EffectEvent | ReplyEvent): Step {
  const isIt = (slot: Slot): boolean =>
    slot.kind === "waiting" && slot.action === event.id && slot.family === event.kind;
  const draft = drafted(before);
  const { agents, config } = draft.state;
  const agent = agents.find(({ phase }) => phase.kind === "acting" && phase.slots.some(isIt));
  if (agent === undefined) return still(before);
  const { resultBytes } = config.limits;
  const told =
    event.kind === "reply" ? tellReply(event, resultBytes) : tell(event.outcome, resultBytes);
  return settle(draft, agent, isIt, told);
}

/** Gives a call its result; when it was the last that an agent waits for, the model is asked again. */
function settle(draft: Draft, agent: AgentDraft, isIt: (slot: Slot) => boolean, told: Told): Draft {
  const { phase } = agent;
  if (phase.kind !== "acting") throw new Error(`agent ${agent.id} waits for no result`);
  const slots = phase.slots.map(
    (slot): Slot => (isIt(slot) ? { kind: "answered", ref: slot.ref, ...told } : slot),
  );
  act(agent, slots);
  draft.state.dirty = true;
  return join(draft, agent.id);
}

/**
 * When every call of an agent has its result, folds them into its conversation and asks again. A result
 * for which there is no room ends the turn before more can come.
 */
function join(draft: Draft, id: AgentId): Draft {
  const agent = agentAt(draft.state, id);
  // The turn may have ended meanwhile, and all agents with it.
  if (agent?.phase.kind !== "acting") return draft;
  const over = roomLimit(draft.state, 0);
  if (over !== null) return finish(draft, "limit", over);
  if (!agent.phase.slots.every(({ kind }) => kind === "answered")) return draft;
  fold(agent, "");
  return ask(draft, agent);
}

/** Ends an agent: the session's own with its turn, a sub-agent with a result for its parent. */
function end(draft: Draft, agent: Agent, outcome: DoneOp["outcome"], reason: string): Draft {
  const { state } = draft;
  if (agent.parent === null) return finish(draft, outcome, reason);
  const parent = agentAt(state, agent.parent);
  if (parent === undefined) throw new Error(`agent ${agent.id} has outlived its parent`);
  state.agents = state.agents.filter(({ id }) => id !== agent.id);
  const isIt = (slot: Slot): boolean => slot.kind === "spawned" && slot.agent === agent.id;
  const told = tellEnd(agent, outcome, reason, state.config.limits.resultBytes);
  return settle(draft, parent, isIt, told);
}

/** Stops a turn and what is queued behind it. */
function cancel(before: State, turn: TurnId): Step {
  const inFlight = before.turn?.id === turn;
  const at = inFlight ? 0 : before.queue.findIndex((queued) => queued.id === turn);
  if (at < 0) return still(before);
  const draft = drafted(before);
  draft.state.queue = before.queue.slice(0, at);
  draft.state.dirty = true;
  if (inFlight) finish(draft, "cancelled", "it was cancelled");
  for (const { id } of before.queue.slice(at)) {
    mint(draft, done(id, "cancelled", `turn ${turn} was cancelled`));
  }
  return draft;
}

function finishSaying(draft: Draft, text: string): Draft {
  return finish(mint(draft, { kind: "emit", text }), "complete", "");
}

/**
 * Ends the turn in flight, and begins the next one that waits. Sub-agents end with it, and a call that
 * is still open has that for its result.
 */
function finish(draft: Draft, outcome: DoneOp["outcome"], reason: string): Draft {
  const { state } = draft;
  if (state.turn === null) throw new Error("only a turn in flight ends");
  const missing =
    outcome === "cancelled"
      ? "cancelled: it was stopped; what it had done stays done."
      : `stopped when the turn ended; what it had done stays done. (${reason})`;
  leaveUnheard(state);
  const root = rootOf(state);
  fold(root, missing);
  root.phase = { kind: "idle" };
  state.agents = [root];
  state.dirty = false;
  mint(mint(draft, SAVE), done(state.turn.id, outcome, reason));
  const [next, ...queue] = state.queue;
  state.turn = null;
  state.queue = queue;
  return next === undefined ? draft : begin(draft, next);
}
