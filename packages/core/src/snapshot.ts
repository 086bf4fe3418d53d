import type { Message } from "@dev/protocol";
import { fail, fault, ok, type Result, ROOT_AGENT } from "@dev/protocol";
import { kept } from "./config.ts";
import { answeredBytes, resultOf, sizeOf } from "./conversation.ts";
import { jsonOf, messageJson } from "./json.ts";
import { sum } from "./limit.ts";
import { isConfig, isObject, isSnapshot, isState, isStatedConfig } from "./shape.ts";
import { isSound } from "./sound.ts";
import { type Agent, NOTHING_SAID, type Slot, type State } from "./state.ts";

/** The version that is written. Every version ever written has its reader here. */
export const SNAPSHOT_VERSION = 2;

/**
 * Writes a state as text. Equal states give equal text. Each message was encoded when it was
 * weighed, so that a snapshot costs its bytes. The host adds a checksum, which a byte loop here would be slow at.
 */
export function snapshot(state: State): string {
  return [...snapshotParts(state)].join("");
}

/** The text of a snapshot in parts, none of which has more than one message, result or prompt. */
export function* snapshotParts(state: State): Generator<string, void> {
  const { config, agents, queue, steers } = state;
  yield `{"version":${SNAPSHOT_VERSION},"config":${jsonOf(config)},"state":{`;
  yield* standingParts(state);
  yield ',"queue":[';
  for (const [index, turn] of queue.entries()) yield separated(index, jsonOf(turn));
  yield '],"steers":[';
  for (const [index, text] of steers.entries()) yield separated(index, JSON.stringify(text));
  yield ']},"agents":[';
  for (const [index, agent] of agents.entries()) {
    if (index > 0) yield ",";
    yield* agentParts(agent);
  }
  yield "]}";
}

function separated(index: number, json: string): string {
  return index === 0 ? json : `,${json}`;
}

// Field by field, as an engine that interprets takes several times longer to list them. A snapshot
// that lacks one is not restored.
function* standingParts(state: State): Generator<string, void> {
  const { nextAction, nextAgent, highestTurn, tokenCount, costMicroUsd, dirty } = state;
  const turn = JSON.stringify(state.turn);
  const unheard = JSON.stringify(state.unheard);
  yield `"nextAction":${nextAction},"nextAgent":${nextAgent},"highestTurn":${highestTurn},"turn":${turn},"tokenCount":${tokenCount},"costMicroUsd":${costMicroUsd},"unheard":${unheard},"dirty":${dirty},"lastSteer":`;
  yield JSON.stringify(state.lastSteer);
}

function* agentParts(agent: Agent): Generator<string, void> {
  const { id, parent, depth, messageBytes, told, identicalCount, usedTokens, summary } = agent;
  const kind = JSON.stringify(agent.kind);
  const tools = jsonOf(agent.tools);
  const plan = jsonOf(agent.plan);
  yield `{"id":${id},"parent":${parent},"depth":${depth},"kind":${kind},"tools":${tools},"messageBytes":${messageBytes},"told":${told},"plan":${plan},"identicalCount":${identicalCount},"usedTokens":${usedTokens},"summary":"${summary}","phase":`;
  const { phase } = agent;
  if (phase.kind === "acting") {
    yield '{"kind":"acting","slots":[';
    for (const [index, slot] of phase.slots.entries()) yield separated(index, slotJson(slot));
    yield "]}";
  } else yield JSON.stringify(phase);
  yield ',"messages":[';
  for (const [index, message] of agent.messages.entries()) {
    yield separated(index, messageJson(message));
  }
  yield "]}";
}

/** A result that waits is encoded already, as the message that it becomes. */
function slotJson(slot: Slot): string {
  if (slot.kind !== "answered") return JSON.stringify(slot);
  return `{"kind":"answered"${messageJson(resultOf(slot)).slice('{"kind":"tool"'.length)}`;
}

/** Reads what `snapshot` wrote. Faults: `malformed`, `newer_version`. */
export function restore(text: string): Result<State> {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return malformed("a snapshot's text is not JSON");
  }
  const version = (read as { readonly version?: unknown } | null)?.version;
  if (version === 1) return readVersion1(read as Version1);
  if (version === 2) return checked(read as Version2);
  if (typeof version === "number" && version > SNAPSHOT_VERSION) {
    return fail(
      fault("newer_version", `a snapshot of version ${version}`, "", "use a newer release of dev"),
    );
  }
  return malformed("a snapshot without a version");
}

function malformed(message: string): Result<never> {
  return fail(fault("malformed", message));
}

/** The parts of a snapshot; what was read may be anything. */
type Version2 = {
  readonly config: State["config"];
  readonly state: Omit<State, "config" | "agents">;
  readonly agents: readonly Agent[];
};

function checked(read: Version2): Result<State> {
  if (!isStatedConfig(read.config)) return malformed("a snapshot without a config");
  if (!isSnapshot(read)) return malformed("a snapshot with a part that none has");
  // An older release did not name what came later.
  const config = kept(read.config);
  const state: State = { ...read.state, config, agents: read.agents };
  if (!isConfig(config) || !isState(state)) return malformed("a snapshot that lacks a part");
  if (!isSound(state)) return malformed("a snapshot whose parts do not fit each other");
  return ok(state);
}

type Version1 = {
  readonly state: Pick<State, "nextAction" | "highestTurn" | "queue" | "steers" | "tokenCount"> &
    Pick<State, "config" | "dirty"> & {
      readonly turn: (NonNullable<State["turn"]> & Pick<Agent, "identicalCount">) | null;
      readonly plan: Agent["plan"];
    };
  readonly agent: Pick<Agent, "told" | "phase">;
  readonly messages: readonly Message[];
};

/** Reads what knew one agent, and neither cost nor compaction. */
function readVersion1({ state, agent, messages }: Version1): Result<State> {
  if (!isObject(state) || !isObject(agent) || !Array.isArray(messages)) {
    return malformed("a snapshot that lacks a part");
  }
  if (!isStatedConfig(state.config)) return malformed("a snapshot without a config");
  const { config, turn } = state;
  const root: Agent = {
    id: ROOT_AGENT,
    parent: null,
    depth: 0,
    kind: "",
    tools: config.tools.map(({ name }) => name),
    ...NOTHING_SAID,
    told: agent.told,
    phase: agent.phase,
    plan: state.plan,
    identicalCount: turn?.identicalCount ?? 0,
    messages: messages.map(whole),
  };
  const read = checked({
    config,
    state: {
      nextAction: state.nextAction,
      nextAgent: 1,
      highestTurn: state.highestTurn,
      turn: turn === null ? null : { id: turn?.id, modelCallCount: turn?.modelCallCount },
      queue: state.queue,
      steers: state.steers,
      lastSteer: Array.isArray(state.steers) ? (state.steers.at(-1) ?? "") : "",
      tokenCount: sum(state.tokenCount, 0),
      costMicroUsd: 0,
      unheard: [],
      dirty: state.dirty,
    },
    agents: [root],
  });
  return read.ok ? ok(weighed(read.value)) : read;
}

/** A message as it is now: older ones have nothing that a provider wants back. */
function whole(message: Message): Message {
  return message?.kind === "assistant" ? { ...message, opaque: message.opaque ?? "" } : message;
}

/** What a message weighs has changed with what is in it. */
function weighed(state: State): State {
  const agents = state.agents.map((agent): Agent => {
    const { phase, messages } = agent;
    const slots = phase.kind === "acting" ? phase.slots : [];
    return { ...agent, messageBytes: sizeOf(messages) + answeredBytes(slots) };
  });
  return { ...state, agents };
}
