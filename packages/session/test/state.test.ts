import type { Event, TurnId } from "@dev/protocol";
import { expect, test } from "vitest";
import { answerIn } from "../src/answer.ts";
import { stateAfter } from "../src/state.ts";
import { action, asks, done } from "./notation.ts";

const prompt = (id: number, text: string): Event => ({
  kind: "turn",
  id: id as TurnId,
  prompt: text,
  images: [],
  mode: "ask",
});
const ended = (turn: number, outcome?: "complete" | "limit") =>
  action(9, done(turn, outcome), { turn });

test("a session is as its turn in flight ends, whatever else ended meanwhile", () => {
  const timer: Event = { kind: "timer" };
  const one = 1 as TurnId;
  expect(stateAfter(timer, [], "limit", null)).toBe("limit");
  expect(stateAfter(timer, [ended(1)], "active", one)).toBe("complete");
  expect(stateAfter(prompt(2, "x"), [ended(2)], "active", one)).toBe("active");
  expect(stateAfter(prompt(1, "x"), [ended(1, "limit")], "new", null)).toBe("limit");
  const next = action(10, asks("next"), { turn: 2 });
  expect(stateAfter(timer, [ended(1), next], "active", one)).toBe("active");
  expect(stateAfter(timer, [ended(1), ended(2, "limit")], "active", one)).toBe("limit");
});

test("a steer answers, and so does a prompt whose turn is complete at once", () => {
  expect(answerIn({ event: { kind: "steer", text: "yes" }, minted: [] })).toBe("yes");
  expect(answerIn({ event: prompt(2, "yes"), minted: [ended(2)] })).toBe("yes");
  expect(answerIn({ event: prompt(2, "yes"), minted: [] })).toBe(null);
  expect(answerIn({ event: prompt(2, "yes"), minted: [ended(2, "limit")] })).toBe(null);
  expect(answerIn({ event: prompt(2, ""), minted: [ended(2)] })).toBe(null);
  expect(answerIn({ event: { kind: "timer" }, minted: [] })).toBe(null);
});
