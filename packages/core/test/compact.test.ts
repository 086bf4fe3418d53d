import type { Config } from "@dev/core";
import type { Action, Event, Message } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  cancel,
  limited,
  modelFailed,
  modelStopped,
  play,
  ran,
  resume,
  root,
  run,
  says,
  steer,
  turn,
  using,
} from "./notation.ts";

/** A window of 1000 tokens, of which 80 % may be used, and so little kept that only the newest is. */
const CONFIG_SMALL: Config = { ...limited({ keptBytes: 1 }), windowTokens: 1000 };

/** A turn whose conversation is full when its one call has its result. */
const FULL: readonly Event[] = [turn(1, "begin"), using(800, calls(1, run("a"))), ran(2, "out")];

const FIRST = "user The conversation before this, in a summary:\n\n";
const RESULT = "tool a ok: exit code 0 after 5 ms\nstdout:\nout";

function asksOf(actions: readonly Action[]): readonly (Action["op"] & { kind: "model" })[] {
  return actions.flatMap(({ op }) => (op.kind === "model" ? [op] : []));
}

test("a conversation over its share is compacted in front of the next ask, in the midst of a turn", () => {
  const { actions, state } = play(CONFIG_SMALL, ...FULL);
  const summary = asksOf(actions)[1];
  expect(summary).toMatchObject({ purpose: "compact", from: 1, prelude: "", tools: [] });
  expect(summary?.messages.map(({ kind }) => kind)).toEqual(["user"]);
  expect(instructionOf(actions)).toMatch(/^Summarise this conversation\./);
  const after = resume(state, says(3, "A was run."));
  expect(after.last).toEqual([`4 model from 0: ${FIRST}A was run., assistant [a], ${RESULT}`]);
  expect(asksOf(after.actions)[0]).toMatchObject({
    purpose: "turn",
    prelude: CONFIG.prelude,
    tools: CONFIG.tools,
  });
  expect(resume(after.state, says(4, "done")).last).toEqual([
    "5 emit done",
    "6 save",
    "7 done 1 complete",
  ]);
});

function instructionOf(actions: readonly Action[]): string {
  const last = asksOf(actions)
    .findLast(({ purpose }) => purpose === "compact")
    ?.messages.at(-1);
  return last?.kind === "user" ? last.text : "";
}

test("a conversation just below its share is not compacted, and one without a window never is", () => {
  const below = [turn(1), using(799, calls(1, run("a"))), ran(2)];
  expect(play(CONFIG_SMALL, ...below).last[0]).toContain("3 model from 1");
  const endless = { ...CONFIG_SMALL, windowTokens: 0 };
  expect(play(endless, ...FULL).last[0]).toContain("3 model from 1");
});

test("a share of nothing is not reached before an answer", () => {
  const config = { ...limited({ compactPercent: 0, keptBytes: 1 }), windowTokens: 1000 };
  expect(play(config, turn(1)).last).toEqual(["1 model from 0: user prompt 1"]);
  expect(play(config, turn(1), using(1, calls(1, run("a"))), ran(2)).last[0]).toContain("compact");
});

test("input and output count together, and an answer that says nothing of its usage leaves what was said", () => {
  const usage = { inputTokens: 500, cachedTokens: 400, outputTokens: 300, reasoningTokens: 100 };
  const called = { ...calls(1, run("a")), usage };
  expect(play(CONFIG_SMALL, turn(1), called, ran(2)).last[0]).toContain("3 compact from 1");
  const { state } = play(CONFIG_SMALL, turn(1), using(700, calls(1, run("a"))), ran(2));
  expect(root(resume(state, says(3, "done")).state).usedTokens).toBe(700);
});

test("what is asked to be summarised may be more than the host was told", () => {
  const { last } = play(
    CONFIG_SMALL,
    turn(1, "begin"),
    using(900, says(1, "yes")),
    turn(2, "go on"),
  );
  expect(last[0]).toMatch(/^5 compact from 1: assistant yes, user Summarise/);
});

test("the newest messages stay as they are, as many as keptBytes has room for", () => {
  const events: Event[] = [];
  for (let id = 1; id <= 5; id++)
    events.push(turn(id, `prompt ${id}`), says(4 * id - 3, `answer ${id}`));
  const sizeOf = (message: Message | undefined) => JSON.stringify(message).length;
  const { state } = play(CONFIG, ...events);
  const newest = root(state).messages.slice(-3);
  const keptBytes = newest.reduce((sum, message) => sum + sizeOf(message), 0);
  const cutAt = (bytes: number) => {
    const config = { ...limited({ keptBytes: bytes }), windowTokens: 100_000 };
    const full = events.map((event) => (event.kind === "model" ? using(80_000, event) : event));
    // Only the last answer is over the share.
    const played = play(config, ...events.slice(0, -1), ...full.slice(-1), turn(6, ""));
    return played.last[0];
  };
  expect(cutAt(keptBytes)).toMatch(/^21 compact from 7: user Summ/);
  expect(cutAt(keptBytes - 1)).toMatch(/^21 compact from 8: user Summ/);
  expect(cutAt(0)).toMatch(/^21 compact from 9: user Summ/);
});

test("a small window keeps less than keptBytes, in bytes no more than it has tokens", () => {
  const start = [turn(1, "x".repeat(150)), says(1, "y".repeat(150)), turn(2, "z")];
  const cutIn = (windowTokens: number) => {
    const config = { ...limited({ keptBytes: 1 << 20 }), windowTokens };
    const { state } = play(config, ...start, using(windowTokens, says(5, "ok")), turn(3, ""));
    const { phase } = root(state);
    return phase.kind === "compacting" ? phase.cut : null;
  };
  const { messages } = root(play(CONFIG, ...start, says(5, "ok")).state);
  const sizes = messages.map((message) => JSON.stringify(message).length);
  const exchange = (sizes[3] ?? 0) + (sizes[2] ?? 0);
  const more = exchange + (sizes[1] ?? 0);
  expect([exchange - 1, exchange, more - 1, more].map(cutIn)).toEqual([3, 2, 2, 1]);
});

test("a call is never parted from its results, and what is kept never begins with one", () => {
  for (let keptBytes = 0; keptBytes < 1500; keptBytes += 20) {
    const config = { ...limited({ keptBytes }), windowTokens: 10_000 };
    const { state } = play(
      config,
      turn(1),
      calls(1, run("a"), run("b"), run("c")),
      ...[ran(2, "x".repeat(100)), ran(3, "y".repeat(100)), ran(4, "z".repeat(100))],
      using(9000, calls(5, run("d"), run("e"))),
      ran(6, "v"),
      ran(7, "w"),
    );
    const { phase, messages } = root(state);
    if (phase.kind !== "compacting") throw new Error("it is full");
    expect(["user", "assistant"]).toContain(messages[phase.cut]?.kind);
    expect(phase.cut).toBeGreaterThan(0);
  }
});

test("the summary carries the plan as it stands, and the next summary is asked about it", () => {
  const plan = { kind: "plan", items: [{ text: "mend", status: "active" }] } as const;
  const { state } = play(CONFIG_SMALL, turn(1), using(900, calls(1, plan, run("a"))), ran(2));
  const { last, state: after } = resume(state, says(3, "It looked."));
  expect(last[0]).toContain(
    `4 model from 0: ${FIRST}It looked.\n\nThe plan as it stands:\n[>] mend, assistant [a][b]`,
  );
  const again = resume(after, calls(4, run("b")), ran(5), using(900, calls(6, run("c"))), ran(7));
  const [ask] = asksOf(again.actions).slice(-1);
  expect(ask?.purpose).toBe("compact");
  expect(instructionOf(again.actions)).toContain("If an earlier summary stands above, carry on");
  // The one before it is among what is summarised: it is the first message, and the cut is behind it.
  expect(ask?.from).toBeGreaterThan(1);
  const { messages } = root(resume(again.state, says(8, "It looked twice.")).state);
  expect(messages[0]).toMatchObject({
    kind: "user",
    text: expect.stringContaining("It looked twice."),
  });
  expect(messages.filter(({ kind }) => kind === "user")).toHaveLength(1);
});

test("what a summary calls is not heard", () => {
  const called = { ...calls(3, run("rm")).answer, text: "It looked." } as never;
  const { last } = play(CONFIG_SMALL, ...FULL, { ...says(3, ""), answer: called });
  expect(last).toEqual([`4 model from 0: ${FIRST}It looked., assistant [a], ${RESULT}`]);
});

const REFUSED = {
  ...says(3, "I will not."),
  answer: { ...says(3, "I will not.").answer, stop: "refusal" },
};

test.each([
  [
    "an empty summary",
    says(3, " \n"),
    "failed: the conversation was not summarised: the answer is empty",
  ],
  [
    "a summary that is refused",
    REFUSED as Event,
    "failed: the conversation was not summarised: the model refused to answer",
  ],
  [
    "a model that fails",
    modelFailed(3),
    "failed: the conversation was not summarised: http://127.0.0.1:1: no answer (start it)",
  ],
  [
    "an overflow",
    modelFailed(3, "context_overflow"),
    "failed: the conversation was not summarised: http://127.0.0.1:1: no answer (start it)",
  ],
  ["a stopped model", modelStopped(3, "half a"), "cancelled: the model was stopped"],
  ["a cancel", cancel(1), "cancelled: it was cancelled"],
] as const)("%s ends the turn, and the conversation stays as it was", (_name, event, end) => {
  const { last, talk, state } = play(CONFIG_SMALL, ...FULL, event);
  expect(last).toEqual(["4 save", `5 done 1 ${end}`]);
  expect(talk).toEqual(["user begin", "assistant [a]", RESULT]);
  // The host is told it anew, and the next turn makes room again.
  const { lines } = resume(state, turn(2, "go on"), says(6, "It looked."));
  expect(lines[0]).toMatch(/^6 compact from 0: user begin, assistant \[a\], tool a ok/);
  expect(lines[1]).toBe(`7 model from 0: ${FIRST}It looked., user go on`);
});

test("an overflow leads to one compaction and one retry", () => {
  const endless = { ...CONFIG_SMALL, windowTokens: 0 };
  const overflowed = play(endless, ...FULL, modelFailed(3, "context_overflow"));
  expect(overflowed.last[0]).toMatch(/^4 compact from 1: user Summarise/);
  const retried = resume(overflowed.state, says(4, "A was run."));
  expect(retried.last[0]).toMatch(/^5 model from 0: /);
  expect(resume(retried.state, says(5, "done")).last.at(-1)).toBe("8 done 1 complete");
  expect(resume(retried.state, modelFailed(5, "context_overflow")).last).toEqual([
    "6 save",
    "7 done 1 failed: what must stay does not fit the model's window",
  ]);
});

test("an overflow with nothing to summarise fails", () => {
  expect(play(CONFIG_SMALL, turn(1), modelFailed(1, "context_overflow")).last).toEqual([
    "2 save",
    "3 done 1 failed: what must stay does not fit the model's window",
  ]);
});

test("an answer over the share right after a compaction leads to one more, that keeps less, and no third", () => {
  const { state } = play(CONFIG_SMALL, ...FULL, says(3, "A was run."));
  const again = resume(state, using(950, calls(4, run("b"))), ran(5));
  // What was kept the first time goes too.
  expect(again.last[0]).toMatch(/^6 compact from 3: user Summarise/);
  const retried = resume(again.state, says(6, "A and B were run."));
  expect(retried.last).toEqual([
    `7 model from 0: ${FIRST}A and B were run., assistant [a], tool a ok: exit code 0 after 5 ms`,
  ]);
  const last = resume(retried.state, using(960, calls(7, run("c"))), ran(8));
  expect(last.last).toEqual([
    "9 save",
    "10 done 1 failed: what must stay does not fit the model's window: 960 tokens were used, of 1000",
  ]);
  // An answer that fits between them makes room for two more.
  const fits = resume(retried.state, calls(7, run("c")), ran(8), using(950, calls(9, run("d"))));
  expect(resume(fits.state, ran(10)).last[0]).toMatch(/^11 compact/);
  // An answer that ends the turn is as good as any, and another turn may try once more.
  const ended = resume(state, using(950, says(4, "done")), turn(2, "again"));
  expect(ended.lines.slice(0, 3)).toEqual(["5 emit done", "6 save", "7 done 1 complete"]);
  expect(ended.last[0]).toMatch(/^8 compact from 3: assistant done, user Summarise/);
});

test("a conversation that fits again after a compaction may fill once more", () => {
  const { state } = play(CONFIG_SMALL, ...FULL, says(3, "A was run."));
  const { last } = resume(
    state,
    calls(4, run("b")),
    ran(5),
    using(950, calls(6, run("c"))),
    ran(7),
  );
  expect(last[0]).toMatch(/^8 compact from 5: user Summarise/);
});

test("a steer during a compaction waits for the ask behind it", () => {
  const { last } = play(CONFIG_SMALL, ...FULL, steer("use tabs"), says(3, "A was run."));
  expect(last).toEqual([
    `4 model from 0: ${FIRST}A was run., assistant [a], ${RESULT}, user use tabs`,
  ]);
});

test("/compact makes room at once, with what a person wants kept, and completes", () => {
  const two = [turn(1, "one"), says(1, "1"), turn(2, "two"), says(5, "2")];
  for (const [prompt, focus] of [
    ["/compact", ""],
    ["/compact the tests", "the tests"],
    ["/compact\nthe tests\nand more", "the tests\nand more"],
  ] as const) {
    const asked = play(CONFIG, ...two, turn(3, prompt));
    // All of it is small, and so the last exchange stays.
    expect(asked.last[0]).toMatch(/^9 compact from 2: user Summarise/);
    const kept = instructionOf(asked.actions).split("Above all keep this: ");
    expect(kept[1] ?? "").toBe(focus);
    const done = resume(asked.state, says(9, "They counted."));
    expect(done.last).toEqual([
      "10 emit All but the newest messages are a summary now.",
      "11 save",
      "12 done 3 complete",
    ]);
    expect(done.talk).toEqual([`${FIRST}They counted.`, "user two", "assistant 2"]);
    expect(resume(done.state, turn(4, "three")).last).toEqual([
      `13 model from 0: ${FIRST}They counted., user two, assistant 2, user three`,
    ]);
  }
});

test("/compact of one prompt with many calls keeps the last message with its results", () => {
  const long = [turn(1), calls(1, run("a")), ran(2), calls(3, run("b")), ran(4)];
  const said = play(CONFIG, ...long, says(5, "done"), turn(2, "/compact"), says(9, "It ran both."));
  expect(said.talk).toEqual([`${FIRST}It ran both.`, "assistant done"]);
  const stopped = play(CONFIG, ...long, cancel(1), turn(2, "/compact"), says(8, "It ran both."));
  expect(stopped.talk).toEqual([
    `${FIRST}It ran both.`,
    "assistant [a]",
    "tool a ok: exit code 0 after 5 ms",
  ]);
});

test("/compact with nothing to compact says so", () => {
  const nothing = ["emit There is nothing to compact.", "save", "done"];
  const words = (lines: readonly string[]) =>
    lines.map((line, index) => line.replace(/^\d+ /, "").slice(0, nothing[index]?.length));
  expect(words(play(CONFIG, turn(1, "/compact")).last)).toEqual(nothing);
  const one = [turn(1), says(1, "hi")];
  expect(words(play(CONFIG, ...one, turn(2, "/compact")).last)).toEqual(nothing);
  // A summary alone, in front of the last exchange, is not worth another.
  const twice = play(
    CONFIG,
    ...one,
    turn(2),
    says(5, "ho"),
    turn(3, "/compact"),
    says(9, "They met."),
  );
  expect(words(resume(twice.state, turn(4, "/compact")).last)).toEqual(nothing);
});

test.each(["/compacted", "/ compact", " /compact", "/compact\tx", "please /compact"])(
  "%j is a prompt like any other",
  (prompt) => {
    const { last } = play(CONFIG, turn(1), says(1, "a"), turn(2), says(5, "b"), turn(3, prompt));
    expect(last).toEqual([`9 model from 3: assistant b, user ${prompt}`]);
  },
);

test("/compact with an image is a prompt like any other", () => {
  const images = [{ mediaType: "image/png", data: "iVBORw0KGgo=" }];
  const two = [turn(1), says(1, "a"), turn(2), says(5, "b")];
  const { last } = play({ ...CONFIG, images: true }, ...two, { ...turn(3, "/compact"), images });
  expect(last).toEqual(["9 model from 3: assistant b, user /compact"]);
});

test("/compact waits for its turn like any other prompt", () => {
  const { last } = play(CONFIG, turn(1), says(1, "a"), turn(2), turn(3, "/compact"), says(5, "b"));
  expect(last[3]).toMatch(/^9 compact from 2: user Summarise/);
});

test("/compact is the way out of a conversation that is full", () => {
  const config = limited({ conversationBytes: 2000, keptBytes: 500 });
  const full = play(config, turn(1), calls(1, run("a")), ran(2, "x".repeat(2000)));
  expect(resume(full.state, turn(2, "go on")).last[1]).toContain("limit: conversationBytes");
  const more = play(config, turn(1, "x".repeat(1600)), says(1, "ok"), turn(2), calls(5, run("a")));
  const over = resume(more.state, ran(6, "y".repeat(100)));
  expect(over.last[1]).toContain("limit: conversationBytes");
  const room = resume(over.state, turn(3, "/compact"), says(9, "It ran."), turn(4, "go on"));
  expect(room.lines.slice(1, 4)).toEqual([
    "10 emit All but the newest messages are a summary now.",
    "11 save",
    "12 done 3 complete",
  ]);
  expect(room.last[0]).toMatch(/^13 model from 0: user The conversation before this/);
});

test("a compaction counts as a model call, of the turn and of the session", () => {
  const few = { ...limited({ keptBytes: 1, modelCallsPerTurn: 2 }), windowTokens: 1000 };
  expect(play(few, ...FULL, says(3, "A was run.")).last).toEqual([
    "4 save",
    "5 done 1 limit: modelCallsPerTurn: 2 were made",
  ]);
  const spent = { ...limited({ keptBytes: 1, tokensPerSession: 800 }), windowTokens: 1000 };
  expect(play(spent, ...FULL).last).toEqual([
    "3 save",
    "4 done 1 limit: tokensPerSession: 800 of 800 are used",
  ]);
  const dear = play(CONFIG_SMALL, ...FULL, using(70, says(3, "A was run.")));
  expect(dear.state.tokenCount).toBe(870);
});
