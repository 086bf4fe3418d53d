import { expect, test } from "vitest";
import {
  answersOf,
  atPoint,
  checkTask,
  EXEC,
  each,
  following,
  ledgerOf,
  onTask,
  runUntil,
  sampled,
  threadIn,
  WIDTH,
} from "./support/crash-task.ts";

/** Points that are tried; with CRASH_ALL set, all of them. */
const POINT_LIMIT = 20;
const LIMIT_MS = 300_000;

test(
  "interrupted at any transition of the ledger, it stops cleanly, and the session goes on",
  async () => {
    const all = await onTask(async (desk) => {
      return (await runUntil(desk, EXEC, { at: 0, when: "after" })).commits;
    });
    const chosen = sampled(all, ({ kind }) => kind, POINT_LIMIT);
    let cancelled = 0;
    await each(chosen, WIDTH, ({ count, kind }) =>
      atPoint({ count, kind }, () =>
        onTask(async (desk) => {
          const point = { at: count, when: "after", signal: "SIGINT" } as const;
          const { ran } = await runUntil(desk, EXEC, point);
          expect(ran.stderr).toBe("");
          // The default is to die, until there is something to stop.
          expect(ran.signal ?? ran.code).toSatisfy((end) => ["SIGINT", 130, 0].includes(end));
          const begun = ran.lines.some(({ type }) => type === "turn.started");
          if (ran.code === 130 && begun) {
            expect(ran.lines.at(-1)).toMatchObject({
              type: "turn.failed",
              error: { code: "cancelled" },
            });
          }
          // Too late, it had nothing to stop.
          const isOver = ran.code === 0;
          const resumed = isOver ? ran : await desk.run(await following(desk, threadIn(ran)));
          expect(resumed).toMatchObject({ code: 0, stderr: "" });
          expect(resumed.lines.at(-1)).toMatchObject({ type: "turn.completed" });
          const stopped = [...answersOf(desk).entries()].filter(([, text]) =>
            /^cancelled: /.test(text),
          );
          const excused = new Map(stopped.map(([place]) => [place, /^cancelled: /]));
          checkTask(desk, await ledgerOf(desk, threadIn(resumed) ?? ""), excused);
          cancelled += excused.size;
        }),
      ),
    );
    process.stdout.write(
      `${chosen.length} of ${all.length} points, ${cancelled} calls cancelled\n`,
    );
    expect(cancelled).toBeGreaterThan(0);
  },
  LIMIT_MS,
);
