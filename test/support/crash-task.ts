import { existsSync, readdirSync, rmSync } from "node:fs";
import type { Script, ScriptedReply, ScriptedRequest } from "@dev/model/scripted";
import { expect } from "vitest";
import { type Desk, openDesk, type Ran, read, threadOf } from "./dev.ts";

/** The prompt of the task. */
const PROMPT = "do all of it";
export const LAST_MESSAGE = "all of it is done";
const FILES = { "a.txt": "alpha\nbeta\n" };

const say = (text: string, ...calls: readonly [string, unknown][]): ScriptedReply => ({
  text,
  calls: calls.map(([tool, given]) => ({ tool, arguments: given })),
});
/** A command whose effect shows how often it ran. */
const leave = (name: string, rest: string): [string, unknown] => [
  "exec",
  { command: `echo ${name} >> effects.log; ${rest}` },
];

/** One of everything: what the model says, by how many answers of its own it finds. */
const REPLIES: readonly ScriptedReply[] = [
  say("first I look", ["read", { path: "a.txt" }]),
  say("", ["write", { path: "b.txt", text: "new\n" }]),
  say("", leave("one", "echo out-one")),
  say("", leave("two", "echo out-two"), leave("three", "echo out-three")),
  say("", ["patch", { path: "a.txt", edits: [{ old: "beta", new: "gamma" }] }]),
  say("", leave("four", "echo err-four >&2; exit 3")),
  say(LAST_MESSAGE),
];

/** Requests of a task that nothing disturbs. */
export const REPLY_COUNT: number = REPLIES.length;

/** What each of its calls is really answered, in order. */
const ANSWERS: readonly RegExp[] = [
  /^2 lines, 11 bytes[\s\S]*alpha\nbeta\n$/,
  /^written: \+1 -0 lines, now 4 bytes/,
  /^exit code 0 [\s\S]*stdout:\nout-one\n$/,
  /^exit code 0 [\s\S]*stdout:\nout-two\n$/,
  /^exit code 0 [\s\S]*stdout:\nout-three\n$/,
  /^written: \+1 -1 lines, now 12 bytes/,
  /^exit code 3 [\s\S]*stderr:\nerr-four\n$/,
];
/** Which effect of a command is whose, by the place among the calls. */
const EFFECTS: ReadonlyMap<number, string> = new Map([
  [2, "one"],
  [3, "two"],
  [4, "three"],
  [6, "four"],
]);
/** More requests than any crash leads to. */
const REQUEST_LIMIT = 64;

/** A desk whose model does the task, however often and wherever it is asked to go on. */
function openTask(): Promise<Desk> {
  const step = (request: ScriptedRequest) => {
    // What it was stopped in the middle of saying has no calls, and is said again.
    const heard = request.messages.filter(({ calls }) => calls.length > 0).length;
    return { reply: REPLIES[heard] ?? say("there is nothing left to do") };
  };
  const script: Script = Array.from({ length: REQUEST_LIMIT }, () => step);
  return openDesk(script, FILES);
}

/** Where, and by what, a `dev` process is to be struck: at its n-th commit that writes. */
export type Point = {
  readonly at: number;
  readonly when: "before" | "after";
  readonly signal?: NodeJS.Signals;
};

/** A commit that a `dev` process came to. */
export type Commit = { readonly count: number; readonly kind: string };

/** Runs `dev` with a store that strikes at that point; tells the commits that it came to. */
export async function runUntil(
  desk: Desk,
  args: readonly string[],
  point: Point,
): Promise<{ readonly ran: Ran; readonly commits: readonly Commit[] }> {
  const notes = `${desk.root}/commits`;
  rmSync(notes, { force: true });
  const ran = await desk.run(args, {
    env: {
      NODE_OPTIONS: `--import ${new URL("./crash-store.mjs", import.meta.url).href}`,
      CRASH_AT: String(point.at),
      CRASH_WHEN: point.when,
      CRASH_SIGNAL: point.signal ?? "SIGKILL",
      CRASH_NOTES: notes,
    },
  });
  const lines = existsSync(notes) ? read(notes).split("\n").filter(Boolean) : [];
  return { ran, commits: lines.map((line) => JSON.parse(line) as Commit) };
}

/** The arguments of the run that does the task. */
export const EXEC: readonly string[] = ["exec", "--json", "--mode", "full", PROMPT];
/** The same, in a cell with a workspace of its own. */
export const EXEC_APART: readonly string[] = [...EXEC.slice(0, -1), "--cell", "bubblewrap", PROMPT];

/** The session that a run began, where it came to say so. */
export function threadIn(ran: Ran): string | null {
  return ran.stdout.includes('"thread.started"') ? threadOf(ran) : null;
}

/** The arguments of the run that takes up what a killed one left. */
export async function following(
  desk: Desk,
  id: string | null,
  exec: readonly string[] = EXEC,
): Promise<readonly string[]> {
  if (id === null) return exec;
  // Killed between the session and its first prompt: there is nothing to resume but its name.
  const isEmpty = desk.model.requests.length === 0 && (await ledgerOf(desk, id)).length === 0;
  const resume = ["resume", "--json", "--mode", "full", id];
  return isEmpty ? [...resume, PROMPT] : resume;
}

/** A line of the ledger, as far as it is looked at here. */
export type Entry = {
  readonly action: {
    readonly id: number;
    readonly op: { readonly kind: string; readonly argv?: readonly string[] };
  };
  readonly lines: readonly {
    readonly state: string;
    readonly attempt: number;
    readonly outcome: { readonly kind: string } | null;
  }[];
};

export async function ledgerOf(desk: Desk, id: string): Promise<readonly Entry[]> {
  const ran = await desk.run(["ledger", id, "--json"]);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  return ran.lines as readonly Entry[];
}

/**
 * Checks that the task was done as if nothing had happened: each effect once, each answer the real one,
 * the ledger legal. Only the calls in `excused`, by their places, are answered otherwise: as it says;
 * and each of these happened once or never.
 */
export function checkTask(
  desk: Desk,
  ledger: readonly Entry[],
  excused: ReadonlyMap<number, RegExp> = new Map(),
): void {
  checkLedger(ledger);
  checkConversations(desk.model.requests);
  const told = answersOf(desk);
  expect(told).toHaveLength(ANSWERS.length);
  for (const [place, text] of told.entries()) {
    expect(text).toMatch(excused.get(place) ?? ANSWERS[place] ?? /^$/);
  }
  const effects = effectsOf(desk);
  for (const [place, name] of EFFECTS) {
    const count = effects.filter((each) => each === name).length;
    expect(excused.has(place) ? [0, 1] : [1], name).toContain(count);
  }
  const written = fileOf(desk, "b.txt");
  expect(excused.has(1) ? ["", "new\n"] : ["new\n"]).toContain(written);
  const patched = fileOf(desk, "a.txt");
  const after = "alpha\ngamma\n";
  expect(excused.has(5) ? [FILES["a.txt"], after] : [after]).toContain(patched);
  expect(desk.model.errors).toEqual([]);
}

/** No effect has begun of which the ledger does not know that it may. */
export function checkDispatched(desk: Desk, ledger: readonly Entry[]): void {
  for (const name of effectsOf(desk)) {
    const entry = ledger.find(({ action }) => action.op.argv?.join(" ").includes(`echo ${name} `));
    expect(
      entry?.lines.map(({ state }) => state),
      name,
    ).toContain("dispatched");
  }
}

/** What the model was told of each call, as of its last request. */
export function answersOf(desk: Desk): readonly string[] {
  const last = desk.model.requests.at(-1)?.messages ?? [];
  return last.filter(({ role }) => role === "tool").map(({ content }) => content);
}

/** Every effect that a command left, in the order in which they happened. */
function effectsOf(desk: Desk): readonly string[] {
  return fileOf(desk, "effects.log").split("\n").filter(Boolean);
}

function fileOf(desk: Desk, name: string): string {
  const [apart] = existsSync(`${desk.home}/workspaces`)
    ? readdirSync(`${desk.home}/workspaces`)
    : [];
  const path =
    apart === undefined
      ? `${desk.project}/${name}`
      : `${desk.home}/workspaces/${apart}/tree/${name}`;
  return existsSync(path) ? read(path) : "";
}

const LIFE = /^minted( refused|( dispatched)+ (completed|unknown|unknown completed))$/;

/** Ids without a gap; each life legal and ended; a second dispatch for model calls alone. */
export function checkLedger(ledger: readonly Entry[]): void {
  expect(ledger.map(({ action }) => action.id)).toEqual(ledger.map((_, index) => index + 1));
  for (const { action, lines } of ledger) {
    const what = `action ${action.id}, ${action.op.kind}`;
    expect(lines.map(({ state }) => state).join(" "), what).toMatch(LIFE);
    const attempts = lines
      .filter(({ state }) => state === "dispatched")
      .map((each) => each.attempt);
    expect(attempts, what).toEqual(attempts.map((_, index) => index + 1));
    if (action.op.kind !== "model") expect(attempts.length, what).toBeLessThanOrEqual(1);
  }
}

/** Each call has just one result, right behind its message; each request goes on from the one before. */
export function checkConversations(requests: readonly ScriptedRequest[]): void {
  let before: readonly string[] = [];
  for (const { body } of requests) {
    const messages = (JSON.parse(body) as { messages: readonly Wired[] }).messages;
    for (const [at, { tool_calls: calls }] of messages.entries()) {
      if (calls === undefined) continue;
      const results = messages.slice(at + 1).slice(0, calls.length);
      expect(results.map((each) => each.tool_call_id)).toEqual(calls.map(({ id }) => id));
    }
    const results = messages.filter(({ role }) => role === "tool").length;
    const calls = messages.flatMap((each) => each.tool_calls ?? []).length;
    expect(results).toBe(calls);
    const texts = messages.map((message) => JSON.stringify(message));
    expect(texts.slice(0, before.length)).toEqual(before);
    before = texts;
  }
}

type Wired = {
  readonly role: string;
  readonly tool_calls?: readonly { readonly id: string }[];
  readonly tool_call_id?: string;
};

/** Does the work for each, so many at once; when one fails, those under way are still ended. */
export async function each<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const lane = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      try {
        await work(item);
      } catch (error) {
        left.length = 0;
        throw error;
      }
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: width }, lane));
  for (const ended of lanes) if (ended.status === "rejected") throw ended.reason;
}

/** Desks at once: most of a run is waiting. */
export const WIDTH = 3;

/** A desk for the task, and its end. */
export async function onTask<T>(work: (desk: Desk) => Promise<T>): Promise<T> {
  const desk = await openTask();
  try {
    return await work(desk);
  } finally {
    await desk.close();
  }
}

/** Says at which point a check failed. */
export async function atPoint(what: unknown, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new Error(`at ${JSON.stringify(what)}: ${String(error)}`, { cause: error });
  }
}

/** Of these, some of every kind, then as many as fit, evenly spread. */
export function sampled<T>(
  items: readonly T[],
  kindOf: (item: T) => string,
  limit: number,
): readonly T[] {
  if (process.env.CRASH_ALL !== undefined || items.length <= limit) return items;
  const firsts = new Map(items.map((item) => [kindOf(item), item]));
  const chosen = new Set(firsts.values());
  const rest = items.filter((item) => !chosen.has(item));
  const step = rest.length / Math.max(1, limit - chosen.size);
  for (let at = 0; Math.floor(at) < rest.length; at += step) {
    const item = rest[Math.floor(at)];
    if (item !== undefined) chosen.add(item);
  }
  return items.filter((item) => chosen.has(item));
}
