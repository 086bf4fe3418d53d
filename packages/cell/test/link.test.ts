import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, duplexPair } from "node:stream";
import {
  actionId,
  type EffectOp,
  encodeEvent,
  encodeShape,
  type Outcome,
  type Result,
} from "@dev/protocol";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { fileDisk } from "../src/agent/disk.ts";
import { commit, prepare } from "../src/agent/files.ts";
import { OUTPUT_QUEUE_LIMIT_BYTES } from "../src/agent/serve.ts";
import { Spool } from "../src/agent/spool.ts";
import { Tree } from "../src/agent/tree.ts";
import {
  connectLink,
  LINK_OPEN_LIMIT_MS,
  LINK_PERFORM_LIMIT,
  LINK_QUEUE_LIMIT_BYTES,
} from "../src/link.ts";
import type { Link } from "../src/vendor.ts";
import { HELLO, responseFrame, STATUSES } from "../src/wire.ts";
import { action, bundleAgent, exec, IDLE, realClock, sh, TestCell } from "./cell.ts";

let directory = "";
let bundle = "";
let modules: readonly string[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "dev-agent-"));
  ({ path: bundle, modules } = await bundleAgent(directory));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

const write = (path: string, text: string): EffectOp => ({
  kind: "write",
  path,
  text,
  expect: "any",
});
/** Writes a line for every time that it is run. */
const counted = (script: string) => sh(`echo run >> runs; ${script}`);
const codeOf = (result: Result<unknown>) => (result.ok ? "ok" : result.fault.code);
const stdoutOf = (outcome: Outcome) =>
  outcome.kind === "ok" && outcome.result.kind === "exec" ? outcome.result.stdout : outcome;
const knownOf = (outcome: Outcome) => ("known" in outcome ? outcome.known : outcome.kind);

async function runsOf(cell: TestCell): Promise<number> {
  const text = await readFile(join(cell.workspace, "runs"), "utf8").catch(() => "");
  return text.split("\n").length - 1;
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await realClock.sleep(5);
}

/** A time to sleep for, in seconds, that no other run of these tests sleeps for. */
const nap = (number: number): string => `${number}${String(process.pid).padStart(7, "0")}`;

function isRunning(mark: string): boolean {
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(mark);
    } catch {
      return false;
    }
  });
}

/** Performs an action whose answer is not waited for. */
function begin(link: Link, id: number, op: EffectOp): Promise<Result<unknown>> {
  return link.perform(action(id, op), () => {}, IDLE);
}

test("nothing of a store, a model, a session or a core is in the agent", () => {
  const inside = modules.filter((module) => !module.startsWith("\0"));
  expect(inside.some((module) => module.endsWith("cell/src/agent/main.ts"))).toBe(true);
  const allowed =
    /\/(packages\/(protocol|workspace)\/src|packages\/cell\/src|node_modules\/(diff|ws))\//;
  expect(inside.filter((module) => !allowed.test(module))).toEqual([]);
  const cell =
    /packages\/cell\/src\/(agent\/|channel\.ts|pty\.ts|dial\.ts|websocket\.ts|wire\.ts|workspace\.ts|vendor\.ts)/;
  expect(inside.filter((m) => m.includes("packages/cell/src/") && !cell.test(m))).toEqual([]);
});

test("a command's end and its output come back, with what it wrote on the way", async () => {
  const cell = await TestCell.make(bundle);
  const { link } = await cell.start();
  const told: string[] = [];
  const event = await link.perform(
    action(1, sh("echo out; echo err >&2; exit 3")),
    (stream, text) => told.push(`${stream} ${text}`),
    IDLE,
  );
  expect(event).toMatchObject({
    value: {
      kind: "exec",
      id: 1,
      outcome: { kind: "ok", result: { end: { kind: "exit", code: 3 } } },
    },
  });
  expect(told.sort()).toEqual(["stderr err\n", "stdout out\n"]);
});

test("every op of a cell is answered over the link", async () => {
  const cell = await TestCell.make(bundle);
  const { perform } = await cell.start();
  expect(await perform(1, write("a.txt", "one\n"))).toMatchObject({ kind: "ok" });
  const change = { kind: "edits", edits: [{ old: "one", new: "two" }] } as const;
  const patch = await perform(2, { kind: "patch", path: "a.txt", change, expect: "any" });
  expect(patch).toMatchObject({ result: { kind: "write", addedLines: 1, removedLines: 1 } });
  const read = await perform(3, { kind: "read", path: "a.txt", from: 0, to: 0 });
  expect(read).toMatchObject({ result: { kind: "read", text: "two\n" } });
  const op = { kind: "search", pattern: "two", path: ".", glob: "", match: "text" } as const;
  expect(await perform(4, op)).toMatchObject({
    result: { matches: [{ path: "a.txt", line: 1, text: "two" }] },
  });
  expect(await perform(5, { kind: "git", argv: ["init", "-q"] })).toMatchObject({ kind: "ok" });
  const status = await perform(6, { kind: "git", argv: ["status", "--short"] });
  expect(stdoutOf(status)).toBe("?? a.txt\n");
  expect(await perform(7, { kind: "git", argv: [] })).toMatchObject({
    fault: { code: "bad_call" },
  });
  const tool = { kind: "tool", server: "s", name: "n", arguments: "{}" } as const;
  expect(await perform(8, tool)).toMatchObject({ fault: { code: "unsupported" } });
});

test("git asks nobody: no prompt, no pager, no editor", async () => {
  const cell = await TestCell.make(bundle);
  const { perform } = await cell.start({ commandTimeoutMs: 10_000 });
  await perform(1, { kind: "git", argv: ["init", "-q"] });
  const env = ["-c", "user.name=n", "-c", "user.email=e"];
  await perform(2, { kind: "git", argv: [...env, "commit", "-q", "--allow-empty", "-m", "one"] });
  const amend = await perform(3, {
    kind: "git",
    argv: [...env, "commit", "--amend", "-q", "--allow-empty"],
  });
  expect(amend).toMatchObject({ result: { end: { kind: "exit", code: 0 } } });
  const push = await perform(4, { kind: "git", argv: ["push", "https://127.0.0.1:9/x"] });
  expect(push).toMatchObject({ result: { end: { kind: "exit", code: 128 } } });
});

test("one id that is asked for many times at once runs once", async () => {
  const cell = await TestCell.make(bundle);
  const { perform } = await cell.start();
  const op = counted("sleep 0.1; echo done");
  const outcomes = await Promise.all([1, 1, 1, 1].map((id) => perform(id, op)));
  expect(outcomes.map(stdoutOf)).toEqual(["done\n", "done\n", "done\n", "done\n"]);
  expect(await runsOf(cell)).toBe(1);
});

test("an effect that is cancelled says so, and so does the spool later", async () => {
  const cell = await TestCell.make(bundle);
  const { perform } = await cell.start();
  const abort = new AbortController();
  const running = perform(1, counted("echo half; sleep 60"), abort.signal);
  await until(async () => (await runsOf(cell)) === 1);
  abort.abort();
  expect((await running).kind).toBe("cancelled");
  expect((await perform(1, counted("true"))).kind).toBe("cancelled");
  expect((await perform(2, counted("true"), AbortSignal.abort())).kind).toBe("cancelled");
  expect(await runsOf(cell)).toBe(1);
});

test("an agent that is killed loses the link at once, for all that wait and all that come", async () => {
  const cell = await TestCell.make(bundle);
  const { link, child } = await cell.start();
  const waiting = [1, 2, 3].map((id) => begin(link, id, sh("echo > started; sleep 60")));
  await until(async () => (await readdir(cell.workspace)).includes("started"));
  child.kill("SIGKILL");
  for (const result of await Promise.all(waiting)) expect(codeOf(result)).toBe("link_lost");
  expect(codeOf(await begin(link, 4, exec("true")))).toBe("link_lost");
  link.acknowledge([actionId(1)]);
  await link.close();
});

test("a command that was killed with its agent is unknown, with what it had written", async () => {
  const cell = await TestCell.make(bundle);
  const first = await cell.start();
  const lost = begin(first.link, 1, counted(`echo partial; exec sleep ${nap(4721)}`));
  await until(async () => (await runsOf(cell)) === 1 && isRunning(`sleep\x00${nap(4721)}`));
  await until(async () => (await readFile(join(cell.spool, "output", "1.txt"), "utf8")) !== "");
  first.child.kill("SIGKILL");
  expect(codeOf(await lost)).toBe("link_lost");
  const second = await cell.start();
  expect(second.link.spool).toBe(first.link.spool);
  // Nobody heard it end, and it does not go on unheard.
  await until(() => !isRunning(`sleep\x00${nap(4721)}`));
  const outcome = await second.perform(1, counted("true"));
  expect(outcome.kind).toBe("unknown");
  expect(knownOf(outcome)).toMatch(
    /`sh` was started at \d{4}-.*It had written 8 bytes.*\npartial\n$/s,
  );
  expect(await runsOf(cell)).toBe(1);
});

test("a command that ended is answered from the spool after a kill, with its real output", async () => {
  const cell = await TestCell.make(bundle);
  const first = await cell.start();
  await first.perform(1, counted("echo real; exit 4"));
  first.child.kill("SIGKILL");
  await first.exited;
  const second = await cell.start();
  expect(await second.perform(1, counted("echo other"))).toMatchObject({
    kind: "ok",
    result: { end: { kind: "exit", code: 4 }, stdout: "real\n" },
  });
  expect(await runsOf(cell)).toBe(1);
});

test("a command in flight when the link is cut ends, and the next agent has its outcome", async () => {
  const cell = await TestCell.make(bundle);
  const first = await cell.start();
  const lost = begin(first.link, 1, counted("until [ -e go ]; do sleep 0.02; done; echo whole"));
  await until(async () => (await runsOf(cell)) === 1);
  first.stream.destroy();
  expect(codeOf(await lost)).toBe("link_lost");
  // The next agent waits for the one before: there is never more than one on a spool.
  const starting = cell.start();
  await writeFile(join(cell.workspace, "go"), "");
  const second = await starting;
  await first.exited;
  expect(stdoutOf(await second.perform(1, counted("true")))).toBe("whole\n");
  expect(await runsOf(cell)).toBe(1);
});

test("an agent whose driver is gone kills what runs in the background, and exits", async () => {
  const cell = await TestCell.make(bundle);
  const { perform, stream, exited } = await cell.start();
  await perform(1, { ...exec("sleep", nap(4722)), background: true });
  expect(isRunning(`sleep\x00${nap(4722)}`)).toBe(true);
  stream.destroy();
  await exited;
  await until(() => !isRunning(`sleep\x00${nap(4722)}`));
});

test("closing ends the agent, its commands, their daemons and what runs in the background", async () => {
  const cell = await TestCell.make(bundle);
  const { perform, link, exited } = await cell.start();
  await perform(1, { ...exec("sleep", nap(4723)), background: true });
  await perform(2, sh(`setsid -f sleep ${nap(4723)}; setsid -f sh -c 'sleep ${nap(4723)}; true'`));
  const running = begin(link, 3, exec("sleep", nap(4723)));
  await link.close();
  await exited;
  await running;
  await until(() => !isRunning(`sleep\x00${nap(4723)}`));
  expect(codeOf(await begin(link, 4, exec("true")))).toBe("link_lost");
});

test("a write is done once and whole, whenever its agent is killed", async () => {
  const cell = await TestCell.make(bundle);
  const text = "line\n".repeat(40_000);
  for (let id = 1; id <= 8; id++) {
    const first = await cell.start();
    const answer = begin(first.link, id, write("f", `${id}\n${text}`));
    await realClock.sleep(2 * (id - 1));
    first.child.kill("SIGKILL");
    await answer;
    const second = await cell.start();
    const outcome = await second.perform(id, write("f", `${id}\n${text}`));
    expect(outcome).toMatchObject({
      kind: "ok",
      result: { kind: "write", addedLines: expect.any(Number) },
    });
    expect(await readFile(join(cell.workspace, "f"), "utf8")).toBe(`${id}\n${text}`);
    expect(await readdir(cell.workspace)).toEqual(["f"]);
    await second.link.close();
  }
});

/** A cell whose agent ended in the middle of writing `f`, from `old`: before the file was, or after. */
async function interrupted(stage: "before" | "after"): Promise<TestCell> {
  const cell = await TestCell.make(bundle);
  await writeFile(join(cell.workspace, "f"), "old");
  const owner = { cell: cell.id, generation: 0, identity: "0".repeat(32) };
  const spool = await Spool.open(fileDisk(cell.spool), owner);
  const tree = new Tree(cell.workspace);
  const op = { kind: "write", path: "f", text: "new", expect: "any" } as const;
  const prepared = await prepare(tree, op);
  if (!spool.ok || !prepared.ok) throw new Error("it can be begun");
  const { result } = prepared.value;
  await spool.value.start(actionId(1), { kind: "file", path: "f", result });
  if (stage === "after") await commit(tree, prepared.value, `${"0".repeat(8)}-1`);
  else await writeFile(join(cell.workspace, ".dev-00000000-1.tmp"), "ne");
  await spool.value.close();
  return cell;
}

test("a write that was done when its agent ended is answered from the file, and not done again", async () => {
  const cell = await interrupted("after");
  const before = await stat(join(cell.workspace, "f"));
  const { perform } = await cell.start();
  const outcome = await perform(1, write("f", "new"));
  expect(outcome).toMatchObject({ kind: "ok", result: { kind: "write", sizeBytes: 3 } });
  expect((await stat(join(cell.workspace, "f"))).mtimeMs).toBe(before.mtimeMs);
});

test("a write that never happened is done when it is asked for again", async () => {
  const cell = await interrupted("before");
  const { perform } = await cell.start();
  expect(await readdir(cell.workspace)).toEqual(["f"]);
  expect(await readFile(join(cell.workspace, "f"), "utf8")).toBe("old");
  expect((await perform(1, write("f", "new"))).kind).toBe("ok");
  expect(await readFile(join(cell.workspace, "f"), "utf8")).toBe("new");
});

test("a write of which the file says neither is unknown, and is not done again", async () => {
  const cell = await interrupted("before");
  await writeFile(join(cell.workspace, "f"), "theirs");
  const { perform } = await cell.start();
  const outcome = await perform(1, write("f", "new"));
  expect(outcome.kind).toBe("unknown");
  expect(knownOf(outcome)).toContain("the agent ended while `f` was written");
  expect(await readFile(join(cell.workspace, "f"), "utf8")).toBe("theirs");
});

test("an acknowledged action never runs again, by the next agent either", async () => {
  const cell = await TestCell.make(bundle);
  const first = await cell.start();
  await first.perform(1, counted("true"));
  first.link.acknowledge([actionId(1)]);
  // Acknowledged in passing: what comes after is behind it in the spool.
  await first.perform(2, exec("true"));
  expect(await first.perform(1, counted("true"))).toMatchObject({ fault: { code: "diverged" } });
  await first.link.close();
  const second = await cell.start();
  expect(await second.perform(1, counted("true"))).toMatchObject({ fault: { code: "diverged" } });
  expect(await runsOf(cell)).toBe(1);
});

test("a spool that is lost is another spool", async () => {
  const cell = await TestCell.make(bundle);
  const first = await cell.start();
  await first.link.close();
  await rm(cell.spool, { recursive: true });
  const second = await cell.start();
  expect(second.link.spool).not.toBe(first.link.spool);
  expect(first.link.spool).toMatch(/^[0-9a-f]{32}$/);
});

test("a link of an older generation is refused", async () => {
  const cell = await TestCell.make(bundle);
  const newer = await cell.connect(cell.spawn().stream, {}, 5);
  if (!newer.ok) throw new Error("the first is the newest");
  await newer.value.close();
  expect(codeOf(await cell.connect(cell.spawn().stream, {}, 4))).toBe("superseded");
});

test("an agent that cannot open says why, and exits", async () => {
  const cell = await TestCell.make(bundle);
  await rm(cell.workspace, { recursive: true });
  const { stream, exited } = cell.spawn();
  expect(await cell.connect(stream)).toMatchObject({
    fault: { code: "unavailable", subject: cell.workspace },
  });
  await exited;
});

test("opening that is given up cuts the link", async () => {
  const cell = await TestCell.make(bundle);
  const holder = await cell.start();
  const abort = new AbortController();
  const { stream, exited } = cell.spawn();
  const waiting = cell.connect(stream, {}, 9, abort.signal);
  abort.abort();
  expect(codeOf(await waiting)).toBe("link_lost");
  await exited;
  expect(stdoutOf(await holder.perform(1, sh("echo alive")))).toBe("alive\n");
});

test("garbage from the host ends the agent as a lost link does", async () => {
  const cell = await TestCell.make(bundle);
  const garbage = [
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    Buffer.alloc(64),
    Buffer.from([4, 0, 0, 0, 1, 2, 3, 4]),
    Buffer.from([255, 255, 255, 255]),
  ];
  for (const bytes of garbage) {
    const { stream, exited } = await cell.start();
    stream.write(bytes);
    await exited;
  }
});

test("garbage from the agent is a lost link", async () => {
  for (const bytes of [
    Buffer.from("HTTP/1.1 502 Bad Gateway"),
    Buffer.from([4, 0, 0, 0, 1, 2, 3, 4]),
  ]) {
    const { link, agent } = await fakeLink();
    const waiting = begin(link, 1, exec("true"));
    agent.write(bytes);
    expect(codeOf(await waiting)).toBe("link_lost");
  }
});

test("an answer to another action is not taken for this one's", async () => {
  const { link, agent } = await fakeLink();
  const waiting = begin(link, 1, exec("true"));
  const other = { kind: "exec", id: actionId(2), outcome: { kind: "unknown", known: "" } } as const;
  agent.write(responseFrame(STATUSES.done, 2, encodeEvent(other)));
  expect(codeOf(await waiting)).toBe("link_lost");
});

test("an agent that says nothing is given up, and one that is waiting for another is not", async () => {
  vi.useFakeTimers();
  try {
    const [host, agent] = duplexPair();
    agent.resume();
    const opening = openingOf("c_00000000000000000000000000");
    const connecting = connectLink(host, opening, "none", {}, IDLE);
    await vi.advanceTimersByTimeAsync(LINK_OPEN_LIMIT_MS - 1);
    agent.write(responseFrame(STATUSES.interim, 1, new Uint8Array(0)));
    await vi.advanceTimersByTimeAsync(LINK_OPEN_LIMIT_MS - 1);
    agent.write(responseFrame(STATUSES.interim, 1, new Uint8Array(0)));
    await vi.advanceTimersByTimeAsync(LINK_OPEN_LIMIT_MS + 1);
    expect(codeOf(await connecting)).toBe("link_lost");
  } finally {
    vi.useRealTimers();
  }
});

test("an agent of another generation than was started is refused", async () => {
  const [host, agent] = duplexPair();
  agent.resume();
  const connecting = connectLink(host, openingOf("c_00000000000000000000000000"), "none", {}, IDLE);
  const hello = encodeShape(HELLO, { generation: 2, spool: "s" });
  agent.write(responseFrame(STATUSES.done, 1, hello));
  expect(codeOf(await connecting)).toBe("superseded");
});

test("what one link may have under way is limited by name", async () => {
  const { link } = await fakeLink();
  const asks = Array.from({ length: LINK_PERFORM_LIMIT }, (_, id) => begin(link, id, exec("true")));
  const refused = await begin(link, 999, exec("true"));
  expect(refused).toMatchObject({ fault: { code: "limit", subject: "LINK_PERFORM_LIMIT" } });
  expect(asks.length).toBe(LINK_PERFORM_LIMIT);
});

test("what waits for an agent that does not read is limited by name", async () => {
  const { link } = await fakeLink("deaf");
  const large = write("f", "x".repeat(LINK_QUEUE_LIMIT_BYTES / 4));
  for (let id = 0; id < 3; id++) void begin(link, id, large);
  expect(await begin(link, 9, large)).toMatchObject({
    fault: { code: "full", subject: "LINK_QUEUE_LIMIT_BYTES" },
  });
});

/** The most memory that a process has had, in MiB. */
function memoryOf(child: ChildProcess): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

test("200 MB of output do not grow the agent's memory", async () => {
  const cell = await TestCell.make(bundle);
  const { perform, child } = await cell.start();
  await perform(1, sh("head -c 1000000 /dev/zero"));
  const before = memoryOf(child);
  const outcome = await perform(2, sh("head -c 200000000 /dev/zero | tr '\\0' x; echo end"));
  expect(outcome).toMatchObject({ kind: "ok", result: { stdoutCutBytes: 200_000_004 - 32_768 } });
  expect(memoryOf(child) - before).toBeLessThan(64);
});

test("output is dropped for a host that does not read, and its outcome is not", async () => {
  const cell = await TestCell.make(bundle);
  const { link, stream, child } = await cell.start({ outputBytes: 1_000 });
  let toldBytes = 0;
  const running = link.perform(
    action(1, sh("head -c 200000000 /dev/zero | tr '\\0' x; echo end; echo > done")),
    (_, text) => {
      toldBytes += text.length;
    },
    IDLE,
  );
  stream.pause();
  await until(async () => (await readdir(cell.workspace)).includes("done"));
  const most = memoryOf(child);
  stream.resume();
  const event = await running;
  const outcome = event.ok ? event.value.outcome : null;
  expect(outcome).toMatchObject({ kind: "ok", result: { stdoutCutBytes: 199_999_004 } });
  expect(toldBytes).toBeLessThan(2 * OUTPUT_QUEUE_LIMIT_BYTES + 1_000_000);
  expect(most).toBeLessThan(160);
});

test("a terminal's Ctrl-C does not end the agent", async () => {
  const cell = await TestCell.make(bundle);
  const { perform, child } = await cell.start();
  child.kill("SIGINT");
  child.kill("SIGHUP");
  expect(stdoutOf(await perform(1, sh("echo alive")))).toBe("alive\n");
});

test("an agent that is told to end does so as if it had been closed", async () => {
  const cell = await TestCell.make(bundle);
  const { link, child, exited } = await cell.start();
  const running = link.perform(action(1, sh(`echo > started; sleep ${nap(4724)}`)), () => {}, IDLE);
  await until(async () => (await readdir(cell.workspace)).includes("started"));
  child.kill("SIGTERM");
  const event = await running;
  expect(event.ok && event.value.outcome.kind).toBe("cancelled");
  await exited;
  await until(() => !isRunning(`sleep\x00${nap(4724)}`));
});

function openingOf(cell: string) {
  return {
    cell: cell as never,
    generation: 1,
    workspace: "/w",
    spool: "/s",
    rg: "/rg",
    pty: "/pty",
    limits: {
      commandTimeoutMs: 1,
      outputBytes: 1,
      processCount: 1,
      openFileCount: 1,
      fileBytes: 1,
      memoryBytes: 1,
      diskBytes: 1,
    },
    variables: [],
    hasNetwork: false,
    certificates: "",
  };
}

/** A link whose agent is this test. */
async function fakeLink(ears: "hears" | "deaf" = "hears"): Promise<{ link: Link; agent: Duplex }> {
  const [host, agent] = duplexPair();
  if (ears === "hears") agent.resume();
  const connecting = connectLink(host, openingOf("c_00000000000000000000000000"), "none", {}, IDLE);
  agent.write(responseFrame(STATUSES.done, 1, encodeShape(HELLO, { generation: 1, spool: "s" })));
  const link = await connecting;
  if (!link.ok) throw new Error(link.fault.message);
  return { link: link.value, agent };
}
