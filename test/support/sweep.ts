import { expect } from "vitest";
import {
  type Commit,
  checkLedger,
  each,
  ledgerOf,
  runUntil,
  sampled,
  WIDTH,
} from "./crash-task.ts";
import { type Desk, threadOf } from "./dev.ts";
import { checkPrefixes } from "./script.ts";

/** A task, done by a model that says the same however often and wherever it is asked to go on. */
export type SweptTask = {
  readonly open: () => Promise<Desk>;
  readonly prompt: string;
  /** Whether it was done as if nothing had happened. */
  readonly check: (desk: Desk) => void;
};

/**
 * Kills a task at its commits, some of every kind and so many in all, just before one or just after it,
 * and lets it go on to its end. Answers how many commits it has.
 */
export async function sweep(task: SweptTask, limit: number): Promise<number> {
  const commits = await struck(task, { count: Number.MAX_SAFE_INTEGER, kind: "none" });
  // Once the session is given back, there is nothing to go on with.
  const points = sampled(commits.slice(0, -1), ({ kind }) => kind, limit);
  await each(points, WIDTH, async (point) => {
    await struck(task, point);
  });
  return commits.length;
}

/** Runs the task, struck there, and then to its end; tells the commits of the first run. */
async function struck(
  { open, prompt, check }: SweptTask,
  { count, kind }: Commit,
): Promise<readonly Commit[]> {
  const desk = await open();
  const when = count % 2 === 0 ? "before" : "after";
  const exec = ["exec", "--json", "--mode", "full", prompt];
  try {
    const { ran, commits } = await runUntil(desk, exec, { at: count, when });
    const isAnnounced = ran.stdout.includes('"thread.started"');
    if (ran.code === null) {
      const resume = ["resume", "--json", "--mode", "full"];
      const rest = await desk.run(isAnnounced ? [...resume, threadOf(ran)] : exec);
      expect(rest.code, `${rest.stdout}${rest.stderr}`).toBe(0);
    }
    if (isAnnounced) checkLedger(await ledgerOf(desk, threadOf(ran)));
    checkPrefixes(desk.model.requests);
    expect(desk.model.errors).toEqual([]);
    check(desk);
    return commits;
  } catch (error) {
    throw new Error(`${when} commit ${count}, ${kind}: ${String(error)}`, { cause: error });
  } finally {
    await desk.close();
  }
}
