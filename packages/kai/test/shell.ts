import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { finished } from "node:stream/promises";
import type { Ended, Running, Shell, Start } from "../src/index.ts";

/**
 * A plain shell for tests: each process in a group of its own. It confines nothing, so that what Kai
 * itself keeps from being written stays visible as such.
 */
export function plainShell(): Shell {
  return { start };
}

function start({ argv, cwd, env, stdin }: Start): Running {
  const [program = "", ...rest] = argv;
  const child = spawn(program, rest, {
    cwd,
    env: { ...env },
    detached: true,
    stdio: [stdin === "pipe" ? "pipe" : "ignore", "pipe", "pipe"],
  });
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error("a pipe was asked for");
  // A process that is gone reads no more; whoever writes to it is told by `ended`.
  child.stdin?.on("error", () => {});
  return { stdin: child.stdin, stdout, stderr, ended: ended(child), kill: () => kill(child) };
}

function ended(child: ChildProcess): Promise<Ended> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ kind: "spawn", why: error.message }));
    child.once("exit", (code, signal) => {
      // A descendant that lives on may hold the pipes open for ever.
      kill(child);
      const end: Ended =
        code === null ? { kind: "signal", signal: signal ?? "" } : { kind: "exit", code };
      const pipes = [child.stdout, child.stderr].flatMap((pipe) => (pipe ? [finished(pipe)] : []));
      void Promise.allSettled(pipes).then(() => resolve(end));
    });
  });
}

function kill(child: ChildProcess): void {
  if (child.pid === undefined) return;
  for (const pid of [...descendants(child.pid)].reverse()) signal(pid);
  signal(-child.pid);
}

/** Those that left the group are found by their parents, where the system tells of them. */
function* descendants(pid: number): Generator<number> {
  let children = "";
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  } catch {
    return;
  }
  for (const child of children.split(" ").filter(Boolean)) {
    yield Number(child);
    yield* descendants(Number(child));
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}
