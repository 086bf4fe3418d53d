import { type ChildProcess, spawn } from "node:child_process";
import { constants, openSync, unlinkSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve as resolvePath } from "node:path";
import { type ExecEnd, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { errnoOf } from "./errno.ts";

/** A process that runs, and the leader of a group of its own. */
export type Spawned = { readonly pid: number; readonly exited: Promise<Exit> };

export type Exit = Extract<ExecEnd, { kind: "exit" | "signal" }>;

/** Standard input as a file, so that a program that does not read it, or opens /dev/stdin again, does no harm. */
export function openInput(path: string, text: string): number {
  if (text === "") return openSync("/dev/null", constants.O_RDONLY);
  writeFileSync(path, text, { mode: 0o600 });
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  unlinkSync(path);
  return descriptor;
}

/** Starts a program with these descriptors as 0, 1 and 2. Faults: `not_found`, `spawn`. */
export async function spawnProcess(
  command: { readonly argv: readonly string[]; readonly cwd: string },
  env: Readonly<Record<string, string>>,
  stdio: readonly number[],
): Promise<Result<Spawned>> {
  const [program = "", ...rest] = command.argv;
  let child: ChildProcess;
  try {
    child = spawn(program, rest, { cwd: command.cwd, env, stdio: [...stdio], detached: true });
  } catch (error) {
    return fail(await spawnFault(error, program, command.cwd));
  }
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => {
      if (signal !== null) resolve({ kind: "signal", signal });
      else resolve({ kind: "exit", code: code ?? -1 });
    });
  });
  const failure = await new Promise<Error | null>((resolve) => {
    child.once("spawn", () => resolve(null));
    child.once("error", resolve);
  });
  if (failure !== null) return fail(await spawnFault(failure, program, command.cwd));
  if (child.pid === undefined) throw new Error("a spawned process has a pid");
  offer(child.pid);
  return ok({ pid: child.pid, exited });
}

/** Where the cell's memory runs out, a command is to end, and not the agent that knows of it. */
function offer(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, COMMAND_OOM_SCORE);
  } catch {
    // It has ended already, or the system has no such thing.
  }
}

/** Of 1000: before all that has not been offered, and after what asked for it more. */
const COMMAND_OOM_SCORE = "500";

async function spawnFault(error: unknown, program: string, cwd: string): Promise<Fault> {
  const code = errnoOf(error);
  if (code === null) throw error;
  if (code === "ENOENT") {
    if (!program.includes("/")) {
      const mend = "install it, or name its path";
      return fault("not_found", `no program of this name is in PATH`, program, mend);
    }
    const isThere = await stat(resolvePath(cwd, program)).catch(() => null);
    if (isThere === null) return fault("not_found", "there is no such program", program);
    const message = "the interpreter that its first line names is not there";
    return fault("spawn", message, program, "install it, or run the file with another");
  }
  if (code === "EACCES") {
    return fault("spawn", "it may not be executed", program, "chmod +x it, or run its interpreter");
  }
  if (code === "E2BIG") {
    return fault(
      "spawn",
      "its arguments are too long",
      program,
      "give them in a file, or on stdin",
    );
  }
  if (code === "EAGAIN") {
    return fault("spawn", "the cell has no room for a process more", program, "end some of them");
  }
  return fault("spawn", `the system did not start it (${code})`, program);
}
