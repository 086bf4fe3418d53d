import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { readLog } from "@dev/cell/parts";
import { expect, test } from "vitest";
import { cellOf } from "./support/crash-process.ts";
import {
  atPoint,
  checkTask,
  type Entry,
  EXEC,
  each,
  ledgerOf,
  onTask,
  sampled,
  WIDTH,
} from "./support/crash-task.ts";
import { type Desk, type Ran, read, threadOf } from "./support/dev.ts";

/** Kill points that are tried; with CRASH_ALL set, all of them. */
const POINT_LIMIT = 24;
const LIMIT_MS = 300_000;
const EFFECTS = ["read", "write", "patch", "exec"];

type Point = { readonly at: number; readonly when: "before" | "after" };

/** Runs the task with an agent that dies at that record of its spool; dev itself is unharmed. */
async function runWith(desk: Desk, { at, when }: Point): Promise<Ran> {
  const bundle = new URL("../packages/cell/dist/agent.mjs", import.meta.url);
  const head = readFileSync(new URL("./support/crash-agent.mjs", import.meta.url), "utf8");
  const set = head.replace(/= \{.*\}; \/\/ CRASH POINT/, `= ${JSON.stringify({ at, when })};`);
  expect(set).not.toBe(head);
  const agent = `${desk.root}/agent.mjs`;
  writeFileSync(agent, set + readFileSync(bundle, "utf8"));
  return desk.run(EXEC, {
    env: {
      NODE_OPTIONS: `--import ${new URL("./support/crash-resolve.mjs", import.meta.url).href}`,
      CRASH_AGENT: agent,
    },
  });
}

const spoolOf = (desk: Desk) => `${cellOf(desk).path}/disk/spool`;

/** The records that the agent writes in a task which nothing disturbs. */
async function unharmed(): Promise<number> {
  return onTask(async (desk) => {
    const ran = await runWith(desk, { at: 0, when: "after" });
    expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed" });
    checkTask(desk, await ledgerOf(desk, threadOf(ran)));
    return read(`${spoolOf(desk)}/notes`)
      .trim()
      .split("\n").length;
  });
}

/** The ids that the log had as begun, and not as ended, when the agent died. */
function unfinished(bytes: Uint8Array): ReadonlySet<number> {
  const log = readLog(bytes);
  const ids = new Set<number>();
  for (const entry of log.kind === "log" ? log.entries : []) {
    if (entry.kind === "started") ids.add(entry.id);
    else if (entry.kind === "finished" || entry.kind === "forgotten") ids.delete(entry.id);
  }
  return ids;
}

/** The places, among the calls of the task, of the commands with these ids. */
function commandsAmong(
  ids: ReadonlySet<number>,
  ledger: readonly Entry[],
): ReadonlyMap<number, RegExp> {
  const calls = ledger.filter(({ action }) => EFFECTS.includes(action.op.kind));
  const places = calls.map(({ action }, place) =>
    action.op.kind === "exec" && ids.has(action.id) ? place : -1,
  );
  return new Map(places.filter((place) => place >= 0).map((place) => [place, /^unknown: /]));
}

test(
  "of an agent killed at any record of its spool, only commands that were cut off are unknown",
  async () => {
    const count = await unharmed();
    const all = Array.from({ length: count }, (_, index) => index + 1).flatMap((at) =>
      (["before", "after"] as const).map((when): Point => ({ at, when })),
    );
    const chosen = sampled(all, ({ at, when }) => (at === 1 ? when : ""), POINT_LIMIT);
    let killed = 0;
    let unknowns = 0;
    await each(chosen, WIDTH, (point) =>
      atPoint(point, () =>
        onTask(async (desk) => {
          let ran = await runWith(desk, point);
          const id = threadOf(ran);
          if (point.at === 1) {
            // It died before it had opened its spool: that start has failed, and says so.
            expect(ran.code).toBe(1);
            expect(ran.lines.at(-1)).toMatchObject({ type: "error", code: "unavailable" });
            ran = await desk.run(["resume", "--json", id]);
          }
          expect(ran).toMatchObject({ code: 0, stderr: "" });
          const ledger = await ledgerOf(desk, id);
          const log = `${spoolOf(desk)}/log.killed`;
          const isKilled = existsSync(log);
          const cut = isKilled ? unfinished(readFileSync(log)) : new Set<number>();
          const unknown = commandsAmong(cut, ledger);
          checkTask(desk, ledger, unknown);
          killed += isKilled ? 1 : 0;
          unknowns += unknown.size;
        }),
      ),
    );
    const points = `${killed} of ${all.length} points`;
    process.stdout.write(`${points}, ${unknowns} commands cut off\n`);
    // The last records are acknowledgements: a run may end before the agent comes to them.
    expect(killed).toBeGreaterThan(chosen.length * 0.8);
    expect(unknowns).toBeGreaterThan(0);
  },
  LIMIT_MS,
);
