import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Desk, Started } from "./dev.ts";

/** How often the world is looked at, and for how long at most. */
const LOOK_MS = 10;
const LOOK_LIMIT_MS = 20_000;

/** Whether this machine has what a confined cell is made with. */
export const hasSandbox: boolean = lookForSandbox();

function lookForSandbox(): boolean {
  if (spawnSync("bwrap", ["--version"]).status === 0) return true;
  if (process.env.CI === "true") throw new Error("bubblewrap is not installed");
  process.stderr.write("skipped: what needs bubblewrap, which is not installed\n");
  return false;
}

/** Looks at the world until it is as it should be; throws, saying for what, when it never is. */
export async function until(what: string, look: () => boolean): Promise<void> {
  const endMs = performance.now() + LOOK_LIMIT_MS;
  while (!look()) {
    if (performance.now() > endMs) throw new Error(`it never came to this: ${what}`);
    await pause(LOOK_MS);
  }
}

/** Waits until a running command has said this on stdout or stderr; throws when it ends without. */
export async function said(
  started: Started,
  stream: "stdout" | "stderr",
  text: string,
): Promise<string> {
  let all = "";
  let ended = false;
  started.child[stream]?.on("data", (chunk: string) => {
    all += chunk;
  });
  started.child.once("close", () => {
    ended = true;
  });
  await until(`it says ${text}`, () => ended || all.includes(text));
  if (!all.includes(text)) throw new Error(`it ended without ${text}: ${all}`);
  return all;
}

/** Kills a `dev` process as nothing can prevent, and waits until it is gone. */
export async function kill(started: Started): Promise<void> {
  started.child.kill("SIGKILL");
  await started.ended;
}

/** A process of this machine, as /proc shows it. */
export type Seen = {
  readonly pid: number;
  readonly program: string;
  readonly argv: readonly string[];
};

/** The one cell of a desk: its id, and its directory. */
export function cellOf(desk: Desk): { readonly id: string; readonly path: string } {
  const names = readdirSync(join(desk.home, "cells"), { recursive: true, encoding: "utf8" });
  const [name, ...more] = names.filter((each) => /^\w+\/c_\w+$/.test(each));
  if (name === undefined || more.length > 0) throw new Error(`not one cell: ${names.join(" ")}`);
  return { id: basename(name), path: join(desk.home, "cells", name) };
}

/** Every process in a cell that lives: by what is in its environment, in whatever namespace it is. */
export function processesOf(cell: string): readonly Seen[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((name): Seen[] => {
    try {
      const environment = readFileSync(`/proc/${name}/environ`, "latin1").split("\0");
      if (!environment.includes(`DEV_CELL=${cell}`)) return [];
      const argv = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
      return [{ pid: Number(name), program: basename(argv[0] ?? ""), argv }];
    } catch {
      // It has ended meanwhile, or is another person's.
      return [];
    }
  });
}

/** Kills a cell's agent, and nothing else, and waits until it is gone. */
export async function killAgent(cell: string): Promise<void> {
  const agents = processesOf(cell).filter(
    ({ program, argv }) => /^node/.test(program) && argv[1]?.endsWith("agent.mjs"),
  );
  const [agent, ...more] = agents;
  if (agent === undefined || more.length > 0) throw new Error(`${agents.length} agents in ${cell}`);
  process.kill(agent.pid, "SIGKILL");
  await until("the agent is gone", () => processesOf(cell).every(({ pid }) => pid !== agent.pid));
}

/** Kills whatever still runs in a cell. */
export function endCell(cell: string): void {
  for (const { pid } of processesOf(cell)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended between the look and the kill.
    }
  }
}
