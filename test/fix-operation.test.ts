import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ScriptedRequest, ScriptStep } from "@dev/model/scripted";
import { afterEach, expect, test } from "vitest";
import { hasSandbox, kill, said, until } from "./support/crash-process.ts";
import { ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, type Ran, read, type Started, threadOf } from "./support/dev.ts";
import { FAULTY, leftBy, snapshot } from "./support/fix.ts";

const LIMIT_MS = 300_000;
const SAMPLE = fileURLToPath(new URL("../examples/sample", import.meta.url));
const ARGV = ["node", "--test"];
const LAST = "I saw what it said";

let desk: Desk;
afterEach(() => desk.close());

const calls = (given: unknown): ScriptStep => ({
  reply: { calls: [{ tool: "fix", arguments: given }] },
});
const ends = (...expected: readonly string[]): ScriptStep => ({
  reply: { text: LAST },
  expect: expected,
});

/** A desk with the faulty project, whose model calls `fix` and expects to be told this. */
async function asked(...expected: readonly string[]): Promise<void> {
  desk = await openDesk([calls({ argv: ARGV }), ends(...expected)], FAULTY.files);
}

const tool = (ran: Ran) =>
  ran.lines.find(({ type, item }) => type === "item.completed" && item.type === "tool_call")?.item;
const text = () => read(join(desk.project, "clamp.js"));
const isFixed = () => /value >=? high/.test(text());

/** How the operation's action went, in the ledger's words. */
async function lifeOf(id: string): Promise<readonly string[]> {
  const entries = await ledgerOf(desk, id);
  const found = entries.find(({ action }) => action.op.kind === "tool");
  return found?.lines.map(({ state, attempt }) => `${state} ${attempt}`) ?? [];
}

async function checkNothingLeft(): Promise<void> {
  await until("nothing is left", () => leftBy(desk).length === 0).catch((error: unknown) => {
    throw new Error(`left: ${leftBy(desk).join(", ")}`, { cause: error });
  });
}

test(
  "an agent that calls fix has the sample project mended, and is told the change and what the verifier saw",
  async () => {
    const given = { argv: ["node", "--test", "test/settle.test.js"], cwd: "." };
    const told = ["verified: node --test test/settle.test.js: exit code 0, 3 passed, 0 failed"];
    desk = await openDesk([
      calls(given),
      ends(...told, "before: exit code 1", "index <= rest", "+  return"),
    ]);
    cpSync(SAMPLE, desk.project, { recursive: true });
    const file = join(desk.project, "src/split.js");
    const right = read(file);
    writeFileSync(file, right.replace("index < rest", "index <= rest"));
    expect(read(file)).not.toBe(right);
    const ran = await desk.run(["exec", "--json", "make the tests pass"]);
    expect(desk.model.errors).toEqual([]);
    expect(ran.code).toBe(0);
    expect(read(file)).toBe(right);
    expect(tool(ran)).toMatchObject({ name: "dev/fix", status: "completed" });
    expect(await lifeOf(threadOf(ran))).toEqual(["minted 0", "dispatched 1", "completed 1"]);
    expect(readdirSync(join(desk.home, "kai/operations"))).toEqual([]);
    await checkNothingLeft();
  },
  LIMIT_MS,
);

test(
  "what follows fix in a reply sees what it wrote, and it sees what came before it",
  async () => {
    const twice = [
      { tool: "write", arguments: { path: "clamp.js", text: FAULTY.files["clamp.js"] } },
      { tool: "fix", arguments: { argv: ARGV } },
      { tool: "read", arguments: { path: "clamp.js" } },
    ];
    const last = ({ messages }: ScriptedRequest) => JSON.stringify(messages.at(-1));
    const isSeen = (request: ScriptedRequest) => /value >=? high\) return high/.test(last(request));
    desk = await openDesk(
      [{ reply: { calls: twice } }, { reply: { text: LAST }, expect: isSeen }],
      { ...FAULTY.files, "clamp.js": "nothing of the kind" },
    );
    await desk.run(["exec", "--json", "go"]);
    expect(desk.model.errors).toEqual([]);
    expect(isFixed()).toBe(true);
  },
  LIMIT_MS,
);

async function midway(): Promise<{ readonly started: Started; readonly id: string }> {
  const started = desk.start(["exec", "--json", "go"]);
  const lines = await said(started, "stdout", '"tool_call"');
  const id = (JSON.parse(lines.split("\n")[0] ?? "") as { thread_id: string }).thread_id;
  const runs = join(desk.home, "kai/runs");
  await until("it has begun", () => existsSync(runs) && readdirSync(runs).length > 0);
  return { started, id };
}

test(
  "killed in the middle, and nothing written: the next driver runs it again",
  async () => {
    await asked("verified: ");
    const before = snapshot(desk.project);
    const { started, id } = await midway();
    await kill(started);
    expect(snapshot(desk.project)).toEqual(before);
    await checkNothingLeft();
    const ran = await desk.run(["resume", "--json", id]);
    expect(desk.model.errors).toEqual([]);
    expect(ran.code).toBe(0);
    expect(isFixed()).toBe(true);
    expect(await lifeOf(id)).toEqual(["minted 0", "dispatched 1", "completed 1"]);
    await checkNothingLeft();
  },
  LIMIT_MS,
);

test(
  "killed after it began to write: unknown, and nothing is run again",
  async () => {
    await asked("unknown: ", "clamp.js", "Look at them");
    const { started, id } = await midway();
    await kill(started);
    // What is there once it has written: its mark, and a file that is no more what it was.
    const entries = await ledgerOf(desk, id);
    const action = entries.find((each) => each.action.op.kind === "tool")?.action.id ?? 0;
    const marks = join(desk.home, "kai/operations");
    mkdirSync(marks, { recursive: true });
    const files = [{ file: "clamp.js", beforeDigest: "of what it was" }];
    const mark = { version: 1, directory: desk.project, files };
    writeFileSync(join(marks, `${id}-${action}.json`), JSON.stringify(mark));
    const before = text();
    const ran = await desk.run(["resume", "--json", id]);
    expect(desk.model.errors).toEqual([]);
    expect(tool(ran)).toMatchObject({ status: "unknown" });
    expect(text()).toBe(before);
    expect(await lifeOf(id)).toEqual(["minted 0", "dispatched 1", "unknown 1"]);
    expect(readdirSync(marks)).toEqual([]);
  },
  LIMIT_MS,
);

test(
  "an interrupt ends it with all that it started, and changes nothing",
  async () => {
    desk = await openDesk(
      [calls({ argv: ARGV }), ends("cancelled: ", "nothing was changed")],
      FAULTY.files,
    );
    const before = snapshot(desk.project);
    const { started, id } = await midway();
    started.child.kill("SIGINT");
    const ran = await started.ended;
    expect(ran.code).toBe(130);
    expect(snapshot(desk.project)).toEqual(before);
    await checkNothingLeft();
    const entries = await ledgerOf(desk, id);
    const lines = entries.find(({ action }) => action.op.kind === "tool")?.lines;
    expect(lines?.at(-1)?.state).toBe("completed");
    expect(JSON.stringify(lines?.at(-1))).toContain("cancelled");
    await desk.run(["resume", "--json", id]);
    expect(desk.model.requests.length).toBeGreaterThan(1);
    expect(snapshot(desk.project)).toEqual(before);
  },
  LIMIT_MS,
);

const RULES: readonly (readonly [string, string])[] = [
  ["its command", 'argv = ["node"]'],
  ["commands", 'ops = ["exec"]'],
  ["changes of files", 'ops = ["write"]'],
  ["what is none of the cell's", 'ops = ["tool"]'],
];

test.each(RULES)("a rule that denies %s denies fix, and nothing is run", async (_, rule) => {
  await asked("refused, nothing was done");
  const before = snapshot(desk.project);
  appendFileSync(join(desk.home, "config.toml"), `[[policy.rules]]\ndecision = "deny"\n${rule}\n`);
  const ran = await desk.run(["exec", "--json", "--mode", "full", "go"]);
  expect(desk.model.errors).toEqual([]);
  expect(tool(ran)).toMatchObject({ status: "refused" });
  expect(snapshot(desk.project)).toEqual(before);
  expect(readdirSync(desk.home)).not.toContain("kai");
});

test.each(["plan", "ask"])("in mode %s, with nobody to be asked, it is refused", async (mode) => {
  await asked("refused, nothing was done");
  const ran = await desk.run(["exec", "--json", "--mode", mode, "go"]);
  expect(desk.model.errors).toEqual([]);
  expect(tool(ran)).toMatchObject({ status: "refused" });
  expect(isFixed()).toBe(false);
});

test(
  "a change of a file that a rule keeps from being written is not written",
  async () => {
    await asked("not fixed: a change of clamp.js passes, and may not be written");
    const rule = '[[policy.rules]]\ndecision = "deny"\nops = ["patch"]\npaths = ["clamp.js"]\n';
    appendFileSync(join(desk.home, "config.toml"), rule);
    const before = snapshot(desk.project);
    const ran = await desk.run(["exec", "--json", "go"]);
    expect(desk.model.errors).toEqual([]);
    expect(tool(ran)).toMatchObject({ status: "failed" });
    expect(snapshot(desk.project)).toEqual(before);
  },
  LIMIT_MS,
);

test(
  "the command sees no key of the person's, and none of Dev's own files",
  async (context) => {
    context.skip(!hasSandbox, "nothing confines a process here");
    const look = `ls ${"$HOME"}/home; cat "$HOME/.netrc"; env; exit 1`;
    desk = await openDesk([calls({ argv: ["sh", "-c", look] }), ends("not fixed")], {
      "a.js": "exports.a = 1;\n",
    });
    writeFileSync(join(desk.root, ".netrc"), "hunter2\n");
    const env = { MODEL_KEY: "hunter3" };
    const ran = await desk.run(["exec", "--json", "go"], { env });
    const all = ran.stdout + ran.stderr + read(join(desk.home, "kai/ledger.jsonl"));
    expect(all).not.toMatch(/hunter[23]/);
    expect(all).not.toContain("dev.db");
  },
  LIMIT_MS,
);

test(
  "in a cell of its own it mends the session's copy, and not the person's directory",
  async (context) => {
    context.skip(!hasSandbox, "there is no cell of its own here");
    await asked("verified: ");
    const before = snapshot(desk.project);
    const ran = await desk.run(["exec", "--json", "--cell", "bubblewrap", "go"]);
    expect(desk.model.errors).toEqual([]);
    expect(snapshot(desk.project)).toEqual(before);
    const diff = await desk.run(["diff", threadOf(ran)]);
    expect(diff.stdout).toMatch(/value >=? high/);
  },
  LIMIT_MS,
);
