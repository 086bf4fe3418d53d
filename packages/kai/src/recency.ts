import { execute } from "./execution.ts";
import type { Ground } from "./ground.ts";

const COMMIT_COUNT = 200;
const DEADLINE_MS = 2_000;

/** When files were last changed in git, in Unix milliseconds; empty where there is no git, or it is slow. */
export async function changedMs(
  { shell, env, directory, tree, scratch, nowMs }: Ground,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  if (!tree.entries.has(".git")) return found;
  const log = ["log", `-n${COMMIT_COUNT}`, "--name-only", "--no-renames", "--relative"];
  const argv = ["git", "--no-optional-locks", ...log, "--format=@%ct", "-z"];
  const start = { argv, cwd: directory, env, stdin: "none", writable: [scratch] } as const;
  const ran = await execute(shell, start, DEADLINE_MS, nowMs, signal);
  if (ran.kind === "not_run") return found;
  let atMs = 0;
  for (const part of ran.output.stdout.split(/[\0\n]+/)) {
    const stamp = /^@(\d+)$/.exec(part)?.[1];
    if (stamp !== undefined) atMs = Number(stamp) * 1000;
    else if (part !== "" && !found.has(part)) found.set(part, atMs);
  }
  return found;
}
