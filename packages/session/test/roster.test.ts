import type { Action, AgentId, DoneOp, Event, ModelAnswer, TurnId } from "@dev/protocol";
import { expect, test } from "vitest";
import { type MemberStep, Roster } from "../src/roster.ts";
import { action, asks, done, EXEC, replies, spawns } from "./notation.ts";

const agents = (...ids: number[]): ReadonlySet<AgentId> => new Set(ids as AgentId[]);
const namesOf = (members: readonly { kind: string; agent: number }[]): readonly string[] =>
  members.map(({ kind, agent }) => `${kind || "usual"} ${agent}`);

test("a sub-agent is known by the call that its first ask repeats, one that was refused left out", () => {
  const roster = new Roster();
  const root = action(1, asks("do it"));
  roster.hear(root, replies(root, "", [spawns("x", "a"), spawns("y", "b"), spawns("x", "c")]));
  const first = roster.ask(action(2, asks("y"), { agent: 1 }));
  expect(first).toMatchObject({ kind: "b", task: "y", parent: 0, agent: 1 });
  expect(roster.ask(action(3, asks("x"), { agent: 2 }))).toMatchObject({ kind: "a" });
  expect(roster.ask(action(4, asks("x"), { agent: 3 }))).toMatchObject({ kind: "c" });
  expect(roster.ask(action(5, asks("y more"), { agent: 1 }))).toBe(null);
  expect(roster.ask(root)).toBe(null);
  expect(roster.ask(action(6, EXEC, { agent: 4 }))).toBe(null);
});

test("one that nobody is seen to have called for is shown all the same", () => {
  const member = new Roster().ask(action(2, asks("y"), { agent: 1 }));
  expect(member).toMatchObject({ agent: 1, parent: 0, kind: "", task: "" });
});

test("a sub-agent rests when it waits for nothing, nor does any that works for it", () => {
  const roster = new Roster();
  const root = action(1, asks("do it"));
  roster.hear(root, replies(root, "", [spawns("x", "a"), spawns("y", "b")]));
  const child = action(2, asks("x"), { agent: 1 });
  roster.ask(child);
  roster.ask(action(3, asks("y"), { agent: 2 }));
  roster.hear(child, replies(child, "", [spawns("z", "c")]));
  roster.ask(action(4, asks("z"), { agent: 3 }));
  expect(roster.rest(agents(2, 3))).toEqual([]);
  expect(namesOf(roster.rest(agents(3)))).toEqual(["b 2"]);
  expect(namesOf(roster.members())).toEqual(["a 1", "c 3"]);
  expect(namesOf(roster.rest(agents(0)))).toEqual(["a 1", "c 3"]);
  expect(roster.rest(agents())).toEqual([]);
});

test("a call of a turn that has ended is nobody's any more", () => {
  const roster = new Roster();
  const root = action(1, asks("do it"));
  roster.hear(root, replies(root, "", [spawns("x", "a")]));
  roster.retire(1 as TurnId);
  expect(roster.ask(action(2, asks("x"), { agent: 1 }))).toMatchObject({ kind: "" });
});

/** A roster at work: agent 1, of the call `1_0` of the session's own agent, in turn 1. */
function oneAtWork(): Roster {
  const roster = new Roster();
  const root = action(1, asks("do it"));
  roster.hear(root, replies(root, "", [spawns("x"), spawns("y")]));
  roster.ask(ASK);
  return roster;
}

const ASK = action(2, asks("x"), { agent: 1 });
const step = (event: Event, minted: readonly Action[] = [], answered: Action | null = ASK) => {
  return { answered, event, minted };
};
const endsOf = (roster: Roster, of: MemberStep) => roster.ends(agents(), of).map(([, end]) => end);
/** The session's own agent goes on, told so of the call that made the sub-agent. */
const told = (text: string, failed = true): Action => {
  const op = asks("");
  const messages = [{ kind: "tool", ref: "1_0", text, failed }] as const;
  return action(9, { ...op, from: 1, messages });
};

test("a sub-agent is complete when it says its last, and else its answer says why not", () => {
  const endOf = (answer: ModelAnswer) =>
    endsOf(oneAtWork(), step({ ...replies(ASK, ""), answer }))[0];
  const { answer: said } = replies(ASK, "all well");
  expect(endOf(said)).toEqual({ outcome: "complete", text: "all well" });
  const stopped = (stop: "length" | "refusal") => endOf({ ...said, stop } as ModelAnswer);
  expect(stopped("length")).toMatchObject({ outcome: "limit" });
  expect(stopped("refusal")).toMatchObject({ outcome: "failed" });
  const fault = { code: "cut", message: "it broke off", subject: "", mend: "" } as const;
  const failed = { kind: "failed", fault, partial: "" } as const;
  expect(endOf(failed)).toEqual({ outcome: "failed", text: "it broke off" });
  const cancelled = { kind: "cancelled", partial: "half" } as const;
  expect(endOf(cancelled)).toEqual({ outcome: "stopped", text: "half" });
});

test("one whose calls were not done ended for the reason that its parent is told, when it is told", () => {
  const roster = oneAtWork();
  const did = "failed: the agent did not finish: ";
  expect(endsOf(roster, step(replies(ASK, "again", [EXEC])))).toEqual([]);
  const after = step({ kind: "timer" }, [told(`${did}callsPerReply: 3 of 2\nThe last`)], null);
  expect(endsOf(roster, after)).toEqual([{ outcome: "limit", text: "callsPerReply: 3 of 2" }]);
  expect(endsOf(roster, after)).toEqual([]);
  const full = step(replies(ASK, "", [EXEC]), [told(`${did}what must stay does not fit`)]);
  expect(endsOf(oneAtWork(), full)).toEqual([
    { outcome: "failed", text: "what must stay does not fit" },
  ]);
});

test("the answer to a compaction is no end of the one that compacts", () => {
  const compaction = action(3, asks("sum up", "compact"), { agent: 1 });
  const missing = told("failed: the agent did not finish: the conversation was not summarised");
  const ended = endsOf(oneAtWork(), step(replies(compaction, ""), [missing], compaction));
  expect(ended).toEqual([{ outcome: "failed", text: "the conversation was not summarised" }]);
});

test("one that its turn ended with says so, and which limit the turn reached", () => {
  const endWith = (outcome: DoneOp["outcome"], reason: string) => {
    const end = action(9, { ...done(1, outcome), reason });
    return endsOf(oneAtWork(), step({ kind: "timer" }, [end], null));
  };
  expect(endWith("limit", "modelCallsPerTurn: 2 were made")).toEqual([
    { outcome: "limit", text: "modelCallsPerTurn: 2 were made" },
  ]);
  expect(endWith("cancelled", "it was cancelled")).toEqual([{ outcome: "stopped", text: "" }]);
});
