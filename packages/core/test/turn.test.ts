import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  cancel,
  modelFailed,
  modelStopped,
  play,
  ran,
  read,
  resume,
  run,
  says,
  steer,
  TIMER,
  turn,
} from "./notation.ts";

test("a prompt asks the model, and its answer ends the turn", () => {
  expect(play(CONFIG, turn(1, "hello"), says(1, "hi")).lines).toEqual([
    "1 model from 0: user hello",
    "2 emit hi",
    "3 save",
    "4 done 1 complete",
  ]);
});

test("the first ask has the prelude and the tools, a later one what is new alone", () => {
  const { actions } = play(CONFIG, turn(1), says(1, "hi"), turn(2));
  expect([actions[0], actions[4]]).toMatchObject([
    { agent: 0, turn: 1, op: { from: 0, prelude: CONFIG.prelude, tools: CONFIG.tools } },
    { agent: 0, turn: 2, op: { from: 1, prelude: "", tools: [] } },
  ]);
  expect(actions[0]?.op).toMatchObject({ purpose: "turn", model: "local/any", effort: "default" });
});

test("a redelivered turn mints no id", () => {
  const first = play(CONFIG, turn(3), says(1, "hi"));
  for (const id of [0, 1, 2, 3]) {
    const again = resume(first.state, turn(id, "another"));
    expect(again.lines).toEqual([]);
    expect(again.state).toBe(first.state);
  }
});

test("turns wait behind the one in flight, and begin in their order", () => {
  const { lines } = play(CONFIG, turn(1), turn(2), turn(5), says(1, "a"), says(5, "b"));
  expect(lines).toEqual([
    "1 model from 0: user prompt 1",
    "2 emit a",
    "3 save",
    "4 done 1 complete",
    "5 model from 1: assistant a, user prompt 2",
    "6 emit b",
    "7 save",
    "8 done 2 complete",
    "9 model from 3: assistant b, user prompt 5",
  ]);
});

test("what ends a turn belongs to that turn, whatever waits behind it", () => {
  const { actions } = play(CONFIG, turn(1), turn(2), says(1, "a"));
  expect(actions.map((action) => action.turn)).toEqual([1, 1, 1, 1, 2]);
});

test("a cancelled turn's calls get their results, and a late one changes nothing", () => {
  const stopped = play(CONFIG, turn(1), calls(1, run("a"), read("b")), ran(2, "out"), cancel(1));
  expect(stopped.last).toEqual(["4 save", "5 done 1 cancelled: it was cancelled"]);
  expect(stopped.talk.slice(1)).toEqual([
    "assistant [a][b]",
    "tool a ok: exit code 0 after 5 ms\nstdout:\nout",
    "tool b failed: cancelled: it was stopped; what it had done stays done.",
  ]);
  const late = resume(stopped.state, ran(3));
  expect(late.lines).toEqual([]);
  expect(late.state).toBe(stopped.state);
});

test("the next ask tells what the cancelled turn left", () => {
  const { last } = play(CONFIG, turn(1), calls(1, run("a")), cancel(1), turn(2));
  expect(last).toEqual([
    "5 model from 1: assistant [a], tool a failed: cancelled: it was stopped; what it had done stays done., user prompt 2",
  ]);
});

test("a turn that is cancelled while the model answers hears no answer", () => {
  const { lines, talk } = play(CONFIG, turn(1), cancel(1), says(1, "too late"));
  expect(lines.slice(1)).toEqual(["2 save", "3 done 1 cancelled: it was cancelled"]);
  expect(talk).toEqual(["user prompt 1"]);
});

test("a cancel takes what is queued behind its turn with it", () => {
  expect(play(CONFIG, turn(1), turn(2), turn(3), cancel(1)).last).toEqual([
    "2 save",
    "3 done 1 cancelled: it was cancelled",
    "4 done 2 cancelled: turn 1 was cancelled",
    "5 done 3 cancelled: turn 1 was cancelled",
  ]);
});

test("a cancel of a queued turn leaves what is in front of it", () => {
  const { last, state } = play(CONFIG, turn(1), turn(2), turn(3), turn(4), cancel(3));
  expect(last).toEqual([
    "2 done 3 cancelled: turn 3 was cancelled",
    "3 done 4 cancelled: turn 3 was cancelled",
  ]);
  expect([state.turn?.id, state.queue.map(({ id }) => id)]).toEqual([1, [2]]);
});

test("a cancel of a turn that has ended, or that never was, changes nothing", () => {
  const { state } = play(CONFIG, turn(1), says(1, "hi"), turn(2));
  for (const id of [1, 9]) expect(resume(state, cancel(id))).toMatchObject({ state, lines: [] });
});

test("an answer of another ask is not heard", () => {
  const { state } = play(CONFIG, turn(1), cancel(1), turn(2));
  const late = resume(state, says(1, "old"));
  expect(late).toMatchObject({ lines: [], state: { agents: state.agents, turn: state.turn } });
  expect(resume(state, says(4, "new")).lines[0]).toBe("5 emit new");
});

test("a model that fails ends the turn with its fault, and half an answer is none", () => {
  const { last, talk } = play(CONFIG, turn(1), modelFailed(1));
  expect(last).toEqual(["2 save", "3 done 1 failed: http://127.0.0.1:1: no answer (start it)"]);
  expect(talk).toEqual(["user prompt 1"]);
});

test("an empty prompt goes on where a failed turn stopped, and adds no message", () => {
  const { last } = play(CONFIG, turn(1), calls(1, run("a")), ran(2), modelFailed(3), turn(2, ""));
  expect(last).toEqual(["6 model from 3: "]);
});

test("an empty prompt with nothing to go on with fails", () => {
  expect(play(CONFIG, turn(1, "")).lines).toEqual([
    "1 save",
    "2 done 1 failed: there is nothing to go on with: the prompt is empty",
  ]);
  expect(play(CONFIG, steer("begin"), turn(1, "")).lines).toEqual(["1 model from 0: user begin"]);
});

test("an image alone is a prompt", () => {
  const images = [{ mediaType: "image/png", data: "iVBORw0KGgo=" }];
  const { actions } = play({ ...CONFIG, images: true }, { ...turn(1, ""), images });
  expect(actions[0]?.op).toMatchObject({ messages: [{ kind: "user", text: "", images }] });
});

test("a prompt with images fails at once where the model takes none, and enters no conversation", () => {
  const images = [{ mediaType: "image/png", data: "iVBORw0KGgo=" }];
  const none = "failed: the prompt has images, and local/any takes none";
  const first = play(CONFIG, { ...turn(1, "look"), images });
  expect(first.last).toEqual(["1 save", `2 done 1 ${none}`]);
  expect(first.talk).toEqual([]);
  // Behind another it does not wait for its end.
  const behind = play(CONFIG, turn(1), { ...turn(2, "look"), images });
  expect(behind.last).toEqual([`2 done 2 ${none}`]);
  expect(behind.state.queue).toEqual([]);
});

test("a model that was stopped keeps what it had said", () => {
  const { last, talk } = play(CONFIG, turn(1), modelStopped(1, "twenty minutes of text"));
  expect(last).toEqual(["2 save", "3 done 1 cancelled: the model was stopped"]);
  expect(talk).toEqual(["user prompt 1", "assistant twenty minutes of text"]);
  expect(play(CONFIG, turn(1), modelStopped(1, "")).talk).toEqual(["user prompt 1"]);
});

test.each([
  ["end", "done 1 complete"],
  ["calls", "done 1 complete"],
  ["length", "done 1 limit: the model reached its own limit on a reply's length"],
  ["refusal", "done 1 failed: the model refused to answer"],
] as const)("a reply without calls that stops by %s ends its turn so", (stop, done) => {
  const said = says(1, "text");
  const event = { ...said, answer: { ...said.answer, stop } };
  expect(play(CONFIG, turn(1), event as typeof said).last).toEqual([
    "2 emit text",
    "3 save",
    `4 ${done}`,
  ]);
});

test("the calls of a reply that is refused do not go out", () => {
  const called = calls(1, run("a"));
  const event = { ...called, answer: { ...called.answer, stop: "refusal" } } as typeof called;
  const { last, talk } = play(CONFIG, turn(1), event);
  expect(last).toEqual(["2 save", "3 done 1 failed: the model refused to answer"]);
  expect(talk).toEqual(["user prompt 1"]);
});

test("an answer that says nothing leaves no message", () => {
  const { last, talk } = play(CONFIG, turn(1), says(1, ""));
  expect(last).toEqual(["2 save", "3 done 1 complete"]);
  expect(talk).toEqual(["user prompt 1"]);
});

test("a steer is told at the next model call, in front of no result", () => {
  const { last } = play(
    CONFIG,
    turn(1),
    calls(1, run("a"), run("b")),
    steer("use tabs"),
    ran(3),
    steer("and no semicolons"),
    ran(2),
  );
  expect(last).toEqual([
    "4 model from 1: assistant [a][b], tool a ok: exit code 0 after 5 ms, tool b ok: exit code 0 after 5 ms, user use tabs, user and no semicolons",
  ]);
});

test("a steer outside a turn waits for the next one, and is told once", () => {
  const { lines } = play(CONFIG, steer("use tabs"), turn(1), says(1, "hi"), turn(2));
  expect(lines[0]).toBe("1 model from 0: user prompt 1, user use tabs");
  expect(lines.at(-1)).toBe("5 model from 2: assistant hi, user prompt 2");
});

test("a steer that is delivered twice is told once, and an empty one is none", () => {
  const { state } = play(CONFIG, steer("a"), steer("b"), steer("b"), steer(""));
  expect(state.steers).toEqual(["a", "b"]);
  expect(play(CONFIG, steer("a"), steer("b"), steer("a")).state.steers).toEqual(["a", "b", "a"]);
});

test("time saves what has changed, once", () => {
  expect(play(CONFIG, TIMER).lines).toEqual([]);
  const played = play(CONFIG, turn(1), TIMER);
  expect(played.last).toEqual(["2 save"]);
  expect(resume(played.state, TIMER)).toMatchObject({ state: played.state, lines: [] });
  expect(resume(played.state, steer("a"), TIMER).last).toEqual(["3 save"]);
  const queued = resume(played.state, turn(2), TIMER, cancel(2), TIMER);
  expect(queued.lines).toEqual(["3 save", "4 done 2 cancelled: turn 2 was cancelled", "5 save"]);
  expect(play(CONFIG, turn(1), says(1, "hi"), TIMER).last).toEqual([]);
});
