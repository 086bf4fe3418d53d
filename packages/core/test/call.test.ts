import type { ActionId, CallOp, Event, Outcome } from "@dev/protocol";
import { fault, isWellFormed } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CONFIG,
  calls,
  chose,
  exec,
  had,
  limited,
  play,
  ran,
  read,
  resume,
  root,
  run,
  says,
  turn,
} from "./notation.ts";

const ASK: CallOp = { kind: "question", text: "Which?", choices: ["x", "y"], many: false };

test("the calls of one reply go out together", () => {
  expect(play(CONFIG, turn(1), calls(1, run("a"), read("b"), ASK)).last).toEqual([
    "2 exec a",
    "3 read b",
    "4 question Which?",
  ]);
});

test("results are told in the order of their calls, whatever the order they come in", () => {
  const out = play(CONFIG, turn(1), calls(1, run("a"), read("b"), ASK));
  const arrivals: readonly (readonly Event[])[] = [
    [ran(2), had(3, "text"), chose(4, "x")],
    [chose(4, "x"), had(3, "text"), ran(2)],
    [had(3, "text"), chose(4, "x"), ran(2)],
  ];
  const [first, ...others] = arrivals.map((events) => resume(out.state, ...events));
  expect(first?.lines).toEqual([
    `5 model from 1: assistant [a][b][c], tool a ok: exit code 0 after 5 ms, tool b ok: 1 lines, 4 bytes, sha256 ${"ab".repeat(32)}\ntext, tool c ok: x`,
  ]);
  for (const other of others) {
    expect(other.actions).toEqual(first?.actions);
    expect(other.state).toEqual(first?.state);
  }
});

test("the model is asked again when the last result has landed, and not before", () => {
  const { lines } = play(CONFIG, turn(1), calls(1, run("a"), run("b")), ran(3));
  expect(lines.slice(3)).toEqual([]);
  expect(play(CONFIG, turn(1), calls(1, run("a"), run("b")), ran(3), ran(2)).last).toHaveLength(1);
});

test("what a model says with its calls is emitted in front of them", () => {
  const called = calls(1, run("a"));
  const event = { ...called, answer: { ...called.answer, text: "I will look." } } as typeof called;
  const { last, lines } = play(CONFIG, turn(1), event, ran(3));
  expect(lines.slice(1, 3)).toEqual(["2 emit I will look.", "3 exec a"]);
  expect(last).toEqual([
    "4 model from 1: assistant I will look.[a], tool a ok: exit code 0 after 5 ms",
  ]);
});

test("a result that is not waited for, or of another family, changes nothing", () => {
  const { state } = play(CONFIG, turn(1), calls(1, run("a"), read("b")), ran(2));
  const strays: readonly Event[] = [
    ran(1),
    ran(2, "again"),
    ran(3),
    ran(4),
    had(2, "x"),
    chose(3, "x"),
    says(2, "x"),
    { kind: "git", id: 3 as ActionId, outcome: { kind: "unknown", known: "" } },
  ];
  for (const stray of strays) expect(resume(state, stray)).toMatchObject({ state, lines: [] });
});

const PLAN: CallOp = { kind: "plan", items: [{ text: "look", status: "active" }] };

test("a plan, a call that no one could read, and a sub-agent of no kind are answered in place", () => {
  const { last, state } = play(
    CONFIG,
    turn(1),
    calls(
      1,
      PLAN,
      { kind: "invalid", name: "run", reason: "argv: is missing", arguments: "{}" },
      { kind: "spawn", prompt: "look", agent: "scout", tools: [] },
    ),
  );
  expect(last).toEqual([
    '2 model from 1: assistant [a][b][c], tool a ok: [>] look, tool b failed: failed, nothing was done: run: argv: is missing, tool c failed: failed, nothing was done: agent: there is no kind named "scout"; there are none',
  ]);
  expect(root(state).plan).toEqual([{ text: "look", status: "active" }]);
});

test("a plan is told back with how far each item is", () => {
  const items = [
    { text: "look", status: "done" },
    { text: "mend", status: "active" },
    { text: "check", status: "pending" },
  ] as const;
  const told = (op: CallOp) => play(CONFIG, turn(1), calls(1, op)).talk[2];
  expect(told({ kind: "plan", items })).toBe("tool a ok: [x] look\n[>] mend\n[ ] check");
  expect(told({ kind: "plan", items: [] })).toBe("tool a ok: the plan is empty");
  const long = "x".repeat(2 * CONFIG.limits.resultBytes);
  const cut = told({ kind: "plan", items: [{ text: long, status: "active" }] });
  expect(cut).toMatch(/^tool a ok: \[>\] x+\n\(\d+ characters cut\)\nx+$/);
});

test("calls that are answered in place wait for those that go out", () => {
  const { lines } = play(CONFIG, turn(1), calls(1, PLAN, run("a"), PLAN));
  expect(lines.slice(1)).toEqual(["2 exec a"]);
  expect(play(CONFIG, turn(1), calls(1, PLAN, run("a"), PLAN), ran(2)).last).toEqual([
    "3 model from 1: assistant [a][b][c], tool a ok: [>] look, tool b ok: exit code 0 after 5 ms, tool c ok: [>] look",
  ]);
});

test("calls that share a ref, or have none, get refs of their own", () => {
  const called = calls(1, run("a"), run("b"), run("c"), run("d"), run("e"));
  if (called.answer.kind !== "reply") throw new Error("calls reply");
  const refs = ["x", "x", "", "x", "x#1"];
  const made = called.answer.calls.map((call, index) => ({ ...call, ref: refs[index] ?? "" }));
  const event = { ...called, answer: { ...called.answer, calls: made } };
  const { talk } = play(CONFIG, turn(1), event, ran(2, "1"), ran(3), ran(4), ran(5), ran(6));
  expect(talk[1]).toBe("assistant [x][x#1#][#2][x#3][x#1]");
  expect(talk.slice(2).map((told) => told.split(" ")[1])).toEqual([
    "x",
    "x#1#",
    "#2",
    "x#3",
    "x#1",
  ]);
  expect(talk[2]).toContain("stdout:\n1");
});

const OUTCOMES: readonly (readonly [Outcome, string])[] = [
  [
    { kind: "failed", fault: fault("spawn", "no such program", "frob", "install it") },
    "tool a failed: failed: frob: no such program (install it)",
  ],
  [
    { kind: "refused", rule: "guarded path", reason: "a person said no" },
    "tool a failed: refused, nothing was done: a person said no (rule: guarded path)",
  ],
  [
    { kind: "unknown", known: "The cell is gone." },
    "tool a failed: unknown: it was started, and whether it finished cannot be known. Check before doing it again. The cell is gone.",
  ],
  [
    { kind: "cancelled", known: "It had run for 3 s." },
    "tool a failed: cancelled: it was stopped; what it had done by then stays done. It had run for 3 s.",
  ],
  [
    { kind: "ok", result: { kind: "tool", text: "no such page", failed: true } },
    "tool a failed: the tool reported an error: no such page",
  ],
  [{ kind: "ok", result: { kind: "search", matches: [], cut: false } }, "tool a ok: no matches"],
  [
    {
      kind: "ok",
      result: { kind: "browse", status: 404, headers: [], body: "gone", cutBytes: 7 },
    },
    "tool a ok: status 404\ngone\n(7 bytes cut)",
  ],
];

test.each(OUTCOMES)("the model is told of %o", (outcome, told) => {
  expect(play(CONFIG, turn(1), calls(1, run("a")), exec(2, outcome)).talk[2]).toBe(told);
});

const EXEC = {
  kind: "exec",
  stdout: "out",
  stderr: "err",
  stdoutCutBytes: 9,
  stderrCutBytes: 0,
  durationMs: 12,
  outputPath: ".dev/2",
} as const;

test("the model is told how a command ended, what it wrote, and where what was cut lies", () => {
  const ended = (end: Parameters<typeof told>[0]) => told(end).split("\n")[0];
  expect(told({ kind: "exit", code: 1 })).toBe(
    "tool a ok: exit code 1 after 12 ms\nstdout:\nout\nstderr:\nerr\n(9 bytes of stdout and 0 of stderr were cut from the middle; the whole output is in .dev/2)",
  );
  expect(ended({ kind: "signal", signal: "SIGSEGV" })).toBe(
    "tool a ok: killed by SIGSEGV after 12 ms",
  );
  expect(ended({ kind: "timeout", afterMs: 100 })).toBe(
    "tool a ok: it reached its deadline of 100 ms and was killed",
  );
  expect(ended({ kind: "background", name: "b2" })).toBe(
    "tool a ok: running in the background as b2; its output goes to .dev/2",
  );
});

type End = Extract<
  Extract<Outcome, { readonly kind: "ok" }>["result"],
  { readonly kind: "exec" }
>["end"];

function told(end: End): string {
  const outcome: Outcome = { kind: "ok", result: { ...EXEC, end } };
  return play(CONFIG, turn(1), calls(1, run("a")), exec(2, outcome)).talk[2] ?? "";
}

test("a person's words and choices are the result of a question", () => {
  const words = { ...chose(2, "x", "y"), text: "but slowly" };
  expect(play(CONFIG, turn(1), calls(1, ASK), words).talk[2]).toBe("tool a ok: x\ny\nbut slowly");
  expect(play(CONFIG, turn(1), calls(1, ASK), chose(2)).talk[2]).toBe("tool a ok: (no answer)");
});

test.each([
  ["x".repeat(4000), 1000],
  ["é".repeat(4000), 1000],
  ["✓".repeat(4000), 1000],
  ["a🜁".repeat(4000), 1000],
  [`${"x".repeat(2000)}✓${"x".repeat(2000)}`, 1000],
  ["🜁🜁🜁", 7],
])(
  "a long result is cut in its middle, to whole characters, and to no less than fits",
  (text, resultBytes) => {
    const { talk } = play(limited({ resultBytes }), turn(1), calls(1, ASK), chose(2, text));
    const [head = "", note, tail = ""] = (talk[2] ?? "").replace("tool a ok: ", "").split("\n");
    expect(text.startsWith(head) && text.endsWith(tail)).toBe(true);
    expect(note).toBe(`(${text.length - head.length - tail.length} characters cut)`);
    const keptBytes = Buffer.byteLength(head) + Buffer.byteLength(tail);
    expect(keptBytes).toBeLessThanOrEqual(resultBytes);
    // At most one character of each end could not be had.
    expect(keptBytes).toBeGreaterThan(resultBytes - 10);
    expect(isWellFormed(`${head}${tail}`)).toBe(true);
  },
);

test("a result that just fits is whole", () => {
  const text = "é".repeat(500);
  const { talk } = play(limited({ resultBytes: 1000 }), turn(1), calls(1, ASK), chose(2, text));
  expect(talk[2]).toBe(`tool a ok: ${text}`);
});

test("asks tell each message once, so that a long session costs no more than its length", () => {
  const events: Event[] = [];
  for (let id = 1; id <= 500; id++) events.push(turn(id), says(4 * id - 3, "ok"));
  const { actions, state } = play(CONFIG, ...events);
  const counts = actions.flatMap(({ op }) => (op.kind === "model" ? [op.messages.length] : []));
  expect(root(state).messages).toHaveLength(1000);
  expect(counts.reduce((sum, count) => sum + count)).toBe(999);
});
