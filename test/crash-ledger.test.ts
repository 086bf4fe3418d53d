import { expect, test } from "vitest";
import { cellOf, hasSandbox, processesOf, until } from "./support/crash-process.ts";
import {
  atPoint,
  type Commit,
  checkDispatched,
  checkTask,
  EXEC,
  EXEC_APART,
  each,
  following,
  LAST_MESSAGE,
  ledgerOf,
  onTask,
  type Point,
  REPLY_COUNT,
  runUntil,
  sampled,
  threadIn,
  WIDTH,
} from "./support/crash-task.ts";
import type { Desk, Ran } from "./support/dev.ts";

/** Kill points that are tried; with CRASH_ALL set, all of them. */
const POINT_LIMIT = 40;
const TWICE_LIMIT = 12;
/** Kills that are spread over one run's time. */
const MOMENT_COUNT = 16;
const LIMIT_MS = 300_000;
const NEVER = { at: 0, when: "after" } as const;

/** One run of the whole task, unharmed: the commits that it comes to. */
async function unharmed(): Promise<readonly Commit[]> {
  return onTask(async (desk) => {
    const { ran, commits } = await runUntil(desk, EXEC, NEVER);
    expect(ran.code).toBe(0);
    checkTask(desk, await ledgerOf(desk, threadIn(ran) ?? ""));
    return commits;
  });
}

type Strike = Point & { readonly kind: string };

function strikes(commits: readonly Commit[]): readonly Strike[] {
  return commits.flatMap(({ count, kind }) =>
    (["before", "after"] as const).map((when) => ({ at: count, when, kind })),
  );
}

/** What a killed run left, taken up until its end; answers with the session's id. */
async function takeUp(
  desk: Desk,
  killed: Ran,
  id = threadIn(killed),
  exec = EXEC,
): Promise<string> {
  const ran = await desk.run(await following(desk, id, exec));
  expect(ran.stderr).toBe("");
  const isTold = killed.stdout.includes('"turn.completed"');
  if (isTold && ran.code === 2) {
    // It had told its end and given the session back: there is nothing left to take up.
    expect(ran.lines.at(-1).message).toContain("the session is complete");
    return id ?? "";
  }
  expect(ran.lines.at(-1)).toMatchObject({ type: "turn.completed" });
  expect(ran.code).toBe(0);
  return threadIn(ran) ?? "";
}

test(
  "killed at any transition of the ledger, it goes on as if nothing had happened",
  async () => {
    const all = strikes(await unharmed());
    const chosen = sampled(all, ({ kind, when }) => `${when} ${kind}`, POINT_LIMIT);
    const covered = new Map<string, number>();
    await each(chosen, WIDTH, (strike) =>
      atPoint(strike, () =>
        onTask(async (desk) => {
          const { ran, commits } = await runUntil(desk, EXEC, strike);
          expect(ran.signal).toBe("SIGKILL");
          const known = threadIn(ran);
          if (strike.kind === "dispatch") checkDispatched(desk, await ledgerOf(desk, known ?? ""));
          const id = await takeUp(desk, ran);
          checkTask(desk, await ledgerOf(desk, id));
          // A model call that was cut off is made again, and no other one is.
          expect(desk.model.requests.length).toBeLessThanOrEqual(REPLY_COUNT + 1);
          const name = `${strike.when} ${commits.at(-1)?.kind}`;
          covered.set(name, (covered.get(name) ?? 0) + 1);
        }),
      ),
    );
    const kinds = [...covered].map(([name, count]) => `${name} ${count}`).sort();
    process.stdout.write(`${chosen.length} of ${all.length} points: ${kinds.join(", ")}\n`);
    expect(new Set(all.map(({ when, kind }) => `${when} ${kind}`))).toEqual(
      new Set(covered.keys()),
    );
  },
  LIMIT_MS,
);

test(
  "killed again while it takes a session up, it goes on the next time",
  async () => {
    const commits = await unharmed();
    const prompted = commits.find(({ kind }) => kind === "append")?.count ?? 0;
    const all = strikes(commits).filter(({ at }) => at > prompted);
    const chosen = sampled(all, ({ at }) => String(at % TWICE_LIMIT), TWICE_LIMIT);
    await each([...chosen.entries()], WIDTH, ([index, first]) => {
      const second: Point = { at: 1 + (index % 7), when: index % 2 === 0 ? "after" : "before" };
      return atPoint([first, second], () =>
        onTask(async (desk) => {
          const { ran } = await runUntil(desk, EXEC, first);
          const id = threadIn(ran);
          const again = await runUntil(desk, await following(desk, id), second);
          const known = id ?? threadIn(again.ran);
          const isKilled = again.ran.signal === "SIGKILL";
          const last = isKilled ? await takeUp(desk, again.ran, known) : known;
          checkTask(desk, await ledgerOf(desk, last ?? ""));
        }),
      );
    });
  },
  LIMIT_MS,
);

test(
  "killed at any moment, between transitions too, it goes on as if nothing had happened",
  async () => {
    const kinds = hasSandbox ? [EXEC, EXEC_APART] : [EXEC];
    const moments = await Promise.all(
      kinds.map(async (exec) => {
        const takenMs = await onTask(async (desk) => {
          const beganMs = performance.now();
          expect((await desk.run(exec)).code).toBe(0);
          return performance.now() - beganMs;
        });
        const count = MOMENT_COUNT / kinds.length;
        const share = (at: number): number => (at + 0.5) / count;
        return Array.from({ length: count }, (_, at) => ({
          exec,
          afterMs: Math.round(takenMs * share(at)),
        }));
      }),
    );
    let killed = 0;
    await each(moments.flat(), WIDTH, ({ exec, afterMs }) =>
      atPoint({ exec, afterMs }, () =>
        onTask(async (desk) => {
          const started = desk.start(exec);
          const timer = setTimeout(() => started.child.kill("SIGKILL"), afterMs);
          const ran = await started.ended;
          clearTimeout(timer);
          killed += ran.signal === "SIGKILL" ? 1 : 0;
          checkTask(desk, await ledgerOf(desk, await takeUp(desk, ran, threadIn(ran), exec)));
          const { id: cell } = cellOf(desk);
          await until("the cell is empty", () => processesOf(cell).length === 0);
        }),
      ),
    );
    process.stdout.write(`${killed} of ${moments.flat().length} moments were in time\n`);
    expect(killed).toBeGreaterThan(0);
  },
  LIMIT_MS,
);

test("killed after the last answer and before the end, it says that answer and asks no one", async () => {
  const commits = await unharmed();
  const last = commits.findLast(({ kind }) => kind === "append")?.count ?? 0;
  expect(commits.slice(last).map(({ kind }) => kind)).toContain("settle");
  const isOpen = ({ kind }: Commit): boolean => kind !== "release";
  await each(commits.slice(last - 1).filter(isOpen), WIDTH, ({ count, kind }) =>
    atPoint(kind, () =>
      onTask(async (desk) => {
        const { ran } = await runUntil(desk, EXEC, { at: count, when: "after" });
        const asked = desk.model.requests.length;
        const resumed = await desk.run(["resume", threadIn(ran) ?? ""]);
        expect(resumed).toMatchObject({ code: 0, stdout: `${LAST_MESSAGE}\n` });
        expect(desk.model.requests).toHaveLength(asked);
      }),
    ),
  );
});
