import {
  type ActionId,
  actionId,
  cellId,
  decodeEvent,
  type EffectOp,
  type Outcome,
  ok,
  type Result,
} from "@dev/protocol";
import { expect, test } from "vitest";
import { AGENT_RUNNING_LIMIT, Agent, type Effects, type Plan } from "../src/agent/agent.ts";
import type { Clock } from "../src/agent/clock.ts";
import type { Disk } from "../src/agent/disk.ts";
import type { Evidence } from "../src/agent/log.ts";
import { Spool } from "../src/agent/spool.ts";
import { action, exec } from "./cell.ts";

const CELL = cellId(1, new Uint8Array(10));
const COMMAND: Evidence = { kind: "exec", program: "make", startedMs: 5 };
const WRITE: Evidence = {
  kind: "file",
  path: "f",
  result: {
    kind: "write",
    before: "absent",
    after: "0".repeat(64) as never,
    sizeBytes: 1,
    addedLines: 1,
    removedLines: 0,
  },
};

/** Time stands still: what waits goes on at once. */
const CLOCK: Clock = { wallMs: () => 0, monotonicMs: () => 0, sleep: async () => {} };

/** A disk in memory, that tells in `story` what became durable. */
class StoryDisk implements Disk {
  bytes: Uint8Array = new Uint8Array(0);
  readonly #story: string[];

  constructor(story: string[], bytes: Uint8Array = new Uint8Array(0)) {
    this.#story = story;
    this.bytes = bytes;
  }

  read = async () => ok(this.bytes);
  append = async (bytes: Uint8Array) => {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    return ok(undefined);
  };
  sync = async () => {
    this.#story.push("sync");
    return ok(undefined);
  };
  replace = async (bytes: Uint8Array) => {
    this.bytes = bytes;
    return ok(undefined);
  };
  close = async () => {};
}

/** Effects that wait to be let go, and write down in `story` what is done to the world. */
class FakeEffects implements Effects {
  readonly story: string[];
  readonly begun = new Map<ActionId, (outcome: Outcome) => void>();
  recovered: Outcome | null = null;

  constructor(story: string[]) {
    this.story = story;
  }

  plan = async ({
    op,
    id,
  }: {
    readonly op: { readonly kind: string };
    readonly id: ActionId;
  }): Promise<Plan> => {
    this.story.push(`plan ${id}`);
    if (op.kind === "read") return { kind: "done", outcome: said(`read ${id}`) };
    return {
      kind: "effect",
      evidence: op.kind === "write" ? WRITE : COMMAND,
      run: (onText, signal) => {
        this.story.push(`begin ${id}`);
        onText("stdout", `out ${id}`);
        return new Promise((resolve) => {
          this.begun.set(id, (outcome) => {
            this.story.push(`end ${id}`);
            resolve(outcome);
          });
          signal.addEventListener("abort", () => resolve({ kind: "cancelled", known: `${id}` }));
        });
      },
    };
  };

  recover = async () =>
    this.recovered === null
      ? ({ kind: "never" } as const)
      : ({ kind: "ended", outcome: this.recovered } as const);

  settled = (id: ActionId) => void this.story.push(`settled ${id}`);

  killAll = async () => {
    this.story.push("kill all");
  };

  /** Lets an effect end; it must have begun. */
  end(id: number): void {
    const end = this.begun.get(actionId(id));
    if (end === undefined) throw new Error(`${id} has not begun: ${this.story.join(", ")}`);
    end(said(`done ${id}`));
  }

  count(line: string): number {
    return this.story.filter((each) => each === line).length;
  }
}

const said = (known: string): Outcome => ({ kind: "unknown", known });

type Desk = { agent: Agent; effects: FakeEffects; disk: StoryDisk; story: string[]; spool: Spool };

async function desk(bytes?: Uint8Array, recovered: Outcome | null = null): Promise<Desk> {
  const story: string[] = [];
  const disk = new StoryDisk(story, bytes);
  const spool = await Spool.open(disk, { cell: CELL, generation: 1, identity: "x" });
  if (!spool.ok) throw new Error(spool.fault.message);
  const effects = new FakeEffects(story);
  effects.recovered = recovered;
  const agent = await Agent.open(spool.value, effects, CLOCK);
  if (!agent.ok) throw new Error(agent.fault.message);
  return { agent: agent.value, effects, disk, story, spool: spool.value };
}

const write = (path: string): EffectOp => ({ kind: "write", path, text: "", expect: "any" });
const read: EffectOp = { kind: "read", path: "f", from: 0, to: 0 };

function perform(
  { agent }: Desk,
  id: number,
  op: EffectOp = exec("make"),
  onText: (stream: string, text: string) => void = () => {},
): Promise<Result<Uint8Array>> {
  return agent.perform(action(id, op), onText);
}

function outcomeOf(result: Result<Uint8Array>): Outcome {
  const event = result.ok ? decodeEvent(result.value) : result;
  if (!event.ok) throw new Error(event.fault.message);
  if (!("outcome" in event.value)) throw new Error(event.value.kind);
  return event.value.outcome;
}

/** Lets everything go on that can. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

test("an effect begins when its start is durable, and is answered when its outcome is", async () => {
  const it = await desk();
  const answer = perform(it, 1).then((result) => {
    it.story.push("answered");
    return result;
  });
  await settle();
  it.effects.end(1);
  expect(outcomeOf(await answer)).toEqual(said("done 1"));
  expect(it.story).toEqual(["plan 1", "sync", "begin 1", "end 1", "sync", "settled 1", "answered"]);
});

test("what is asked for twice at once runs once, and both are answered and told", async () => {
  const it = await desk();
  const told: string[] = [];
  const asks = [1, 2, 3].map((count) =>
    perform(it, 1, exec("make"), (_, text) => told.push(`${count} ${text}`)),
  );
  await settle();
  it.effects.end(1);
  const answers = await Promise.all(asks);
  expect(it.effects.count("begin 1")).toBe(1);
  for (const answer of answers) expect(outcomeOf(answer)).toEqual(said("done 1"));
  expect(told).toEqual(["1 out 1", "2 out 1", "3 out 1"]);
});

test("what is asked for again is answered from the spool, by this agent and by the next", async () => {
  const it = await desk();
  const first = perform(it, 1);
  await settle();
  it.effects.end(1);
  expect(outcomeOf(await first)).toEqual(outcomeOf(await perform(it, 1)));
  const next = await desk(it.disk.bytes);
  expect(outcomeOf(await perform(next, 1))).toEqual(said("done 1"));
  expect(it.effects.count("begin 1") + next.effects.count("begin 1")).toBe(1);
});

test("an acknowledged id never runs again, and says where its outcome is", async () => {
  const it = await desk();
  const first = perform(it, 1);
  await settle();
  it.effects.end(1);
  await first;
  await it.agent.acknowledge([actionId(1)]);
  for (const each of [it, await desk(it.disk.bytes)]) {
    const outcome = outcomeOf(await perform(each, 1));
    expect(outcome).toMatchObject({ kind: "failed", fault: { code: "diverged" } });
    expect(outcome.kind === "failed" && outcome.fault.mend).toContain("ledger");
  }
  expect(it.effects.count("begin 1")).toBe(1);
});

test("what had begun is decided when the next agent opens, before anything new", async () => {
  const it = await desk();
  void perform(it, 1);
  await settle();
  const next = await desk(it.disk.bytes, said("nobody knows"));
  expect(next.spool.find(actionId(1)).kind).toBe("finished");
  expect(outcomeOf(await perform(next, 1))).toEqual(said("nobody knows"));
  expect(next.effects.count("begin 1")).toBe(0);
  // And it stays decided, whatever the evidence says later.
  const third = await desk(next.disk.bytes, said("something else"));
  expect(outcomeOf(await perform(third, 1))).toEqual(said("nobody knows"));
});

test("what provably never happened is performed when it is asked for again", async () => {
  const it = await desk();
  void perform(it, 1, write("f"));
  await settle();
  const next = await desk(it.disk.bytes, null);
  const answer = perform(next, 1, write("f"));
  await settle();
  next.effects.end(1);
  expect(outcomeOf(await answer)).toEqual(said("done 1"));
});

test("an op without an effect is answered without a start, and kept like any other", async () => {
  const it = await desk();
  expect(outcomeOf(await perform(it, 1, read))).toEqual(said("read 1"));
  expect(it.story).toEqual(["plan 1", "sync", "settled 1"]);
  expect(it.spool.find(actionId(1)).kind).toBe("finished");
});

test("a cancelled effect is answered as cancelled, by the spool too", async () => {
  const it = await desk();
  const answer = perform(it, 1);
  await settle();
  it.agent.cancel(actionId(1));
  expect(outcomeOf(await answer)).toEqual({ kind: "cancelled", known: "1" });
  expect(outcomeOf(await perform(it, 1))).toEqual({ kind: "cancelled", known: "1" });
});

test("what is cancelled before it began never begins", async () => {
  const it = await desk();
  const first = perform(it, 1, write("f"));
  const second = perform(it, 2, write("f"));
  it.agent.cancel(actionId(2));
  it.agent.cancel(actionId(1));
  for (const answer of [first, second]) expect(outcomeOf(await answer).kind).toBe("cancelled");
  expect(it.story.filter((line) => line.startsWith("begin"))).toEqual([]);
});

test("a start that cannot be written is a failed outcome, and nothing begins", async () => {
  const it = await desk();
  const { sync } = it.disk;
  const disk = it.disk as { sync: Disk["sync"] };
  disk.sync = async () => ({
    ok: false,
    fault: { code: "io", message: "full", subject: "", mend: "" },
  });
  expect(outcomeOf(await perform(it, 1))).toMatchObject({ kind: "failed", fault: { code: "io" } });
  expect(it.effects.count("begin 1")).toBe(0);
  disk.sync = sync;
  const again = perform(it, 1);
  await settle();
  it.effects.end(1);
  expect(outcomeOf(await again)).toEqual(said("done 1"));
});

test("when nobody listens any more what runs ends, nothing new begins, and the rest is killed", async () => {
  const it = await desk();
  const running = perform(it, 1);
  await settle();
  const finished = it.agent.finish().then(() => it.story.push("finished"));
  const refused = await perform(it, 2);
  expect(refused).toMatchObject({ ok: false, fault: { code: "link_lost" } });
  await settle();
  expect(it.story).not.toContain("kill all");
  it.effects.end(1);
  await running;
  await finished;
  expect(it.story.slice(-3)).toEqual(["settled 1", "kill all", "finished"]);
  expect(it.spool.find(actionId(1)).kind).toBe("finished");
});

test("closing ends what runs as cancelled, with its outcome in the spool", async () => {
  const it = await desk();
  const running = perform(it, 1);
  await settle();
  await it.agent.close();
  expect(outcomeOf(await running).kind).toBe("cancelled");
  const next = await desk(it.disk.bytes);
  expect(outcomeOf(await perform(next, 1)).kind).toBe("cancelled");
});

test("more at once than the limit is refused by its name, and says nothing of an effect", async () => {
  const it = await desk();
  const asks = Array.from({ length: AGENT_RUNNING_LIMIT }, (_, id) => perform(it, id));
  await settle();
  expect(await perform(it, 1_000)).toMatchObject({
    fault: { code: "limit", subject: "AGENT_RUNNING_LIMIT" },
  });
  it.effects.end(0);
  await asks[0];
  const admitted = perform(it, 1_000);
  it.agent.cancel(actionId(1_000));
  expect(outcomeOf(await admitted).kind).toBe("cancelled");
});

test("what is no effect is refused", async () => {
  const it = await desk();
  const save = { ...action(1, read), op: { kind: "save" } } as const;
  expect(await it.agent.perform(save, () => {})).toMatchObject({ fault: { code: "bad_call" } });
});
