import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type ActionId, actionId, cellId, decodeEvent, type EffectOp } from "@dev/protocol";
import { expect, onTestFinished, test } from "vitest";
import { Agent, type Effects } from "../src/agent/agent.ts";
import type { Clock } from "../src/agent/clock.ts";
import { fileDisk } from "../src/agent/disk.ts";
import { cellEffects } from "../src/agent/effects.ts";
import { Commands } from "../src/agent/exec.ts";
import { Spool } from "../src/agent/spool.ts";
import { Tree } from "../src/agent/tree.ts";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import { action, exec, realClock, rgPath, scratch, sh } from "./cell.ts";

const CELL = cellId(1, new Uint8Array(10));

type Call = readonly [id: number, op: EffectOp];

/** An agent on real files and processes, which tells what it comes to and can be held there. */
type Desk = {
  readonly agent: Agent;
  readonly spool: Spool;
  /** `turn 1` when action 1 is taken up, `end 1` when it has ended, `sleep 7` when 7 ms are waited. */
  readonly story: string[];
  readonly workspace: string;
  /** Keeps an action where its turn has come, until what this gives is called. */
  hold(id: number): () => void;
  /** Asks for a batch of calls, which come in this order; each answer is in a few words. */
  ask(...calls: readonly Call[]): readonly Promise<string>[];
  come(line: string): Promise<void>;
};

let identities = 0;

/** A desk in a directory, with whatever an agent of before has left there. */
async function desk(directory: string): Promise<Desk> {
  const workspace = join(directory, "workspace");
  await mkdir(workspace, { recursive: true });
  const owner = { cell: CELL, generation: 1, identity: `order-${process.pid}-${++identities}` };
  const spool = await Spool.open(fileDisk(join(directory, "spool")), owner);
  if (!spool.ok) throw new Error(spool.fault.message);
  const { identity } = spool.value;
  const story: string[] = [];
  const clock: Clock = {
    ...realClock,
    sleep: (ms, signal) => {
      story.push(`sleep ${ms}`);
      return realClock.sleep(ms, signal);
    },
  };
  const limits = DEFAULT_CELL_LIMITS;
  const base = { PATH: process.env.PATH ?? "" };
  const where = join(directory, "spool");
  const commands = await Commands.open({
    directory: where,
    identity,
    limits,
    base,
    clock,
    written: [],
    network: null,
  });
  if (!commands.ok) throw new Error(commands.fault.message);
  const real = cellEffects({
    tree: new Tree(workspace),
    commands: commands.value,
    rg: rgPath,
    clock,
    identity,
  });
  const held = new Map<ActionId, Promise<void>>();
  const effects: Effects = {
    ...real,
    plan: async (given, signal) => {
      story.push(`turn ${given.id}`);
      await held.get(given.id);
      return real.plan(given, signal);
    },
    settled: (id) => {
      story.push(`end ${id}`);
      real.settled(id);
    },
  };
  const opened = await Agent.open(spool.value, effects, clock);
  if (!opened.ok) throw new Error(opened.fault.message);
  const agent = opened.value;
  onTestFinished(() => agent.close());
  return {
    agent,
    spool: spool.value,
    story,
    workspace,
    hold: (id) => {
      let open: () => void = () => {};
      held.set(actionId(id), new Promise((resolve) => (open = resolve)));
      // A test that fails leaves nothing held, or its agent would never end.
      onTestFinished(() => open());
      return open;
    },
    ask: (...calls) => calls.map(([id, op]) => answerOf(agent, id, op)),
    come: async (line) => {
      while (!story.includes(line)) await realClock.sleep(5);
    },
  };
}

/** What a call comes to: what it wrote or read, or how else it ended. */
async function answerOf(agent: Agent, id: number, op: EffectOp): Promise<string> {
  const result = await agent.perform(action(id, op), () => {});
  if (!result.ok) return result.fault.code;
  const event = decodeEvent(result.value);
  if (!event.ok || !("outcome" in event.value)) throw new Error("an answer is an outcome");
  const { outcome } = event.value;
  if (outcome.kind === "failed") return outcome.fault.code;
  if (outcome.kind === "cancelled") return `cancelled: ${outcome.known}`;
  if (outcome.kind !== "ok") return outcome.kind;
  if (outcome.result.kind === "exec") return outcome.result.stdout;
  return outcome.result.kind === "read" ? outcome.result.text : outcome.result.kind;
}

const write = (text: string): EffectOp => ({ kind: "write", path: "f", text, expect: "any" });
const read: EffectOp = { kind: "read", path: "f", from: 0, to: 0 };
const search: EffectOp = { kind: "search", pattern: "f", path: ".", glob: "", match: "name" };
/** A command that ends when there is a file `go`. */
const waits = sh("until [ -e go ]; do sleep 0.02; done");

const turns = ({ story }: Desk): readonly string[] =>
  story.filter((line) => !line.startsWith("sleep"));

test("a command sees what a write before it in the same batch wrote, whichever comes first", async () => {
  const it = await desk(await scratch());
  const [ran, written] = it.ask([2, exec("cat", "f")], [1, write("new")]);
  expect([await written, await ran]).toEqual(["write", "new"]);
  expect(turns(it)).toEqual(["turn 1", "end 1", "turn 2", "end 2"]);
});

test("a read after a write sees it, and one before it does not", async () => {
  const it = await desk(await scratch());
  await writeFile(join(it.workspace, "f"), "old");
  const asks = it.ask([3, read], [2, write("new")], [1, read]);
  expect(await Promise.all(asks)).toEqual(["new", "write", "old"]);
});

test("a read before a write does not wait for it, and the write waits for the read", async () => {
  const it = await desk(await scratch());
  const open = it.hold(1);
  const asks = it.ask([2, write("new")], [1, read]);
  await it.come("turn 1");
  expect(turns(it)).toEqual(["turn 1"]);
  open();
  expect(await Promise.all(asks)).toEqual(["write", "not_found"]);
  expect(turns(it)).toEqual(["turn 1", "end 1", "turn 2", "end 2"]);
});

test("reads and searches between two changes run together, and neither change beside them", async () => {
  const it = await desk(await scratch());
  const gates = [2, 3, 4].map((id) => it.hold(id));
  const asks = it.ask([1, write("a")], [2, read], [3, search], [4, read], [5, write("b")]);
  // Each of them is held, and the others come none the less.
  for (const id of [2, 3, 4]) await it.come(`turn ${id}`);
  expect(turns(it)).toEqual(["turn 1", "end 1", "turn 2", "turn 3", "turn 4"]);
  for (const open of gates) open();
  expect(await Promise.all(asks)).toEqual(["write", "a", "search", "a", "write"]);
  expect(turns(it).slice(-2)).toEqual(["turn 5", "end 5"]);
});

test("two commands of one batch run one after the other, in id order, even when they come in reverse", async () => {
  const it = await desk(await scratch());
  const log = (word: string) => sh(`echo ${word} begins >> f; sleep 0.05; echo ${word} ends >> f`);
  const asks = it.ask([3, { kind: "git", argv: ["--version"] }], [2, log("two")], [1, log("one")]);
  await Promise.all(asks);
  const told = await readFile(join(it.workspace, "f"), "utf8");
  expect(told).toBe("one begins\none ends\ntwo begins\ntwo ends\n");
  expect(turns(it)).toEqual(["turn 1", "end 1", "turn 2", "end 2", "turn 3", "end 3"]);
});

test("what comes later and has a lower id goes before what waits, and not beside what runs", async () => {
  const it = await desk(await scratch());
  const late = it.ask([3, waits], [9, write("nine")]);
  await it.come("turn 3");
  const early = it.ask([2, write("two")], [1, read]);
  await writeFile(join(it.workspace, "go"), "");
  await Promise.all([...late, ...early]);
  const order = [3, 1, 2, 9].flatMap((id) => [`turn ${id}`, `end ${id}`]);
  expect(turns(it)).toEqual(order);
});

test("a command in the background keeps others waiting until it has answered, and not longer", async () => {
  const it = await desk(await scratch());
  const [first, second] = it.ask(
    [1, { ...waits, background: true }],
    [2, sh("echo it still waits; touch go")],
  );
  expect([await first, await second]).toEqual(["", "it still waits\n"]);
  expect(turns(it)).toEqual(["turn 1", "end 1", "turn 2", "end 2"]);
});

test("a command's deadline counts from its own start", async () => {
  const it = await desk(await scratch());
  const asks = it.ask([1, waits], [2, { ...exec("true"), timeoutMs: 77_777 }]);
  await it.come("turn 1");
  await writeFile(join(it.workspace, "go"), "");
  await Promise.all(asks);
  expect(it.story.indexOf("sleep 77777")).toBeGreaterThan(it.story.indexOf("end 1"));
});

test("one that waits is cancelled at once, never begins, and lets those behind it go on", async () => {
  const it = await desk(await scratch());
  const open = it.hold(1);
  const [first, second, third] = it.ask([1, read], [2, write("new")], [3, read]);
  await it.come("turn 1");
  it.agent.cancel(actionId(2));
  expect(await second).toBe("cancelled: it was stopped before it began");
  // The first is still held: a read behind a write that is gone goes beside it.
  expect(await third).toBe("not_found");
  open();
  expect(await first).toBe("not_found");
  expect(it.story).not.toContain("turn 2");
  // Whoever asks again has the same answer.
  expect(await it.ask([2, write("new")])[0]).toBe("cancelled: it was stopped before it began");
});

test("one that waits and is asked for again is joined, and runs once", async () => {
  const it = await desk(await scratch());
  const count = sh("echo run >> f");
  const asks = it.ask([1, waits], [2, count], [2, count]);
  await it.come("turn 1");
  const again = it.ask([2, count]);
  await writeFile(join(it.workspace, "go"), "");
  await Promise.all([...asks, ...again]);
  expect(await readFile(join(it.workspace, "f"), "utf8")).toBe("run\n");
});

test("when the link is lost, what had not begun never begins, and the next agent may run it", async () => {
  const directory = await scratch();
  const it = await desk(directory);
  const asks = it.ask([1, waits], [2, write("new")], [3, read]);
  await it.come("turn 1");
  const finished = it.agent.finish();
  await writeFile(join(it.workspace, "go"), "");
  await finished;
  expect(await Promise.all(asks)).toEqual(["", "link_lost", "link_lost"]);
  expect(turns(it)).toEqual(["turn 1", "end 1"]);
  const next = await desk(directory);
  const kinds = [1, 2, 3].map((id) => next.spool.find(actionId(id)).kind);
  expect(kinds).toEqual(["finished", "never", "never"]);
  const answers = next.ask([3, read], [2, write("new")], [1, waits]);
  expect(await Promise.all(answers)).toEqual(["new", "write", ""]);
  expect(turns(next)).toEqual(["turn 2", "end 2", "turn 3", "end 3"]);
});
