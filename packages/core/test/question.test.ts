import type { CallOp, Event } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  cancel,
  chose,
  limited,
  play,
  ran,
  resume,
  run,
  says,
  spawn,
  steer,
  turn,
} from "./notation.ts";

const ask = (text: string): CallOp => ({ kind: "question", text, choices: ["x"], many: false });

const CONFIG_ASKING = {
  ...CONFIG,
  tools: ["question", "spawn"].map((name) => ({ name, description: "", parameters: "{}" })),
};

/** Two questions are open, and a call. */
const ASKED = play(CONFIG, turn(1), calls(1, ask("Which?"), run("ls"), ask("When?")));

test("several questions are asked together, and each is answered by its id, once", () => {
  expect(ASKED.last).toEqual(["2 question Which?", "3 exec ls", "4 question When?"]);
  const { state, last } = resume(ASKED.state, chose(4, "now"), chose(4, "later"), ran(3));
  expect(last).toEqual([]);
  expect(resume(state, chose(4, "later"))).toMatchObject({ state, lines: [] });
  expect(resume(state, chose(2, "x")).last).toEqual([
    "5 model from 1: assistant [a][b][c], tool a ok: x, tool b ok: exit code 0 after 5 ms, tool c ok: now",
  ]);
});

const ANSWERED =
  "model from 1: assistant [a][b][c], tool a ok: both, tool b ok: exit code 0 after 5 ms, tool c ok: both";

test("a steer answers every open question, and is no steer", () => {
  const { state, last } = resume(ASKED.state, steer("both"));
  expect(last).toEqual([]);
  expect(state.steers).toEqual([]);
  // What answered is known again, and a late reply changes nothing.
  for (const late of [steer("both"), steer(""), chose(2, "x"), chose(4, "x")]) {
    expect(resume(state, late)).toMatchObject({ state, lines: [] });
  }
  const told = resume(state, ran(3));
  expect(told.last).toEqual([`5 ${ANSWERED}`]);
  expect(resume(told.state, steer("both"))).toMatchObject({ state: told.state, lines: [] });
  // The next one has no question to answer.
  expect(resume(told.state, steer("more")).state.steers).toEqual(["more"]);
});

test("after the model has answered, the same words answer its next question", () => {
  const { last } = resume(ASKED.state, steer("yes"), ran(3), calls(5, ask("Sure?")), steer("yes"));
  expect(last).toEqual(["7 model from 5: assistant [a], tool a ok: yes"]);
});

test("a prompt answers every open question, and its turn is complete", () => {
  const { last, state } = resume(ASKED.state, turn(2, "both"));
  expect(last).toEqual(["5 done 2 complete: it answered: Which?; When?"]);
  expect(state.queue).toEqual([]);
  expect(resume(state, turn(2, "again"))).toMatchObject({ state, lines: [] });
  expect(resume(state, ran(3)).last).toEqual([`6 ${ANSWERED}`]);
});

test.each([
  ["one that says nothing", turn(2, "")],
  ["/compact", turn(2, "/compact")],
] as const)("%s waits behind an open question", (_name, event) => {
  const { last, state } = resume(ASKED.state, event);
  expect(last).toEqual([]);
  expect(state.queue).toHaveLength(1);
});

test("a prompt with an image waits behind an open question, for a model that takes images", () => {
  const seeing = { ...CONFIG, images: true };
  const image: Event = {
    ...turn(2, "this"),
    images: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }],
  };
  const { state } = play(seeing, turn(1), calls(1, ask("Which?")), image);
  expect(state.queue).toEqual([image]);
});

test("a question that was answered is open no more, so that the next prompt waits", () => {
  const { state, last } = resume(ASKED.state, chose(2, "x"), chose(4, "x"), turn(2, "more"));
  expect(last).toEqual([]);
  expect(state.queue).toHaveLength(1);
});

test("one message answers the questions of all agents, and each goes on", () => {
  const out = play(
    CONFIG_ASKING,
    turn(1),
    calls(1, ask("Which?"), spawn("one"), spawn("two")),
    calls(3, ask("When?")),
  );
  expect(out.last).toEqual(["5 @1 question When?"]);
  const { lines, state } = resume(out.state, turn(2, "now"));
  expect(lines).toEqual([
    "6 done 2 complete: it answered: Which?; When?",
    "7 @1 model from 1: assistant [a], tool a ok: now",
  ]);
  const { last } = resume(state, says(4, "2"), says(7, "1"));
  expect(last.at(-1)).toBe(
    "10 model from 1: assistant [a][b][c], tool a ok: now, tool b ok: 1, tool c ok: 2",
  );
});

test("an answer that leads to a limit ends the turn, and the answer stays", () => {
  const config = limited({ modelCallsPerTurn: 1 });
  const { lines, talk } = play(config, turn(1), calls(1, ask("Which?")), turn(2, "x"));
  expect(lines.slice(2)).toEqual([
    "3 done 2 complete: it answered: Which?",
    "4 save",
    "5 done 1 limit: modelCallsPerTurn: 1 were made",
  ]);
  expect(talk.at(-1)).toBe("tool a ok: x");
});

test("an answer is cut as a result is, and so is what is said of the question", () => {
  const config = limited({ resultBytes: 4 });
  const { last } = play(config, turn(1), calls(1, ask("Which?")), turn(2, "abcdefgh"));
  expect(last).toEqual([
    "3 done 2 complete: it\n(15 characters cut)\nh?",
    "4 model from 1: assistant [a], tool a ok: ab\n(4 characters cut)\ngh",
  ]);
});

test("a cancelled question is open no more", () => {
  const { state } = resume(ASKED.state, cancel(1));
  expect(resume(state, chose(2, "x"))).toMatchObject({ state, lines: [] });
  expect(resume(state, steer("both")).state.steers).toEqual(["both"]);
});
