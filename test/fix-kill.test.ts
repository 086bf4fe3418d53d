import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as passed } from "node:timers/promises";
import { expect, test } from "vitest";
import { until } from "./support/crash-process.ts";
import { read } from "./support/dev.ts";
import { FAULTY, fixing, leftBy, onDesk, snapshot } from "./support/fix.ts";

const LIMIT_MS = 300_000;
/** Kills that are tried, and within what time of the start: a run takes some seconds. */
const COUNT = Number(process.env.KILL_COUNT ?? 6);
const WITHIN_MS = 5_000;
const SEED = Number(process.env.KILL_SEED ?? 1);

/** Numbers from 0 to below 1, the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test.each(["SIGKILL", "SIGINT"] as const)(
  "%s at any moment leaves the tree as it was or fixed, and no process and no copy",
  async (signal) => {
    const random = seeded(SEED);
    let isStruck = false;
    for (let count = 0; count < COUNT; count += 1) {
      const afterMs = random() * WITHIN_MS;
      await onDesk(FAULTY, async (desk) => {
        const before = snapshot(desk.project);
        const started = desk.start(fixing(FAULTY, "--json"));
        // The moment is what is tried here.
        await passed(afterMs);
        started.child.kill(signal);
        const ran = await started.ended;
        isStruck ||= ran.signal === signal || ran.code === 130;
        const after = snapshot(desk.project);
        const file = "clamp.js";
        const others = (tree: ReadonlyMap<string, string>) => [...tree].filter(([p]) => p !== file);
        expect(others(after)).toEqual(others(before));
        const text = read(join(desk.project, file));
        if (text !== FAULTY.files[file]) expect(text).toMatch(/value >=? high/);
        if (ran.code === 130) expect(text).toBe(FAULTY.files[file]);
        await until("nothing is left", () => isClean(desk));
        const next = await desk.run(["fix", "--no-model", "--json", "--", "node", "-e", "0"]);
        expect(next.code).toBe(4);
        expect(read(join(desk.project, file))).toBe(text);
        expect(readFileSync(join(desk.home, "kai/ledger.jsonl"), "utf8")).toContain('"ended"');
      });
    }
    expect(isStruck).toBe(true);
  },
  LIMIT_MS,
);

function isClean(desk: Parameters<typeof leftBy>[0]): boolean {
  try {
    return leftBy(desk).length === 0;
  } catch {
    // It was struck before it had made a directory.
    return true;
  }
}
