import {
  type Action,
  actionId,
  type Event,
  type Op,
  type Outcome,
  type Result,
  ROOT_AGENT,
  type SessionId,
  sessionId,
  turnId,
} from "@dev/protocol";
import type { Claim, Entry, NetworkRequest, NewSession, Store } from "@dev/store";

/** A small notation for what a driver writes. */

export const EXEC: Op = {
  kind: "exec",
  argv: ["true"],
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
};
export const MODEL: Op = {
  kind: "model",
  purpose: "turn",
  model: "test/one",
  effort: "default",
  from: 0,
  prelude: "",
  messages: [{ kind: "user", text: "grüß Gott 👋", images: [] }],
  tools: [],
};
export const QUESTION: Op = { kind: "question", text: "which?", choices: ["a"], many: false };
export const SAVE: Op = { kind: "save" };

export const USAGE = { inputTokens: 9, cachedTokens: 4, outputTokens: 2, reasoningTokens: 1 };
export const RAN: Outcome = {
  kind: "ok",
  result: {
    kind: "exec",
    end: { kind: "exit", code: 1 },
    stdout: "out",
    stderr: "",
    stdoutCutBytes: 0,
    stderrCutBytes: 0,
    durationMs: 3,
    outputPath: "",
  },
};
export const REFUSED: Outcome = { kind: "refused", rule: "deny rm", reason: "no" };
export const UNKNOWN: Outcome = { kind: "unknown", known: "the cell is gone" };

export function action(id: number, op: Op = EXEC): Action {
  return { id: actionId(id), agent: ROOT_AGENT, turn: turnId(1), op };
}

export function turn(id: number, prompt = "go on"): Event {
  return { kind: "turn", id: turnId(id), prompt, images: [], mode: "full" };
}

export function ran(id: number, outcome: Outcome = RAN): Event {
  return { kind: "exec", id: actionId(id), outcome };
}

export function replied(id: number): Event {
  const answer = {
    kind: "reply",
    text: "hi",
    reasoning: "",
    calls: [],
    stop: "end",
    opaque: "",
  } as const;
  return { kind: "model", id: actionId(id), answer, usage: USAGE, costMicroUsd: 0 };
}

export function chosen(id: number): Event {
  return { kind: "reply", id: actionId(id), text: "", choices: ["a"] };
}

export function entry(expect: number, event: Event, minted: readonly Action[] = []): Entry {
  return { expect, event, minted, state: "active", atMs: 1_000 + expect };
}

export function dispatched(id: number, attempt = 1, spool = "spool-1") {
  return { id: actionId(id), attempt, spool, atMs: 2_000 };
}

export function settled(id: number, state: "completed" | "unknown" = "completed") {
  return { id: actionId(id), state, detail: "late", atMs: 3_000 };
}

/** The n-th session, by age. */
export function named(n: number): SessionId {
  return sessionId(1_700_000_000_000 + n, new Uint8Array(10).fill(n));
}

export function fresh(n = 1): NewSession {
  return {
    id: named(n),
    createdMs: 1_700_000_000_000 + n,
    directory: "/home/ä b",
    vendor: "local",
    model: "test/one",
    config: '{"a":"\\u0000"}',
  };
}

export const alive = (): boolean => true;
export const dead = (): boolean => false;

/** A session of its own with a driver. */
export async function driven(store: Store, n = 1): Promise<Claim> {
  must(await store.create(fresh(n)));
  return must(await store.claim(named(n), "one", dead, 5));
}

export function must<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new Error(`${result.fault.code}: ${result.fault.message} (${result.fault.subject})`);
}

/** `ok`, a fault's code, or `throws`: what a call came to. */
export async function cameTo(call: Promise<Result<unknown>>): Promise<string> {
  try {
    const result = await call;
    return result.ok ? "ok" : result.fault.code;
  } catch {
    return "throws";
  }
}

export function request(rest: Partial<NetworkRequest>): NetworkRequest {
  return {
    ...{ action: actionId(2), atMs: 1_700, durationMs: 5, host: "a.example", port: 443 },
    ...{ method: "GET", path: "/b", status: 200, upBytes: 0, downBytes: 9_000_000_000 },
    ...{ verdict: "allowed", rule: "allow a.example:443", reason: "", ...rest },
  };
}
