import { posix, win32 } from "node:path";
import { type Agent, restore, type State, type Step, snapshot, step } from "@dev/core";
import type { Action, AgentId, Event, Message, ModelOp } from "@dev/protocol";

/** What has been seen of a session from outside: enough to hold the core to its promises. */
export type Witness = {
  /** What the asks of each agent told, put together from their deltas. */
  readonly told: ReadonlyMap<AgentId, Told>;
  readonly lastAction: number;
  readonly lastAgent: number;
  readonly turn: number | null;
  /** The turns whose end was told. */
  readonly ended: readonly number[];
  /** How often models were asked in the turn in flight. */
  readonly askCount: number;
};

type Told = {
  readonly messages: readonly Message[];
  /** How often the model was asked to go on since it was last asked for a summary. */
  readonly onCount: number;
  /** Whether that summary was asked for though no answer had fitted since the one before it. */
  readonly isLast: boolean;
};

export const NOTHING_SEEN: Witness = {
  told: new Map(),
  lastAction: 0,
  lastAgent: 0,
  turn: null,
  ended: [],
  askCount: 0,
};

export type Watched = Step & { readonly witness: Witness };

/** The core, or one that is made wrong on purpose. */
export type Stepper = (state: State, event: Event) => Step;

/** Takes one event, and throws if the core breaks a promise by what it then does. */
export function watch(
  state: State,
  event: Event,
  witness: Witness,
  stepper: Stepper = step,
): Watched {
  const next = stepper(state, event);
  const seen = see(witness, next);
  holds(next.state);
  const again = stepper(next.state, event);
  hold(again.actions.length === 0, "an event taken again gives no action");
  hold(again.state === next.state, "an event taken again changes nothing");
  return { ...next, witness: seen };
}

/** Throws unless a state that is saved and restored is the same state, and takes an event just so. */
export function survives(state: State, event: Event): void {
  const [a, b] = [step(state, event), step(revived(state), event)];
  hold(same(a.actions, b.actions), "a restored state answers the same actions");
  hold(snapshot(a.state) === snapshot(b.state), "a restored state becomes the same state");
}

/** A state as it is after it was saved and restored. */
export function revived(state: State): State {
  const text = snapshot(state);
  const restored = restore(text);
  if (!restored.ok) throw new Error(`broken: a state can be restored: ${restored.fault.message}`);
  hold(snapshot(restored.value) === text, "a restored state writes the same bytes");
  return restored.value;
}

function see(witness: Witness, { state, actions }: Step): Witness {
  const told = new Map(witness.told);
  const ended = [...witness.ended];
  let { lastAction, lastAgent, turn, askCount } = witness;
  for (const action of actions) {
    const { id, agent, op } = action;
    hold(id === lastAction + 1, "action ids rise by one and never repeat");
    lastAction = id;
    performable(state, action);
    // A steer outside a turn is saved as well.
    const asks = op.kind !== "done" && op.kind !== "save";
    hold(!asks || !ended.includes(action.turn), "an ended turn asks for nothing");
    if (op.kind === "model") {
      hold(told.has(agent) || agent === 0 || agent > lastAgent, "an agent's id is not used again");
      lastAgent = Math.max(lastAgent, agent);
      told.set(agent, toldOf(told.get(agent), op));
      turn ??= action.turn;
      hold(turn === action.turn, "one turn is in flight at a time");
      askCount += 1;
      affordable(state, op, askCount);
    }
    if (op.kind !== "done") continue;
    hold(!ended.includes(op.turn), "a turn ends once");
    ended.push(op.turn);
    if (op.turn !== turn) continue;
    turn = null;
    askCount = 0;
    // A host may forget every agent but the first then.
    for (const [known, { messages }] of told) {
      if (known === 0) told.set(known, { messages, ...FITTING });
      else told.delete(known);
    }
  }
  const seen: Witness = { told, lastAction, lastAgent, turn, ended, askCount };
  agrees(seen, state);
  return seen;
}

/** What a host knows of a conversation after an ask. */
function toldOf(before: Told = { messages: [], ...FITTING }, op: ModelOp): Told {
  hold(op.from <= before.messages.length, "an ask begins within what was told");
  hold((op.from === 0) === (op.prelude !== ""), "the prelude is told with the first message");
  const messages = [...before.messages.slice(0, op.from), ...op.messages];
  hold(messages.length > 0, "a model is asked about something");
  if (op.purpose === "turn") {
    paired(messages);
    return { ...before, messages, onCount: before.onCount + 1 };
  }
  paired(messages.slice(0, -1));
  hold(
    messages.length > 1 && messages.at(-1)?.kind === "user",
    "a summary is asked for of something",
  );
  const isAgain = before.onCount < FITTING.onCount;
  hold(!isAgain || !before.isLast, "a conversation is not compacted in vain a third time");
  hold(!isAgain || messages.length > 2, "nor a second time where only a summary can go");
  return { messages, onCount: 0, isLast: isAgain };
}

/** A second ask goes out only where the answer to the first has fitted. */
const FITTING = { onCount: 2, isLast: false } as const;

function affordable({ config, ...state }: State, { purpose }: ModelOp, askCount: number): void {
  const { limits } = config;
  hold(askCount <= limits.modelCallsPerTurn, "a turn's model calls have an end");
  const within = (used: number, limit: number): boolean => limit === 0 || used < limit;
  hold(within(state.tokenCount, limits.tokensPerSession), "no model is asked past the tokens");
  hold(within(state.costMicroUsd, limits.costMicroUsdPerSession), "or past the cost");
  const sumBytes = state.agents.reduce((bytes, agent) => bytes + agent.messageBytes, 0);
  hold(purpose === "compact" || sumBytes <= limits.conversationBytes, "or about too much");
}

/** Holds an action to what its agent may do. */
function performable({ agents }: State, { agent, op }: Action): void {
  const ender = op.kind === "save" || op.kind === "done";
  hold(!ender || agent === 0, "what ends a turn is the session's own");
  if ("path" in op) confined(op.path);
  if (op.kind === "exec") confined(op.cwd);
  const tools = agents.find(({ id }) => id === agent)?.tools;
  if (agent === 0 || tools === undefined || ender || op.kind === "emit") return;
  if (op.kind === "model") {
    hold(
      op.tools.every(({ name }) => tools.includes(name)),
      "a sub-agent is told of the tools it was given",
    );
    return;
  }
  const name = op.kind === "tool" ? `${op.server}__${op.name}` : op.kind;
  hold(tools.includes(name), "a sub-agent calls the tools it was given");
}

/** Holds what was told to what the state says. */
function agrees(seen: Witness, state: State): void {
  hold(state.nextAction === seen.lastAction + 1, "the counter of actions is in the state");
  hold(state.nextAgent > seen.lastAgent, "the counter of agents is in the state");
  hold((state.turn?.id ?? null) === seen.turn, "the turn in flight is the one that asked");
  for (const { id, messages, told, phase } of state.agents) {
    const known = seen.told.get(id)?.messages ?? [];
    const toldCount = phase.kind === "compacting" ? phase.cut : told;
    hold(toldCount === 0 || known.length >= toldCount, "what is thought to be told was told");
    const before = known.slice(0, toldCount);
    hold(
      before.every((each, at) => each === messages[at]),
      "what was told is the conversation's beginning",
    );
    hold(phase.kind !== "asking" || told === messages.length, "a model is told everything");
  }
  const waiting = state.queue.map(({ id }): number => id);
  const open = state.turn === null ? waiting : [state.turn.id, ...waiting];
  hold(!open.some((id) => seen.ended.includes(id)), "a turn that waits or runs has not ended");
}

function holds(state: State): void {
  const { agents, turn, queue, config } = state;
  const { limits } = config;
  const [root, ...others] = agents;
  hold(root?.id === 0 && root.parent === null, "a session has an agent of its own");
  hold(turn !== null || queue.length === 0, "nothing waits behind no turn");
  hold(turn !== null || others.length === 0, "sub-agents end with their turn");
  hold(queue.length <= limits.queuedTurns, "the queue has an end");
  hold(state.steers.length <= Math.max(2, limits.steers), "steers have an end");
  hold(others.length <= limits.agentCount, "sub-agents have a number");
  hold(
    Number.isSafeInteger(state.tokenCount) && Number.isSafeInteger(state.costMicroUsd),
    "sums are exact",
  );
  for (const agent of agents) {
    const waits = agent.phase.kind !== "idle";
    hold(waits === (turn !== null), "a turn in flight waits for something, each of its agents too");
    hold(agent.messageBytes === weigh(agent), "a conversation weighs what its messages weigh");
    hold(agent.depth <= limits.agentDepth, "sub-agents have a depth");
    opened(agent, agents);
    const parent = agents.find(({ id }) => id === agent.parent);
    const narrowed = agent.tools.every((name) => agent === root || parent?.tools.includes(name));
    hold(narrowed, "tools are only ever narrowed");
  }
}

/** Holds an agent's open calls to what it waits for. */
function opened({ id, messages, phase }: Agent, agents: readonly Agent[]): void {
  if (phase.kind !== "acting") {
    paired(messages);
    return;
  }
  paired(messages.slice(0, -1));
  const last = messages.at(-1);
  const refs = last?.kind === "assistant" ? last.calls.map((call) => call.ref) : [];
  const { slots } = phase;
  const named = slots.map((slot) => slot.ref);
  hold(same(refs, named), "each open call has its place");
  hold(
    slots.some((slot) => slot.kind !== "answered"),
    "an agent that acts waits for a result",
  );
  const children = slots.flatMap((slot) => (slot.kind === "spawned" ? [slot.agent] : []));
  const atWork = agents.filter(({ parent }) => parent === id).map((agent) => agent.id);
  hold(same(children, atWork), "an agent waits for those that it spawned");
}

/** Every assistant's calls are followed by one result each, in their order, and by nothing before. */
function paired(messages: readonly Message[]): void {
  let due: readonly string[] = [];
  for (const message of messages) {
    if (message.kind === "tool") {
      hold(due[0] === message.ref, "a result follows its call");
      due = due.slice(1);
      continue;
    }
    hold(due.length === 0, "a call has its result before anything else is said");
    if (message.kind !== "assistant") continue;
    due = message.calls.map((call) => call.ref);
    hold(new Set(due).size === due.length && !due.includes(""), "each call has a ref of its own");
  }
  hold(due.length === 0, "every call has its result");
}

function confined(path: string): void {
  hold(path !== "" && !path.includes("\0"), "a path is a path");
  for (const system of [posix, win32]) {
    hold(!system.isAbsolute(path), "a path is relative");
    hold(!system.normalize(path).split(system.sep).includes(".."), "a path stays in the workspace");
    hold(system.parse(path).root === "", "a path has no drive");
  }
}

/** What an agent's messages weigh, and the results that wait to be among them. */
function weigh({ messages, phase }: Agent): number {
  let sumBytes = 0;
  for (const message of messages) sumBytes += weightOf(message);
  for (const slot of phase.kind === "acting" ? phase.slots : []) {
    if (slot.kind === "answered") sumBytes += weightOf({ ...slot, kind: "tool" });
  }
  return sumBytes;
}

function weightOf(message: Message): number {
  const known = weights.get(message) ?? Buffer.byteLength(JSON.stringify(message));
  weights.set(message, known);
  return known;
}

const weights = new WeakMap<Message, number>();

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function hold(holds: boolean, promise: string): void {
  if (!holds) throw new Error(`broken: ${promise}`);
}
