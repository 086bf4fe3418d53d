import { restore, snapshot, UNHEARD_LIMIT } from "@dev/core";
import type { Event } from "@dev/protocol";
import { NO_USAGE } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  cancel,
  chose,
  limited,
  modelFailed,
  modelStopped,
  play,
  ran,
  read,
  resume,
  root,
  run,
  says,
  spawn,
  steer,
  turn,
  using,
} from "./notation.ts";

test("modelCallsPerTurn ends the turn with every call answered, and the next turn counts anew", () => {
  const config = limited({ modelCallsPerTurn: 2 });
  const { last, talk, state } = play(
    config,
    turn(1),
    calls(1, run("a")),
    ran(2),
    calls(3, run("b")),
    ran(4),
  );
  expect(last).toEqual(["5 save", "6 done 1 limit: modelCallsPerTurn: 2 were made"]);
  expect(talk.at(-1)).toBe("tool a ok: exit code 0 after 5 ms");
  expect(resume(state, turn(2)).lines).toHaveLength(1);
});

test("calls that are answered in place count as well, so that no reply can go on for ever", () => {
  const config = limited({ modelCallsPerTurn: 3, identicalReplies: 100 });
  const bad = (id: number): Event => calls(id, read("/x"));
  const { last } = play(config, turn(1), bad(1), bad(2), bad(3));
  expect(last).toEqual(["4 save", "5 done 1 limit: modelCallsPerTurn: 3 were made"]);
});

test("identicalReplies ends a turn that makes the same calls again and again", () => {
  const config = limited({ identicalReplies: 2 });
  const { last, talk } = play(
    config,
    turn(1),
    calls(1, run("a")),
    ran(2),
    calls(3, run("a")),
    ran(4),
    calls(5, run("a")),
  );
  const over = "identicalReplies: the same calls 3 times in a row";
  expect(last).toEqual(["6 save", `7 done 1 limit: ${over}`]);
  expect(talk.slice(-2)).toEqual(["assistant [a]", `tool a failed: not run: ${over}`]);
});

test("other calls in between, or another turn, begin the count of identical replies anew", () => {
  const config = limited({ identicalReplies: 1 });
  const varied = play(
    config,
    turn(1),
    calls(1, run("a")),
    ran(2),
    calls(3, run("b")),
    ran(4),
    calls(5, run("a")),
  );
  expect(varied.last).toEqual(["6 exec a"]);
  const apart = play(config, turn(1), calls(1, run("a")), cancel(1), turn(2), calls(5, run("a")));
  expect(apart.last).toEqual(["6 exec a"]);
});

test("callsPerReply answers every call of the reply, and runs none", () => {
  const config = limited({ callsPerReply: 2 });
  const { last, talk } = play(config, turn(1), calls(1, run("a"), run("b"), run("c")));
  const over = "callsPerReply: 3 calls in one reply, of 2";
  expect(last).toEqual(["2 save", `3 done 1 limit: ${over}`]);
  expect(talk.slice(2)).toEqual(
    ["a", "b", "c"].map((ref) => `tool ${ref} failed: not run: ${over}`),
  );
  expect(play(config, turn(1), calls(1, run("a"), run("b"))).last).toEqual([
    "2 exec a",
    "3 exec b",
  ]);
});

test("a limit that is reached with calls leaves what the model said", () => {
  const called = calls(1, run("a"), run("b"));
  const event = { ...called, answer: { ...called.answer, text: "Look:" } } as typeof called;
  const { last } = play(limited({ callsPerReply: 1 }), turn(1), event);
  expect(last).toEqual([
    "2 emit Look:",
    "3 save",
    "4 done 1 limit: callsPerReply: 2 calls in one reply, of 1",
  ]);
});

test("messageBytes keeps a prompt out, counted as JSON in UTF-8 and with its images", () => {
  const config = limited({ messageBytes: 100 });
  const bytes = (text: string) => JSON.stringify({ kind: "user", text, images: [] }).length;
  const room = 100 - bytes("");
  expect(play(config, turn(1, "x".repeat(room))).last).toHaveLength(1);
  const over = play(config, turn(1, "x".repeat(room + 1)));
  expect(over.last).toEqual([
    "1 save",
    "2 done 1 limit: messageBytes: the prompt has 101 bytes, of 100",
  ]);
  expect(over.talk).toEqual([]);
  expect(play(config, turn(1, "é".repeat(room / 2 + 1))).talk).toEqual([]);
  const images = [{ mediaType: "image/png", data: "x".repeat(100) }];
  const seeing = { ...config, images: true };
  expect(play(seeing, { ...turn(1, ""), images }).last[1]).toContain("limit: messageBytes");
});

test("messageBytes ends the turn of a reply that is over it, and keeps no call of it", () => {
  const config = limited({ messageBytes: 200 });
  const said = play(config, turn(1), says(1, "x".repeat(200)));
  expect(said.last).toEqual([
    "2 save",
    "3 done 1 limit: messageBytes: the reply has 268 bytes, of 200",
  ]);
  const called = play(config, turn(1), calls(1, run("x".repeat(200))));
  expect(called.last[1]).toMatch(/^3 done 1 limit: messageBytes/);
  expect([said.talk, called.talk]).toEqual([["user prompt 1"], ["user prompt 1"]]);
});

test("messageBytes cuts what a stopped model had said", () => {
  const { talk } = play(limited({ messageBytes: 100 }), turn(1), modelStopped(1, "x".repeat(999)));
  expect(talk[1]).toBe(`assistant ${"x".repeat(50)}\n(899 characters cut)\n${"x".repeat(50)}`);
});

test("resultBytes cuts the result of a call that is answered in place too", () => {
  const reason = "x".repeat(999);
  const { talk } = play(
    limited({ resultBytes: 10 }),
    turn(1),
    calls(1, { kind: "invalid", name: "run", reason, arguments: "" }, read("a")),
    cancel(1),
  );
  expect(talk[2]).toBe("tool a failed: faile\n(1020 characters cut)\nxxxxx");
});

test("conversationBytes ends a turn before its next ask, with every call answered", () => {
  const config = limited({ conversationBytes: 600 });
  const out = play(config, turn(1), calls(1, run("a")));
  const { last, talk, state } = resume(out.state, ran(2, "x".repeat(600)));
  expect(last[1]).toMatch(/^4 done 1 limit: conversationBytes: it would have \d+ bytes, of 600$/);
  expect(talk).toHaveLength(3);
  // The next prompts are kept out: a conversation at its limit stays as large as it is.
  const more = resume(state, turn(2), turn(3, "short"), turn(4, ""));
  expect(root(more.state).messages).toBe(root(state).messages);
  expect(more.lines.filter((line) => line.includes("done"))).toHaveLength(3);
});

test("conversationBytes holds for what waits, so that a queue cannot outgrow the conversation", () => {
  const config = limited({ conversationBytes: 400 });
  const { lines, state } = play(
    config,
    turn(1, "x".repeat(100)),
    turn(2, "x".repeat(100)),
    turn(3, "x".repeat(100)),
  );
  expect(lines.slice(1)).toEqual([
    "2 done 3 limit: conversationBytes: it would have 411 bytes, of 400",
  ]);
  expect(state.queue.map(({ id }) => id)).toEqual([2]);
});

test("a steer that no model could be told of waits on, and is told once", () => {
  const config = limited({ modelCallsPerTurn: 1 });
  const { lines } = play(config, turn(1), calls(1, run("a")), steer("use tabs"), ran(2), turn(2));
  expect(lines.at(-1)).toBe(
    "5 model from 1: assistant [a], tool a ok: exit code 0 after 5 ms, user prompt 2, user use tabs",
  );
});

test("queuedTurns ends a turn at once, and leaves those that wait", () => {
  const { last, state } = play(limited({ queuedTurns: 1 }), turn(1), turn(2), turn(3));
  expect(last).toEqual(["2 done 3 limit: queuedTurns: 1 turns are waiting already"]);
  expect(resume(state, turn(3)).lines).toEqual([]);
  expect(resume(state, says(1, "hi")).last.at(-1)).toBe(
    "6 model from 1: assistant hi, user prompt 2",
  );
});

test("tokensPerSession counts input and output of every answer, over all turns", () => {
  const config = limited({ tokensPerSession: 100 });
  const usage = { ...NO_USAGE, inputTokens: 40, outputTokens: 10 };
  const one = play(config, turn(1), says(1, "a", usage));
  expect(one.last.at(-1)).toBe("4 done 1 complete");
  const two = resume(one.state, turn(2), says(5, "b", usage), turn(3));
  expect(two.last).toEqual(["9 save", "10 done 3 limit: tokensPerSession: 100 of 100 are used"]);
  expect(
    play(CONFIG, turn(1), says(1, "a", { ...usage, inputTokens: 2 ** 53 - 1 }), turn(2)).last,
  ).toHaveLength(1);
});

test("costMicroUsdPerSession counts what every answer cost, over all turns", () => {
  const config = limited({ costMicroUsdPerSession: 100 });
  const dear = (id: number): Event => ({ ...says(id, "a"), costMicroUsd: 50 });
  const one = play(config, turn(1), dear(1));
  expect(one.last.at(-1)).toBe("4 done 1 complete");
  const two = resume(one.state, turn(2), dear(5), turn(3));
  expect(two.last).toEqual([
    "9 save",
    "10 done 3 limit: costMicroUsdPerSession: $0.0001 of $0.0001 are used",
  ]);
  const failed: Event = { ...modelFailed(1), costMicroUsd: 100 };
  expect(play(config, turn(1), failed, turn(2)).last[1]).toContain("limit: costMicroUsdPerSession");
});

test.each([
  [1_002, 1_000, "$0.001002 of $0.001"],
  [1_000_000, 1, "$1 of $0.000001"],
  [20_500_000, 20_000_000, "$20.5 of $20"],
])("a cost of %i millionths against %i is said as %s", (costMicroUsd, limit, figures) => {
  const config = limited({ costMicroUsdPerSession: limit });
  const { last } = play(config, turn(1), { ...says(1, "a"), costMicroUsd }, turn(2));
  expect(last[1]).toContain(`costMicroUsdPerSession: ${figures} are used`);
});

test("a reply whose provider says nothing of its usage counts as an estimate against a limit", () => {
  const config = limited({ tokensPerSession: 1000 });
  const reply = says(1, "x".repeat(300));
  const { state } = play(config, turn(1), reply);
  expect(state.tokenCount).toBe(Math.ceil(root(state).messageBytes / 3));
  expect(root(state).usedTokens).toBe(0);
  // It is hard: no call goes out past it.
  const full = resume(state, turn(2, "y".repeat(3000)), says(5, "z"), turn(3));
  expect(full.last[1]).toMatch(/done 3 limit: tokensPerSession: \d+ of 1000 are used/);
  expect(play(config, turn(1), modelFailed(1)).state.tokenCount).toBe(0);
  const said = { ...NO_USAGE, outputTokens: 1 };
  expect(play(config, turn(1), says(1, "x".repeat(300), said)).state.tokenCount).toBe(1);
  expect(play(CONFIG, turn(1), reply).state.tokenCount).toBe(0);
});

test("an answer that comes when its turn has ended is counted once, and does nothing else", () => {
  const config = limited({ modelCallsPerTurn: 3 });
  const able = { ...config, tools: [{ name: "spawn", description: "", parameters: "{}" }] };
  const pair = calls(1, spawn("x"), spawn("y"));
  const { state } = play(able, turn(1), pair, using(5, calls(2, read("a"))));
  expect(state.turn).toBeNull();
  expect(state.unheard.map(({ action }) => action)).toEqual([3]);
  const late = { ...using(70, calls(3, run("rm"))), costMicroUsd: 40 };
  const { state: after, lines } = resume(state, late);
  expect(lines).toEqual([]);
  expect(after).toEqual({
    ...state,
    tokenCount: state.tokenCount + 70,
    costMicroUsd: state.costMicroUsd + 40,
    unheard: [],
    dirty: true,
  });
  expect(resume(after, late).state).toBe(after);
  expect(restore(snapshot(state))).toEqual({ ok: true, value: state });
});

test("of the answers that no turn waits for, so many are awaited, and the oldest are forgotten", () => {
  const events = Array.from({ length: UNHEARD_LIMIT + 1 }, (_, at) => [
    turn(at + 1),
    cancel(at + 1),
  ]);
  const { state } = play(CONFIG, ...events.flat());
  expect(state.unheard).toHaveLength(UNHEARD_LIMIT);
  expect(resume(state, using(5, says(1, "x"))).state).toBe(state);
  expect(resume(state, using(5, says(4, "x"))).state.tokenCount).toBe(5);
});

test("results that wait in the slots of all agents count, and end the turn when one does not fit", () => {
  const config = {
    ...limited({ conversationBytes: 1700 }),
    tools: ["spawn", "exec"].map((name) => ({ name, description: "", parameters: "{}" })),
  };
  const both = calls(1, spawn("x"), spawn("y"));
  const out = play(
    config,
    turn(1),
    both,
    calls(2, run("a"), run("b")),
    calls(3, run("c"), run("d")),
  );
  const one = resume(out.state, ran(4, "x".repeat(300)));
  expect(one.lines).toEqual([]);
  expect((one.state.agents[1]?.messageBytes ?? 0) - (out.state.agents[1]?.messageBytes ?? 0)).toBe(
    JSON.stringify({ kind: "tool", ref: "a", failed: false, text: told("x".repeat(300)) }).length,
  );
  const two = resume(one.state, ran(6, "x".repeat(600)));
  expect(two.last[1]).toMatch(
    /^9 done 1 limit: conversationBytes: it would have \d+ bytes, of 1700$/,
  );
});

function told(stdout: string): string {
  return `exit code 0 after 5 ms\nstdout:\n${stdout}`;
}

test("a reply that leaves no room runs none of its calls", () => {
  const config = limited({ conversationBytes: 600 });
  const { last } = play(config, turn(1), calls(1, run("x".repeat(600))));
  expect(last[1]).toMatch(/^3 done 1 limit: conversationBytes/);
});

test("counts of tokens and of cost stay at the end of the integers that are exact", () => {
  const most = Number.MAX_SAFE_INTEGER;
  const usage = { ...NO_USAGE, inputTokens: most, outputTokens: most };
  const dear = (id: number): Event => ({ ...says(id, "a", usage), costMicroUsd: most });
  const { state } = play(CONFIG, turn(1), dear(1), turn(2), dear(5));
  expect([state.tokenCount, state.costMicroUsd]).toEqual([most, most]);
  expect(restore(snapshot(state))).toEqual({ ok: true, value: state });
});

test("what a provider wants back with a message is weighed like the rest of it", () => {
  const said = says(1, "yes");
  const signed = { ...said, answer: { ...said.answer, opaque: "é".repeat(100) } } as typeof said;
  const bytes = (event: Event) => root(play(CONFIG, turn(1), event).state).messageBytes;
  expect(bytes(signed) - bytes(said)).toBe(200);
  const { last } = play(limited({ messageBytes: 200 }), turn(1), signed);
  expect(last[1]).toContain("limit: messageBytes");
});

test("every turn that waits ends when a limit of the session is reached", () => {
  const config = limited({ tokensPerSession: 1 });
  const usage = { ...NO_USAGE, outputTokens: 1 };
  const { lines, state } = play(config, turn(1), turn(2), turn(3), says(1, "a", usage));
  expect(lines.filter((line) => / done /.test(line))).toEqual([
    "4 done 1 complete",
    "6 done 2 limit: tokensPerSession: 1 of 1 are used",
    "8 done 3 limit: tokensPerSession: 1 of 1 are used",
  ]);
  expect([state.turn, state.queue]).toEqual([null, []]);
});

test("steers past their number become one, and none of their words is lost", () => {
  const { state } = play(limited({ steers: 2 }), ...["a", "b", "c", "d"].map(steer));
  expect(state.steers).toEqual(["a\nb\nc", "d"]);
});

test("steers past messageBytes become one that is cut, and the last stays as it is", () => {
  const { state } = play(
    limited({ messageBytes: 100 }),
    ...["a", "b", "c"].map((letter) => steer(letter.repeat(60))),
  );
  const [first = "", last] = state.steers;
  expect(last).toBe("c".repeat(60));
  expect(first).toMatch(/^a+\n\(21 characters cut\)\nb+$/);
  const long = play(limited({ messageBytes: 100 }), steer("x".repeat(999)));
  expect(long.state.steers[0]).toHaveLength(100 + "\n(899 characters cut)\n".length);
});

test("a config of an older release has the default of a limit that it does not name", () => {
  const { queuedTurns: _, ...older } = limited({}).limits;
  const { state } = play({ ...CONFIG, limits: older as typeof CONFIG.limits }, turn(1));
  expect(state.config.limits.queuedTurns).toBe(64);
});

test("an answer to a question is cut as a result is", () => {
  const ask = { kind: "question", text: "Which?", choices: [], many: false } as const;
  const { talk } = play(limited({ resultBytes: 4 }), turn(1), calls(1, ask), chose(2, "abcdefgh"));
  expect(talk[2]).toBe("tool a ok: ab\n(4 characters cut)\ngh");
});
