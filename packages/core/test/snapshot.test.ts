import { readFileSync } from "node:fs";
import {
  type Config,
  create,
  restore,
  SNAPSHOT_VERSION,
  type State,
  snapshot,
  step,
} from "@dev/core";
import type { Event } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  asked,
  CONFIG,
  calls,
  cancel,
  chose,
  had,
  limited,
  play,
  ran,
  read,
  resume,
  root,
  run,
  says,
  spawn,
  steer,
  TIMER,
  turn,
  using,
} from "./notation.ts";

/** One with something in every part: two turns wait behind one with a call out and one answered. */
const FULL = play(
  { ...limited({ resultBytes: 1000 }), images: true },
  turn(1, "naïve ✓ 🜁"),
  says(1, "yes"),
  turn(2, "begin"),
  calls(5, { kind: "plan", items: [{ text: "look", status: "active" }] }, run("ls"), read("a")),
  ran(6, "out"),
  { ...turn(4, "wait"), images: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }] },
  turn(7, "wait too"),
  steer("use tabs"),
).state;

const WHICH = { kind: "question", text: "Which?", choices: ["x", "y"], many: false } as const;

const NESTING: Config = {
  ...CONFIG,
  tools: ["exec", "spawn", "question"].map((name) => ({ name, description: "", parameters: "{}" })),
  windowTokens: 1000,
  agents: [
    {
      name: "scout",
      description: "Looks.",
      prelude: "You look.",
      model: "local/small",
      windowTokens: 500,
      tools: ["exec"],
    },
  ],
};

/**
 * A conversation that was compacted, in which two agents are at work: one is being compacted, and of
 * the other a question is open, as one is of the session's own agent.
 */
const DEEP = play(
  NESTING,
  turn(1, "begin"),
  calls(1, { kind: "plan", items: [{ text: "look ✓", status: "active" }] }, run("ls")),
  ran(2, "out"),
  using(900, says(3, "there is one file")),
  turn(2, "go on"),
  { ...says(7, "They looked: one file."), costMicroUsd: 1200 },
  steer("use tabs"),
  calls(8, WHICH, spawn("look", "scout"), spawn("ask", "", ["question"])),
  using(450, calls(10, run("cat"))),
  calls(11, WHICH),
  ran(12, "text"),
  turn(3, "/compact the file"),
).state;

test.each([
  ["a turn that acts, and turns that wait", FULL],
  ["agents at work, a compaction and questions", DEEP],
  ["a new session", create(CONFIG)],
])("a restored state is the one that was saved, to its bytes: %s", (_name, state) => {
  const text = snapshot(state);
  const restored = restore(text);
  expect(restored).toEqual({ ok: true, value: state });
  if (restored.ok) expect(snapshot(restored.value)).toBe(text);
});

test("a snapshot says its version first", () => {
  expect(snapshot(create(CONFIG))).toMatch(new RegExp(`^\\{"version":${SNAPSHOT_VERSION},`));
});

function fixture(name: string): string {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}

function restored(text: string): State {
  const read = restore(text);
  if (!read.ok) throw new Error(read.fault.message);
  return read.value;
}

// The file was written by the first release, and is never written again.
test("a snapshot of version 1 is read, and goes on", () => {
  const state = restored(fixture("version-1.snapshot"));
  // That release told a plan by its length alone, and what a model was told stays as it was told.
  const old = (text: string): string => text.replaceAll("[>] look", "the plan has 1 items");
  const full = restored(old(snapshot(FULL)));
  // The plan is told in more letters.
  const messageBytes = root(FULL).messageBytes + old("[>] look").length - "[>] look".length;
  expect(state).toEqual({
    ...full,
    agents: [{ ...root(full), messageBytes }],
    // It had no images to give.
    config: { ...FULL.config, images: false },
  });
  const told = resume(FULL, had(7, "text")).lines;
  expect(resume(state, had(7, "text")).lines).toEqual(told.map(old));
  expect(told.join()).toContain("[>] look");
  const { lines } = resume(state, had(7, "text"), says(8, "done"));
  expect(lines.slice(1)).toEqual([
    "9 emit done",
    "10 save",
    "11 done 2 complete",
    "12 save",
    "13 done 4 failed: the prompt has images, and local/any takes none",
    "14 model from 8: assistant done, user wait too",
  ]);
});

// The file was written by the second release.
test("a snapshot of version 2 is read, and goes on", () => {
  const text = fixture("version-2.snapshot");
  const state = restored(text);
  expect(state.agents.map(({ phase }) => phase.kind)).toEqual(["acting", "compacting", "acting"]);
  expect(state).toEqual(DEEP);
  // For as long as version 2 is the one that is written, it is written so.
  expect(snapshot(state)).toBe(text);
  const { lines } = resume(state, steer("x"), says(15, "x it is"), says(14, "They looked."));
  expect(lines).toEqual([
    "15 @2 model from 1: assistant [a], tool a ok: x",
    "16 @2 emit x it is",
    "17 @1 model from 0: user The conversation before this, in a summary:\n\nThey looked., assistant [a], tool a ok: exit code 0 after 5 ms\nstdout:\ntext",
  ]);
});

test("a snapshot that does not name a limit has its default", () => {
  const state = restored(snapshot(FULL).replace('"steers":64', '"older":1'));
  expect(state.config).toEqual(FULL.config);
});

test("a version that is newer than this release is refused", () => {
  const newer = snapshot(FULL).replace('"version":2', '"version":3');
  expect(restore(newer)).toMatchObject({ ok: false, fault: { code: "newer_version" } });
});

test.each([
  "",
  "null",
  "[]",
  "7",
  '"text"',
  "{}",
  '{"version":0}',
  '{"version":"1"}',
  '{"version":1}',
  '{"version":2}',
  '{"version":1,"state":null,"agent":null,"messages":[]}',
  '{"version":1,"state":{"nextAction":1},"agent":{},"messages":[]}',
  '{"version":1,"state":{"nextAction":1,"config":null},"agent":{},"messages":[]}',
  '{"version":2,"config":{},"state":{},"agents":[]}',
  snapshot(FULL).replace('"dirty":true', '"dirty":"x"'),
  snapshot(FULL).replace(/"nextAction":\d+/, '"nextAction":-1'),
  snapshot(FULL).replace("{", '{"dirty":"x",'),
  snapshot(FULL).replace('"state":{', '"state":{"config":{},'),
  "[".repeat(1_000_000),
  '{"version":2,"config":{"tools":[],"limits":{},"agents":[null]},"state":{},"agents":[]}',
])("%.60s is no snapshot", (text) => {
  expect(restore(text)).toMatchObject({ ok: false, fault: { code: "malformed" } });
});

test("a snapshot that was cut anywhere is refused", () => {
  const text = snapshot(DEEP);
  fc.assert(
    fc.property(fc.nat({ max: text.length - 1 }), (length) => {
      expect(restore(text.slice(0, length)).ok).toBe(false);
    }),
  );
});

test.each([
  ["a sub-agent for which no call waits", '"ref":"c","agent":2', '"ref":"c","agent":1'],
  ["a call that waits for no sub-agent", '"ref":"c","agent":2', '"ref":"c","agent":3'],
  ["a sub-agent at another depth", '"parent":0,"depth":1', '"parent":0,"depth":2'],
  ["a sub-agent with a tool that its parent lacks", '"tools":["question"],"m', '"tools":["rm"],"m'],
  ["a sub-agent of no kind", '"kind":"scout","tools"', '"kind":"nobody","tools"'],
  ["an action that was never minted", '"action":13', '"action":15'],
  ["a summary that was never asked for", '"action":14', '"action":15'],
  ["an agent that was never spawned", '"nextAgent":3', '"nextAgent":2'],
  ["a turn that was never accepted", '"highestTurn":3', '"highestTurn":2'],
  ["a cut in front of everything", '"cut":1', '"cut":0'],
  ["a cut in front of a result", '"cut":1', '"cut":2'],
  ["a call that is another's", '"kind":"waiting","ref":"a"', '"kind":"waiting","ref":"b"'],
  ["a result without a call", '"kind":"tool","ref":"a"', '"kind":"tool","ref":"b"'],
])("a state with %s is refused", (_name, part, other) => {
  const text = snapshot(DEEP);
  expect(text).toContain(part);
  expect(restore(text.replace(part, other))).toMatchObject({
    ok: false,
    fault: { code: "malformed", message: "a snapshot whose parts do not fit each other" },
  });
});

test.each([
  ["a call that has no place", ',{"kind":"waiting","ref":"b","action":3,"family":"exec"}', ""],
  ["an agent at work in no turn", '"turn":{"id":1,"modelCallCount":1}', '"turn":null'],
])("a state with %s is refused too", (_name, part, other) => {
  const text = snapshot(play(CONFIG, turn(1), calls(1, run("a"), run("b"))).state);
  expect(text).toContain(part);
  expect(restore(text.replace(part, other))).toMatchObject({ fault: { code: "malformed" } });
});

/** What may stand where something else stood. */
const OTHERS: readonly unknown[] = [
  ...[null, true, false, "", "idle", "acting", "tool", "reply", "a", [], {}, [null], -1, 0, 1, 2],
  ...[3, 7, 0.5, 2 ** 52, 2 ** 53 - 1, 2 ** 53, 1e300, { kind: "idle" }, undefined],
];

const EVENTS: readonly Event[] = [
  ...[turn(9), turn(10, "/compact"), turn(2 ** 53 - 1), steer("hint"), TIMER, cancel(2), cancel(4)],
  ...[1, 2, 3, 5, 6, 7, 8, 9, 12, 14].flatMap((id) => [
    ran(id),
    had(id, "text"),
    chose(id, "x"),
    using(990, says(id, "text")),
    calls(id, run("a"), spawn("look", "scout"), WHICH),
  ]),
];

test("whatever part of a snapshot is damaged, it is refused, or every step from it goes well", () => {
  let refusedCount = 0;
  let acceptedCount = 0;
  const texts = [snapshot(FULL), snapshot(DEEP), fixture("version-1.snapshot")];
  fc.assert(
    fc.property(
      fc.constantFrom(...texts),
      fc.array(fc.nat({ max: 2 ** 20 }), { minLength: 1, maxLength: 2 }),
      fc.nat({ max: 99 }),
      fc.boolean(),
      fc.array(fc.nat({ max: EVENTS.length - 1 }), { maxLength: 12 }),
      (text, places, which, isAlike, chosen) => {
        const other = (part: unknown): unknown => {
          const likely = OTHERS.filter((each) => !isAlike || typeof each === typeof part);
          return likely[which % likely.length];
        };
        const damaged = places.reduce((last, place) => replaced(last, place, other), text);
        const read = restore(damaged);
        if (!read.ok) {
          expect(read.fault.code).toMatch(/malformed|newer_version/);
          refusedCount += 1;
          return;
        }
        acceptedCount += 1;
        let state = read.value;
        for (const at of chosen) {
          const event = EVENTS[at] ?? TIMER;
          const id = asked(state)[0];
          const fitting = event.kind === "model" && id !== undefined ? { ...event, id } : event;
          ({ state } = step(state, fitting));
          restored(snapshot(state));
        }
      },
    ),
    { numRuns: 3000 },
  );
  expect(Math.min(refusedCount, acceptedCount)).toBeGreaterThan(300);
});

/** A JSON text whose part of this number is another, or is missing. */
function replaced(text: string, place: number, other: (part: unknown) => unknown): string {
  let count = 0;
  JSON.parse(text, (_, part) => {
    count += 1;
    return part;
  });
  let at = 0;
  const value = JSON.parse(text, (_, part) => {
    const isPlace = at === place % count;
    at += 1;
    return isPlace ? other(part) : part;
  });
  return JSON.stringify(value) ?? "null";
}
