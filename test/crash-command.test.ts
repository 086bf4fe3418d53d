import { appendFileSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ScriptedRequest } from "@dev/model/scripted";
import { afterEach, expect, test } from "vitest";
import {
  cellOf,
  endCell,
  hasSandbox,
  kill,
  killAgent,
  processesOf,
  said,
  until,
} from "./support/crash-process.ts";
import { checkConversations, checkLedger, ledgerOf } from "./support/crash-task.ts";
import { type Desk, openDesk, type Ran, read, type Started, threadOf } from "./support/dev.ts";

/** A command that shows how often it ran, says something, and ends when it is let. */
const COMMAND =
  "echo begun >> effects.log; echo partial; until [ -e go ]; do sleep 0.05; done; " +
  "echo whole; echo ended >> effects.log; exit 7";
const LAST = "I saw what it said";
const UNCONFINED = "[local]\nconfine = false\n";

type Kind = { readonly name: string; readonly cell: string; readonly confine: boolean };
const SANDBOXED: readonly Kind[] = [
  { name: "a confined local cell", cell: "local", confine: true },
  { name: "a cell of its own", cell: "bubblewrap", confine: true },
];
const KINDS: readonly Kind[] = [
  ...SANDBOXED,
  { name: "a local cell that nothing confines", cell: "local", confine: false },
];
const [LOCAL = { name: "", cell: "local", confine: true }] = KINDS;

let desk: Desk;
let cell = "";
afterEach(async () => {
  // A command that was never let go on would wait for its deadline.
  if (cell !== "") endCell(cell);
  cell = "";
  await desk.close();
});

/** A `dev exec` in the middle of the command. */
type Midway = {
  readonly started: Started;
  readonly id: string;
  readonly cell: string;
  readonly workspace: string;
};

async function midway(kind: Kind, expected: readonly string[]): Promise<Midway> {
  const call = { tool: "exec", arguments: { command: COMMAND } };
  desk = await openDesk([
    { reply: { calls: [call] } },
    { reply: { text: LAST }, expect: expected },
  ]);
  if (!kind.confine) appendFileSync(join(desk.home, "config.toml"), UNCONFINED);
  const args = ["exec", "--json", "--mode", "full", "--cell", kind.cell, "run it"];
  const started = desk.start(args);
  const first = (await said(started, "stdout", "thread.started")).split("\n")[0] ?? "";
  const id = (JSON.parse(first) as { thread_id: string }).thread_id;
  const workspace =
    kind.cell === "local" ? desk.project : join(desk.home, "workspaces", id, "tree");
  await until("the command has begun", () => existsSync(join(workspace, "effects.log")));
  const found = cellOf(desk);
  cell = found.id;
  const outputs = join(found.path, "disk/spool/output");
  const isKept = (name: string): boolean => read(join(outputs, name)) === "partial\n";
  await until("the cell has kept what it said", () => readdirSync(outputs).some(isKept));
  return { started, id, cell, workspace };
}

const release = ({ workspace }: Midway) => writeFileSync(join(workspace, "go"), "");
const effects = ({ workspace }: Midway) => read(join(workspace, "effects.log"));
const command = (ran: Ran) =>
  ran.lines.find(({ type, item }) => type === "item.completed" && item.type === "command_execution")
    ?.item;

/** The session has ended well, its ledger and its conversation too. */
async function checkEnd(ran: Ran, id: string): Promise<void> {
  expect(desk.model.errors).toEqual([]);
  expect(ran.code).toBe(0);
  expect(ran.stdout).toContain(LAST);
  checkConversations(desk.model.requests);
  checkLedger(await ledgerOf(desk, id));
}

for (const kind of KINDS) {
  const options = { skip: kind.confine && !hasSandbox };

  test(`dev dies, the command ends in ${kind.name}: its real output is used`, options, async () => {
    const at = await midway(kind, ["exit code 7", "partial\nwhole\n"]);
    await kill(at.started);
    release(at);
    await until("the cell is empty", () => processesOf(at.cell).length === 0);
    expect(effects(at)).toBe("begun\nended\n");
    const ran = await desk.run(["resume", "--json", at.id]);
    await checkEnd(ran, at.id);
    expect(command(ran)).toMatchObject({ exit_code: 7, stdout: "partial\nwhole\n" });
    expect(effects(at)).toBe("begun\nended\n");
  });

  test(`dev is resumed while the command runs in ${kind.name}: it waits`, options, async () => {
    const at = await midway(kind, ["exit code 7", "partial\nwhole\n"]);
    await kill(at.started);
    const resumed = desk.start(["resume", at.id]);
    await said(resumed, "stderr", "waiting for what the cell was doing");
    expect(effects(at)).toBe("begun\n");
    release(at);
    await checkEnd(await resumed.ended, at.id);
    expect(effects(at)).toBe("begun\nended\n");
  });

  test(`dev and the agent die in ${kind.name}: the answer is unknown`, options, async () => {
    const at = await midway(kind, ["unknown: ", "partial"]);
    await kill(at.started);
    await killAgent(at.cell);
    const ran = await desk.run(["resume", "--json", at.id]);
    await checkEnd(ran, at.id);
    expect(command(ran)).toMatchObject({ status: "unknown" });
    expect(command(ran).known).toContain("partial");
    expect(processesOf(at.cell)).toEqual([]);
    expect(effects(at)).toBe("begun\n");
  });

  test(`the agent alone dies in ${kind.name}: dev goes on with unknown`, options, async () => {
    const at = await midway(kind, ["unknown: ", "partial"]);
    await killAgent(at.cell);
    const ran = await at.started.ended;
    await checkEnd(ran, at.id);
    expect(command(ran)).toMatchObject({ status: "unknown" });
    expect(processesOf(at.cell)).toEqual([]);
    expect(effects(at)).toBe("begun\n");
  });

  test(
    `an interrupt stops the command in ${kind.name}, and the session goes on`,
    options,
    async () => {
      const at = await midway(kind, ["cancelled: "]);
      at.started.child.kill("SIGINT");
      const ran = await at.started.ended;
      expect(ran.code).toBe(130);
      expect(processesOf(at.cell)).toEqual([]);
      await checkEnd(await desk.run(["resume", "--json", at.id]), at.id);
      expect(effects(at)).toBe("begun\n");
    },
  );
}

for (const kind of KINDS) {
  const options = { skip: kind.confine && !hasSandbox };

  test(
    `dev dies as it starts ${kind.name}: the next one leaves nothing of it`,
    options,
    async () => {
      desk = await openDesk([
        {
          reply: { calls: [{ tool: "exec", arguments: { command: "echo once >> effects.log" } }] },
        },
        { reply: { text: LAST }, expect: ["exit code 0"] },
      ]);
      if (!kind.confine) appendFileSync(join(desk.home, "config.toml"), UNCONFINED);
      const args = ["exec", "--json", "--mode", "full", "--cell", kind.cell, "run it"];
      const preload = new URL("./support/crash-launch.mjs", import.meta.url).href;
      const ran = await desk.run(args, { env: { NODE_OPTIONS: `--import ${preload}` } });
      expect(ran.signal).toBe("SIGKILL");
      const id = threadOf(ran);
      await checkEnd(await desk.run(["resume", "--json", id]), id);
      const found = cellOf(desk).id;
      cell = found;
      await until("the cell is empty", () => processesOf(found).length === 0);
    },
  );
}

test("the cell is lost with its spool: the answer is unknown, and nothing is run again", async () => {
  const at = await midway(LOCAL, ["unknown: ", "The cell that had it is lost"]);
  await kill(at.started);
  release(at);
  await until("the cell is empty", () => processesOf(at.cell).length === 0);
  rmSync(cellOf(desk).path, { recursive: true });
  await checkEnd(await desk.run(["resume", "--json", at.id]), at.id);
  expect(effects(at)).toBe("begun\nended\n");
});

test("of two that resume one session the second is refused, and told why", async () => {
  const at = await midway(LOCAL, ["exit code 7"]);
  const early = await desk.run(["resume", at.id]);
  expect(early).toMatchObject({ code: 1, stdout: "" });
  await kill(at.started);
  const first = desk.start(["resume", at.id]);
  await said(first, "stderr", "waiting for what the cell was doing");
  const second = await desk.run(["resume", "--json", at.id]);
  expect(second.code).toBe(1);
  expect(second.lines.at(-1)).toMatchObject({ type: "error", code: "in_use", subject: at.id });
  expect(second.lines.at(-1).message).toContain("another process has driven this session since");
  release(at);
  await checkEnd(await first.ended, at.id);
  expect(effects(at)).toBe("begun\nended\n");
});

test("a driver that stands still keeps its session; dead, it keeps nothing", async () => {
  const at = await midway(LOCAL, ["exit code 7", "partial\nwhole\n"]);
  at.started.child.kill("SIGSTOP");
  const refused = await desk.run(["resume", "--json", at.id]);
  expect(refused.code).toBe(1);
  expect(refused.lines.at(-1)).toMatchObject({ type: "error", code: "in_use" });
  await kill(at.started);
  release(at);
  await checkEnd(await desk.run(["resume", "--json", at.id]), at.id);
  expect(effects(at)).toBe("begun\nended\n");
});

test("a driver that stood still and goes on finishes its own turn", async () => {
  const at = await midway(LOCAL, ["exit code 7", "partial\nwhole\n"]);
  at.started.child.kill("SIGSTOP");
  release(at);
  await until("the command has ended", () => effects(at) === "begun\nended\n");
  at.started.child.kill("SIGCONT");
  await checkEnd(await at.started.ended, at.id);
});

test("dev dies while the model is asked: it is asked again, as attempt 2", async () => {
  const first = (request: ScriptedRequest) =>
    request.count === 1
      ? { reply: { text: "never heard" }, gate: "never" }
      : { reply: { text: LAST } };
  desk = await openDesk([first, first]);
  const started = desk.start(["exec", "--json", "hello"]);
  const [{ body }] = await Promise.all([
    desk.model.request(1),
    said(started, "stdout", "turn.started"),
  ]);
  await kill(started);
  const id = threadOf(await started.ended);
  const ran = await desk.run(["resume", "--json", id]);
  await checkEnd(ran, id);
  expect(desk.model.requests.map((request) => request.body)).toEqual([body, body]);
  const [asked] = await ledgerOf(desk, id);
  const life = asked?.lines.map(({ state, attempt }) => `${state} ${attempt}`);
  expect(life).toEqual(["minted 0", "dispatched 1", "dispatched 2", "completed 2"]);
});
