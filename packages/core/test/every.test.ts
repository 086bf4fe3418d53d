import {
  type Agent,
  type AgentKind,
  type Config,
  create,
  type State,
  type Step,
  snapshot,
  step,
} from "@dev/core";
import type { ActionId, Event } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  asked,
  calls,
  cancel,
  chose,
  limited,
  modelFailed,
  named,
  ran,
  run,
  says,
  spawn,
  steer,
  TIMER,
  turn,
  using,
  waiting,
} from "./notation.ts";
import { NOTHING_SEEN, revived, type Stepper, type Witness, watch } from "./promise.ts";

const SCOUT: AgentKind = {
  name: "scout",
  description: "Looks.",
  prelude: "You look.",
  model: "local/small",
  windowTokens: 100,
  tools: ["exec"],
};

/** Limits that six events reach. */
const CONFIG: Config = {
  ...limited({
    queuedTurns: 1,
    identicalReplies: 1,
    modelCallsPerTurn: 5,
    agentDepth: 1,
    agentCount: 2,
    keptBytes: 100,
  }),
  tools: ["exec", "spawn", "question"].map((name) => ({ name, description: "", parameters: "{}" })),
  windowTokens: 100,
  agents: [SCOUT],
};

const ASK = { kind: "question", text: "Which?", choices: [], many: false } as const;
/** More than the share of the window that the last call may use. */
const MUCH = 90;

/** What can happen, as an event that fits a state where one does, and a stray one where not. */
const ALPHABET: Readonly<Record<string, (state: State) => Event>> = {
  turn: (state) => turn(state.highestTurn + 1, "go"),
  "/compact": (state) => turn(state.highestTurn + 1, "/compact"),
  "text of the first model": (state) => says(first(state), "done"),
  "text of the last model, over the share": (state) => using(MUCH, says(last(state), "done")),
  "calls of the first model": (state) => calls(first(state), run("a"), ASK),
  "a call of the last model, over the share": (state) => using(MUCH, calls(last(state), run("b"))),
  "spawns of the first model": (state) =>
    calls(first(state), run("a"), spawn("look"), spawn("find", "scout")),
  "overflow of the first model": (state) => modelFailed(first(state), "context_overflow"),
  "failure of the last model": (state) => modelFailed(last(state)),
  "result of the first call": (state) => result(state, 0),
  "result of the last call": (state) => result(state, -1),
  steer: () => steer("hint"),
  "cancel of the turn in flight": (state) => cancel(state.turn?.id ?? 1),
  "cancel of the last turn": (state) => cancel(state.highestTurn),
  timer: () => TIMER,
};

function first(state: State): ActionId {
  return asked(state).at(0) ?? NONE;
}

function last(state: State): ActionId {
  return asked(state).at(-1) ?? NONE;
}

function result(state: State, at: number): Event {
  const slot = waiting(state).at(at);
  return slot?.family === "reply" ? chose(slot.action, "x") : ran(slot?.action ?? NONE);
}

/** The first action of every session, which is answered or gone soon. */
const NONE = 1 as ActionId;

/** Where sequences start, and how many events they have from there. */
const STARTS: readonly (readonly [number, string, readonly Event[]])[] = [
  [6, "a new session", []],
  [
    6,
    "a conversation of some length",
    [
      turn(1, "look at all of it"),
      calls(1, run("a"), run("b")),
      ran(2),
      ran(3, "x".repeat(200)),
      using(MUCH, says(4, "all of it was looked at")),
    ],
  ],
  [
    4,
    "two agents and a question, with a turn behind them",
    [turn(1), calls(1, run("a"), spawn("look"), spawn("find", "scout"), ASK), turn(2, "/compact")],
  ],
];

test.each(STARTS)(
  "every %d events after %s keep the promises",
  (length, name, start) => {
    const { sequenceCount, stateCount, reached } = explore(start, length, step);
    for (const kind of reached) REACHED.add(kind);
    console.info(`${sequenceCount} sequences of ${length}, ${stateCount} states, after ${name}`);
    expect(sequenceCount).toBe(Object.keys(ALPHABET).length ** length);
    // Fewer would mean that the alphabet is one that nothing comes of.
    expect(stateCount).toBeGreaterThan(5000);
  },
  120_000,
);

const REACHED = new Set<string>();

test("what was explored asks for everything, and ends turns in every way", () => {
  const agents = ["turn", "compact", "exec", "question", "emit"].map(
    (kind) => `a sub-agent's ${kind}`,
  );
  const ends = ["complete", "cancelled", "failed", "limit"].map((outcome) => `done ${outcome}`);
  const own = ["turn", "compact", "exec", "question", "emit", "save"];
  expect([...REACHED].sort()).toEqual([...agents, ...ends, ...own].sort());
});

type Node = {
  readonly state: State;
  readonly witness: Witness;
  /** How many sequences lead to it. */
  readonly wayCount: number;
  /** One of them. */
  readonly way: readonly string[];
};

type Explored = {
  readonly sequenceCount: number;
  readonly stateCount: number;
  /** The kinds of actions that came of it. */
  readonly reached: ReadonlySet<string>;
};

/**
 * Takes every sequence of so many events, each checked at every step. Sequences that have led to the
 * same state go on as one: what comes of a state depends on nothing else, which is a promise too.
 */
function explore(start: readonly Event[], lengthLimit: number, stepper: Stepper): Explored {
  const root = begun(start, stepper);
  let nodes = new Map([[snapshot(root.state), root]]);
  let stateCount = 1;
  const kinds = new Set<string>();
  for (let length = 1; length <= lengthLimit; length++) {
    const reached = new Map<string, Node>();
    for (const [key, node] of nodes) {
      const twin = revived(node.state);
      for (const [name, make] of Object.entries(ALPHABET)) {
        const event = make(node.state);
        const way = [...node.way, name];
        const next = told(way, () => watch(node.state, event, node.witness, stepper));
        for (const action of next.actions) kinds.add(named(action));
        const text = next.state === node.state ? key : snapshot(next.state);
        // What was saved and restored goes on just so.
        if (text !== key) told(way, () => agrees(stepper(twin, event), next, text));
        const known = reached.get(text);
        if (known === undefined) reached.set(text, { ...next, wayCount: node.wayCount, way });
        else reached.set(text, { ...known, wayCount: known.wayCount + node.wayCount });
      }
    }
    nodes = reached;
    stateCount += nodes.size;
  }
  const sequenceCount = [...nodes.values()].reduce((sum, { wayCount }) => sum + wayCount, 0);
  return { sequenceCount, stateCount, reached: kinds };
}

function begun(start: readonly Event[], stepper: Stepper): Node {
  let node: Node = { state: create(CONFIG), witness: NOTHING_SEEN, wayCount: 1, way: [] };
  for (const event of start) node = { ...node, ...watch(node.state, event, node.witness, stepper) };
  return node;
}

function agrees(twin: Step, next: Step, text: string): void {
  if (JSON.stringify(twin.actions) !== JSON.stringify(next.actions)) {
    throw new Error("broken: a restored state answers the same actions");
  }
  if (snapshot(twin.state) !== text) {
    throw new Error("broken: a restored state becomes the same state");
  }
}

/** Does this, and says of what it throws by which way it came there. */
function told<T>(way: readonly string[], run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof Error) error.message += ` after ${way.join(", ")}`;
    throw error;
  }
}

/** Cores that are made wrong on purpose, and the promise that each breaks. */
const MUTANTS: readonly (readonly [string, string, Stepper])[] = [
  [
    "keeps other messages than it says",
    "what was told is the conversation's beginning",
    wrong(({ agents, ...rest }) => ({ ...rest, agents: agents.map(cutLater) })),
  ],
  [
    "compacts whenever it is over the share",
    "nor a second time where only a summary can go",
    wrong(({ agents, ...rest }) => ({
      ...rest,
      agents: agents.map((agent) => ({ ...agent, summary: "none" })),
    })),
  ],
  [
    "gives a sub-agent a tool of its own",
    "tools are only ever narrowed",
    wrong(({ agents, ...rest }) => ({
      ...rest,
      agents: agents.map((agent) => ({ ...agent, tools: [...agent.tools, `of ${agent.id}`] })),
    })),
  ],
  [
    "forgets which steer it took",
    "an event taken again",
    wrong((state) => ({ ...state, lastSteer: "" })),
  ],
  [
    "uses the id of a turn's end again",
    "the counter of actions is in the state",
    wrong((state) =>
      state.turn === null ? { ...state, nextAction: state.nextAction - 1 } : state,
    ),
  ],
];

test.each(MUTANTS)("a core that %s is found out", (_name, promise, stepper) => {
  const start = [turn(1, "look"), calls(1, run("a"), run("b")), ran(2), ran(3)];
  expect(() => explore(start, 6, stepper)).toThrow(promise);
});

test("a core that forgets that it has compacted in vain is found out", () => {
  const forgetful = wrong(({ agents, ...rest }) => ({
    ...rest,
    agents: agents.map((agent) =>
      agent.summary === "last" ? { ...agent, summary: "fresh" } : agent,
    ),
  }));
  const vain = (id: number) => [using(MUCH, calls(id, run("b"))), ran(id + 1), says(id + 2, "s")];
  const limits = { ...CONFIG.limits, modelCallsPerTurn: 99, identicalReplies: 99 };
  const all = (stepper: Stepper) => {
    let node = { state: create({ ...CONFIG, limits }), witness: NOTHING_SEEN };
    const events = [turn(1), ...vain(1), ...vain(4), ...vain(7)];
    for (const event of events) node = watch(node.state, event, node.witness, stepper);
  };
  expect(() => all(step)).not.toThrow();
  expect(() => all(forgetful)).toThrow("a conversation is not compacted in vain a third time");
});

/** A core whose every new state is changed. */
function wrong(change: (state: State) => State): Stepper {
  return (state, event) => {
    const next = step(state, event);
    return next.state === state ? next : { ...next, state: change(next.state) };
  };
}

function cutLater(agent: Agent): Agent {
  const { phase, messages } = agent;
  if (phase.kind !== "compacting" || messages[phase.cut]?.kind !== "assistant") return agent;
  return { ...agent, phase: { ...phase, cut: phase.cut + 1 } };
}
