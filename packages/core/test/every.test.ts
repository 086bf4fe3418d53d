import { create, type State } from "@dev/core";
import type { Event } from "@dev/protocol";
import { expect, test } from "vitest";
import { calls, cancel, limited, play, ran, run, says, steer, turn } from "./notation.ts";
import { NOTHING_SEEN, survives, type Witness, watch } from "./promise.ts";

/** What can happen, as an event that fits a state where one does, and a stray one where not. */
const ALPHABET: Readonly<Record<string, (state: State, before: Event | null) => Event>> = {
  turn: (state) => turn(state.highestTurn + 1),
  "reply with calls": (state) => calls(asked(state), run("a"), run("b")),
  "reply with text": (state) => says(asked(state), "done"),
  "result of the first call": (state) => ran(waiting(state).at(0) ?? 1),
  "result of the last call": (state) => ran(waiting(state).at(-1) ?? 2),
  "cancel of the turn in flight": (state) => cancel(state.turn?.id ?? 1),
  "cancel of the last turn": (state) => cancel(state.highestTurn),
  steer: (state) => steer(`hint ${state.nextAction}`),
  duplicate: (_state, before) => before ?? cancel(7),
};

const CONFIG = limited({ queuedTurns: 1, identicalReplies: 1, modelCallsPerTurn: 3 });

const STARTS: Readonly<Record<string, readonly Event[]>> = {
  "a new session": [],
  "a turn that acts, with another behind it": [turn(1), calls(1, run("a"), run("b")), turn(2)],
};

test.each(Object.keys(STARTS))("every five events after %s keep the promises", (name) => {
  const start = STARTS[name] ?? [];
  let state = create(CONFIG);
  let witness = NOTHING_SEEN;
  for (const event of start) ({ state, witness } = watch(state, event, witness));
  const count = explore(state, witness, start.at(-1) ?? null, 5, []);
  const symbols = Object.keys(ALPHABET).length;
  expect(count).toBe([1, 2, 3, 4, 5].reduce((sum, length) => sum + symbols ** length, 0));
});

/** Walks every sequence of so many events, and counts the steps. */
function explore(
  state: State,
  witness: Witness,
  before: Event | null,
  depth: number,
  path: readonly string[],
): number {
  if (depth === 0) return 0;
  let count = 0;
  for (const [name, make] of Object.entries(ALPHABET)) {
    const event = make(state, before);
    const way = [...path, name];
    try {
      if (depth > 1) survives(state, event);
      const next = watch(state, event, witness);
      count += 1 + explore(next.state, next.witness, event, depth - 1, way);
    } catch (error) {
      if (error instanceof Error && !error.message.includes(" after ")) {
        error.message += ` after ${way.join(", ")}`;
      }
      throw error;
    }
  }
  return count;
}

test("what is explored ends turns in every way but by a failure", () => {
  // Without this the alphabet could be one that nothing comes of.
  const { lines } = play(
    CONFIG,
    turn(1),
    calls(1, run("a"), run("b")),
    ran(2),
    ran(3),
    calls(4, run("a"), run("b")),
    turn(2),
    cancel(2),
    turn(3),
    says(10, "hello"),
  );
  expect(lines.filter((line) => / done /.test(line))).toEqual([
    "6 done 1 limit: identicalReplies: the same calls 2 times in a row",
    "9 done 2 cancelled: it was cancelled",
    "13 done 3 complete",
  ]);
});

function asked({ agent }: State): number {
  return agent.phase.kind === "asking" ? agent.phase.action : 1;
}

function waiting({ agent }: State): readonly number[] {
  if (agent.phase.kind !== "acting") return [];
  return agent.phase.slots.flatMap((slot) => (slot.kind === "waiting" ? [slot.action] : []));
}
