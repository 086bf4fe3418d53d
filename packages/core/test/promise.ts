import { posix, win32 } from "node:path";
import { type Agent, restore, type State, snapshot, step } from "@dev/core";
import type { Action, Event, Message } from "@dev/protocol";

/** What has been seen of a session from outside: enough to hold the core to its promises. */
export type Witness = {
  /** The conversation, put together from the asks' deltas. */
  readonly told: readonly Message[];
  readonly lastAction: number;
  /** The turns whose end was told. */
  readonly ended: readonly number[];
};

export const NOTHING_SEEN: Witness = { told: [], lastAction: 0, ended: [] };

export type Watched = {
  readonly state: State;
  readonly actions: readonly Action[];
  readonly witness: Witness;
};

/** Takes one event, and throws if the core breaks a promise by what it then does. */
export function watch(state: State, event: Event, witness: Witness): Watched {
  const next = step(state, event);
  const seen = see(witness, next.state, next.actions);
  holds(next.state);
  const again = step(next.state, event);
  hold(again.actions.length === 0, "an event taken again gives no action");
  hold(again.state === next.state, "an event taken again changes nothing");
  return { ...next, witness: seen };
}

/** Throws unless a state that is saved and restored is the same state, and takes an event just so. */
export function survives(state: State, event: Event): void {
  const text = snapshot(state);
  const restored = restore(text);
  if (!restored.ok) throw new Error(restored.fault.message);
  hold(snapshot(restored.value) === text, "a restored state writes the same bytes");
  const [a, b] = [step(state, event), step(restored.value, event)];
  hold(same(a.actions, b.actions), "a restored state answers the same actions");
  hold(snapshot(a.state) === snapshot(b.state), "a restored state becomes the same state");
}

function see(witness: Witness, state: State, actions: readonly Action[]): Witness {
  let told = witness.told;
  let lastAction = witness.lastAction;
  const ended = [...witness.ended];
  for (const { id, turn, op } of actions) {
    hold(id === lastAction + 1, "action ids rise by one and never repeat");
    lastAction = id;
    if (op.kind === "model") {
      hold(op.from === told.length, "an ask goes on where the last one ended");
      told = [...told, ...op.messages];
      paired(told);
      hold((op.from === 0) === (op.prelude !== ""), "the prelude is told once");
    } else if (op.kind === "done") {
      hold(!ended.includes(op.turn), "a turn ends once");
      ended.push(op.turn);
    } else if ("path" in op) confined(op.path);
    else if (op.kind === "exec") confined(op.cwd);
    // A steer outside a turn is saved as well.
    const asks = op.kind !== "done" && op.kind !== "save";
    hold(!asks || !ended.includes(turn), "an ended turn asks for nothing");
  }
  hold(state.nextAction === lastAction + 1, "the counter of actions is in the state");
  const { messages } = state.agent;
  const known = told.length === state.agent.told && told.every((each, at) => each === messages[at]);
  hold(known, "what was told is the conversation's beginning");
  const open = [
    ...(state.turn === null ? [] : [state.turn.id]),
    ...state.queue.map(({ id }) => id),
  ];
  hold(!open.some((id) => ended.includes(id)), "a turn that waits or runs has not ended");
  return { told, lastAction, ended };
}

function holds(state: State): void {
  const { agent, turn, queue } = state;
  hold((turn === null) === (agent.phase.kind === "idle"), "a turn in flight waits for something");
  hold(turn !== null || queue.length === 0, "nothing waits behind no turn");
  hold(queue.length <= state.config.limits.queuedTurns, "the queue has an end");
  hold(state.steers.length <= Math.max(2, state.config.limits.steers), "steers have an end");
  hold(agent.messageBytes === weigh(agent), "the conversation weighs what its messages weigh");
  if (agent.phase.kind !== "acting") {
    paired(agent.messages);
    return;
  }
  const last = agent.messages.at(-1);
  paired(agent.messages.slice(0, -1));
  const refs = last?.kind === "assistant" ? last.calls.map((call) => call.ref) : [];
  const { slots } = agent.phase;
  hold(
    same(
      refs,
      slots.map((slot) => slot.ref),
    ),
    "each open call has its place",
  );
  const waiting = slots.filter((slot) => slot.kind === "waiting");
  hold(waiting.length > 0, "a turn that acts waits for a result");
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

function weigh(agent: Agent): number {
  let sumBytes = 0;
  for (const message of agent.messages) {
    const known = weights.get(message) ?? Buffer.byteLength(JSON.stringify(message));
    weights.set(message, known);
    sumBytes += known;
  }
  return sumBytes;
}

const weights = new WeakMap<Message, number>();

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function hold(holds: boolean, promise: string): void {
  if (!holds) throw new Error(`broken: ${promise}`);
}
