import { type Config, create, restore, type State, snapshot, step } from "@dev/core";
import { type Action, decodeEvent, type Event, encodeEvent, eventFromJson } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { configs, eventOf, type Move, moves } from "./arbitrary.ts";
import { named } from "./notation.ts";
import { NOTHING_SEEN, survives, watch } from "./promise.ts";

test("whatever happens in whatever order, every promise holds at every step", () => {
  const reached = new Set<string>();
  fc.assert(
    fc.property(configs, moves, (config, made) => {
      let state = create(config);
      let witness = NOTHING_SEEN;
      const history: Event[] = [];
      for (const move of made) {
        const event = eventOf(move, state, history);
        survives(state, event);
        const next = watch(state, event, witness);
        for (const action of next.actions) reached.add(named(action));
        ({ state, witness } = next);
        history.push(event);
      }
    }),
    { numRuns: 1000 },
  );
  // Sequences that reach little would prove little.
  for (const kind of [
    "exec",
    "read",
    "write",
    "git",
    "browse",
    "tool",
    "question",
    "emit",
    "save",
    "turn",
    "compact",
    "a sub-agent's turn",
    "a sub-agent's compact",
    "a sub-agent's exec",
    "a sub-agent's question",
    "a sub-agent's emit",
  ]) {
    expect(reached).toContain(kind);
  }
  for (const outcome of ["complete", "cancelled", "failed", "limit"]) {
    expect(reached).toContain(`done ${outcome}`);
  }
}, 120_000);

test("the same events give the same actions and the same bytes", () => {
  fc.assert(
    fc.property(configs, moves, (config, made) => {
      const events = chosen(config, made);
      const [a, b] = [run(create(config), events), run(create(mirrored(config)), copied(events))];
      expect(b.actions).toEqual(a.actions);
      expect(b.bytes).toEqual(a.bytes);
    }),
    { numRuns: 300 },
  );
});

test("a session that is restored anywhere goes on exactly as it would have", () => {
  fc.assert(
    fc.property(configs, moves, fc.nat({ max: 40 }), (config, made, at) => {
      const events = chosen(config, made);
      const before = run(create(config), events.slice(0, at));
      const restored = restore(snapshot(before.state));
      if (!restored.ok) throw new Error(restored.fault.message);
      const [a, b] = [before.state, restored.value].map((state) => run(state, events.slice(at)));
      expect(b?.actions).toEqual(a?.actions);
      expect(b?.bytes).toEqual(a?.bytes);
    }),
    { numRuns: 300 },
  );
});

test("an event with an id that was taken once is never taken again", () => {
  fc.assert(
    fc.property(configs, moves, (config, made) => {
      let state = create(config);
      const taken: Event[] = [];
      for (const event of chosen(config, made)) {
        const next = step(state, event);
        if (next.state !== state && "id" in event) taken.push(event);
        ({ state } = next);
        for (const old of taken) expect(step(state, old)).toEqual({ state, actions: [] });
      }
    }),
    { numRuns: 300 },
  );
});

test("every prefix that is replayed whole keeps the promises", () => {
  fc.assert(
    fc.property(configs, moves, fc.nat({ max: 40 }), (config, made, to) => {
      const events = chosen(config, made);
      let state = create(config);
      let witness = NOTHING_SEEN;
      for (const event of [...events, ...events.slice(0, to), ...events]) {
        ({ state, witness } = watch(state, event, witness));
      }
    }),
    { numRuns: 300 },
  );
});

test("a step changes nothing of the state it is given", () => {
  fc.assert(
    fc.property(configs, moves, (config, made) => {
      let state = frozen(create(config));
      for (const event of chosen(config, made)) state = frozen(step(state, event).state);
    }),
    { numRuns: 50 },
  );
});

test("an event is the same to the core in process, as JSON and from the wire", () => {
  fc.assert(
    fc.property(configs, moves, (config, made) => {
      const events = chosen(config, made);
      const read = (each: Event) => eventFromJson(JSON.parse(JSON.stringify(each)));
      const wired = (each: Event) => decodeEvent(encodeEvent(each));
      const [here, json, wire] = [events, events.map(value(read)), events.map(value(wired))].map(
        (each) => run(create(config), each).bytes,
      );
      expect(json).toEqual(here);
      expect(wire).toEqual(here);
    }),
    { numRuns: 50 },
  );
});

type Ran = { readonly state: State; readonly actions: readonly Action[]; readonly bytes: string[] };

function run(from: State, events: readonly Event[]): Ran {
  let state = from;
  const actions: Action[] = [];
  const bytes: string[] = [];
  for (const event of events) {
    const next = step(state, event);
    state = next.state;
    actions.push(...next.actions);
    bytes.push(snapshot(state));
  }
  return { state, actions, bytes };
}

/** The events that moves are when they are made in order. */
function chosen(config: Config, made: readonly Move[]): readonly Event[] {
  let state = create(config);
  const events: Event[] = [];
  for (const move of made) {
    const event = eventOf(move, state, events);
    ({ state } = step(state, event));
    events.push(event);
  }
  return events;
}

function copied(events: readonly Event[]): readonly Event[] {
  return structuredClone(events) as readonly Event[];
}

/** An equal config whose fields are in another order. */
function mirrored(config: Config): Config {
  const flip = <T extends object>(value: T): T =>
    Object.fromEntries(Object.entries(value).reverse()) as T;
  return flip({ ...config, limits: flip(config.limits), tools: config.tools.map(flip) });
}

function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  Object.values(value).forEach(frozen);
  return value;
}

function value(read: (event: Event) => ReturnType<typeof decodeEvent>): (event: Event) => Event {
  return (event) => {
    const result = read(event);
    if (!result.ok) throw new Error(result.fault.message);
    return result.value;
  };
}
