import type { Action, EffectEvent, ModelAnswer, ModelEvent, SessionId } from "@dev/protocol";
import { expect, test } from "vitest";
import type { TurnEnd } from "../src/progress.ts";
import { Tallies } from "../src/tally.ts";
import { action, asks, done, EXEC, replies } from "./notation.ts";

const refuses = ({ id }: Action): EffectEvent => ({
  kind: "exec",
  id,
  outcome: { kind: "refused", rule: "r", reason: "no" },
});

function tallied(fill: (tallies: Tallies) => void): TurnEnd {
  const tallies = new Tallies();
  fill(tallies);
  return tallies.end("s" as SessionId, done(1));
}

test("every agent's calls count, whatever they were for; and only the session's own agent speaks", () => {
  const end = tallied((tallies) => {
    const root = action(1, asks("x"));
    tallies.take(root, replies(root, "mine", [EXEC], 10));
    tallies.mint(action(5, { kind: "emit", text: "mine" }));
    const sub = action(2, asks("y"), { agent: 1 });
    tallies.take(sub, replies(sub, "another's", [], 200));
    tallies.mint(action(6, { kind: "emit", text: "another's" }, { agent: 1 }));
    tallies.mint(root);
    const compact = action(3, asks("sum up", "compact"));
    tallies.take(compact, replies(compact, "a summary", [], 3000));
    const other = action(4, asks("z"), { turn: 2 });
    tallies.take(other, replies(other, "later", [], 9));
  });
  expect(end).toMatchObject({ message: "mine", costMicroUsd: 3210, refused: false });
  expect(end.usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
});

test("what failed is paid for too", () => {
  const end = tallied((tallies) => {
    const root = action(1, asks("x"));
    const answer = { kind: "cancelled", partial: "half" } as const;
    tallies.take(root, { ...replies(root, "", [], 5), answer });
  });
  expect(end).toMatchObject({ message: "", costMicroUsd: 5, usage: { inputTokens: 1 } });
});

test("a refusal counts while its agent makes no other calls, nor does the session's own", () => {
  const root = action(1, asks("x"));
  const sub = action(2, asks("y"), { agent: 1 });
  const command = action(3, EXEC, { agent: 1 });
  const refused = (...after: Action[]): boolean =>
    tallied((tallies) => {
      tallies.take(command, refuses(command));
      for (const each of after) tallies.take(each, replies(each, "", [EXEC]));
    }).refused;
  expect(refused()).toBe(true);
  expect(refused(action(4, asks("z"), { agent: 2 }))).toBe(true);
  expect(refused(action(4, asks("z", "compact"), { agent: 1 }))).toBe(true);
  expect(refused(sub)).toBe(false);
  expect(refused(root)).toBe(false);
  const spoke = tallied((tallies) => {
    tallies.take(command, refuses(command));
    tallies.take(sub, replies(sub, "I may not"));
    tallies.take(root, replies(root, "it may not"));
  });
  expect(spoke.refused).toBe(true);
});

test("what is heard of a turn after its end is in its account, until that is asked for", () => {
  const tallies = new Tallies();
  const [root, sub] = [action(1, asks("x")), action(2, asks("y"), { agent: 1 })];
  tallies.take(root, replies(root, "", [EXEC], 10));
  expect(tallies.hasEnded).toBe(false);
  tallies.done(done(1, "limit"));
  expect(tallies.hasEnded).toBe(true);
  tallies.take(sub, replies(sub, "late", [], 200));
  const session = "s" as SessionId;
  expect(tallies.last(session)).toMatchObject({ outcome: "limit", costMicroUsd: 210, answer: "" });
  expect(tallies.last(session)).toMatchObject({ turn: 1, costMicroUsd: 210 });
});

test("an answer is what the session's own agent said with no calls, whole or cut", () => {
  const root = action(1, asks("x"));
  const said = replies(root, "as far as it", []);
  const cut = { ...said, answer: { ...said.answer, stop: "length" } as ModelAnswer };
  const answerOf = (event: ModelEvent) => tallied((tallies) => tallies.take(root, event)).answer;
  expect(answerOf(cut)).toBe("as far as it");
  expect(answerOf(replies(root, "on the way", [EXEC]))).toBe("");
});
