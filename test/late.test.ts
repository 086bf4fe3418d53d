import { DEFAULT_LIMITS } from "@dev/core";
import type { Ask, Router } from "@dev/model";
import type { ModelAnswer, SpawnOp } from "@dev/protocol";
import { expect, test } from "vitest";
import { NOBODY_STOPS, openRoom, prompt, type Room, value } from "./support/session.ts";

const LIMITS = { ...DEFAULT_LIMITS, modelCallsPerTurn: 3, tokensPerSession: 10_000 };
const TOKENS = { session: 10, ended: 100, stopped: 10_000 };

function says(...calls: Extract<ModelAnswer, { kind: "reply" }>["calls"]): ModelAnswer {
  const text = calls.length === 0 ? "done" : "";
  return { kind: "reply", text, reasoning: "", calls, stop: "end", opaque: "" };
}

function spawns(task: string): SpawnOp {
  return { kind: "spawn", prompt: task, agent: "", tools: [] };
}

/** Two sub-agents: the second asks once more than it may, while the first one's model still answers. */
function twoAgents(): Router {
  let firstAsked: () => void = () => {};
  const isFirstAsked = new Promise<void>((resolve) => {
    firstAsked = resolve;
  });
  const answer = async (ask: Ask, signal: AbortSignal): Promise<[ModelAnswer, number]> => {
    const told = JSON.stringify(ask.messages[0]);
    if (told.includes("Task one")) {
      firstAsked();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return [{ kind: "cancelled", partial: "half" }, TOKENS.stopped];
    }
    if (!told.includes("Task two")) {
      const ops = ["Task one", "Task two"].map(spawns);
      return [says(...ops.map((op, at) => ({ ref: `r${at}`, op }))), TOKENS.session];
    }
    await isFirstAsked;
    return [says({ ref: "p", op: { kind: "plan", items: [] } }), TOKENS.ended];
  };
  return {
    ask: async (ask, _, onAttempt, signal) => {
      await onAttempt(1, null);
      const [given, inputTokens] = await answer(ask, signal);
      const usage = { inputTokens, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 };
      return { answer: given, usage, costMicroUsd: inputTokens };
    },
    close: () => {},
  };
}

async function inRoom(check: (room: Room) => Promise<void>): Promise<void> {
  const room = await openRoom([], LIMITS);
  try {
    await check(room);
  } finally {
    await room.close();
  }
}

test("a model call that a limit stops is in the turn's account, the session's, and the ledger", () =>
  inRoom(async (room) => {
    const driver = await room.open({ router: twoAgents() });
    const inputTokens = TOKENS.session + TOKENS.ended + TOKENS.stopped;
    const end = value(await driver.run(prompt("do both"), NOBODY_STOPS));
    expect(end).toMatchObject({
      outcome: "limit",
      reason: "modelCallsPerTurn: 3 were made",
      usage: { inputTokens },
      costMicroUsd: inputTokens,
    });
    const calls = (await room.ledger()).filter(({ action }) => action.op.kind === "model");
    expect(calls).toHaveLength(3);
    for (const { lines } of calls) {
      expect(lines.at(-1)).toMatchObject({ state: "completed", detail: "" });
      expect(lines.at(-1)?.usage).not.toBe(null);
    }
    const late = room.told.filter(({ kind }) => kind === "late");
    expect(late).toMatchObject([{ action: { agent: 1 }, event: { kind: "model" } }]);
    await driver.close();
    // It counts for the session, in this driver's core and in one that was rebuilt.
    const next = await room.open({ router: twoAgents() });
    expect(value(await next.run(null, NOBODY_STOPS))).toMatchObject({ usage: { inputTokens } });
    expect(value(await next.run(prompt("more"), NOBODY_STOPS))).toMatchObject({
      outcome: "limit",
      reason: `tokensPerSession: ${inputTokens} of ${LIMITS.tokensPerSession} are used`,
    });
    await next.close();
  }));

test("of sub-agents that a limit ends with their turn it is said which", () =>
  inRoom(async (room) => {
    const driver = await room.open({ router: twoAgents() });
    value(await driver.run(prompt("do both"), NOBODY_STOPS));
    const ends = room.told.filter(({ kind }) => kind === "agent_ended");
    const end = { outcome: "limit", text: "modelCallsPerTurn: 3 were made" };
    expect(ends).toMatchObject([{ end }, { end }]);
    await driver.close();
  }));
