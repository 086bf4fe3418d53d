import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { devNull } from "node:os";
import { join } from "node:path";
import { Duplex, Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Boundary } from "../vendor.ts";
import { diagnose, missingProgram } from "./diagnosis.ts";
import { isMarked, nameProcess, type ProcessName } from "./process.ts";
import type { CellDirectory } from "./record.ts";
import { DESCRIPTORS } from "./sandbox.ts";

/** How to start one agent: what a kind of cell comes down to. */
export type Launch = {
  readonly boundary: Boundary;
  /** The program and its arguments; each step of the chain becomes the next, keeping its pid. */
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly wrapper:
    | { readonly kind: "none" }
    | { readonly kind: "bubblewrap"; readonly args: readonly string[]; readonly files: Files }
    /**
     * A runtime that passes two descriptors on, and writes the pid of the first process to a file. That
     * process has the mark among its variables or its arguments.
     */
    | {
        readonly kind: "runtime";
        readonly name: string;
        readonly pidFile: string;
        readonly mark: string;
      };
  /** Where things are, as the agent sees them. */
  readonly inside: {
    readonly workspace: string;
    readonly spool: string;
    readonly rg: string;
    readonly pty: string;
    /** For every command. */
    readonly variables: Readonly<Record<string, string>>;
  };
};

type Files = readonly Uint8Array[];

/** A process that stands before its first instruction, or, without a wrapper, just after it. */
export type Launched = {
  /** The agent's end of it is descriptor 3. */
  readonly link: Duplex;
  readonly agent: ProcessName;
  readonly root: ProcessName;
  /** Lets the agent run. Whoever calls it has made the two names durable. */
  readonly release: () => void;
  readonly ended: Promise<undefined>;
};

/** From the first process to its name. */
const LAUNCH_LIMIT_MS = 60_000;
/** Of a log, how much of its end is told. */
const LOG_TAIL_BYTES = 4096;
/** Descriptors above this are not looked for: a stdio table would have to be as long. */
const DESCRIPTOR_LIMIT = 65_536;
/** How often a runtime's file is looked for. */
const PID_POLL_MS = 5;
/** Beside the link, in a container: it waits for a line on it before it becomes the agent. */
export const GATE_DESCRIPTOR = 4;

/**
 * Starts the process, and answers when both names are known. It inherits nothing of ours but what the
 * launch says; its words go to the cell's log, which outlives us as it may.
 */
export async function launch(
  plan: Launch,
  directory: CellDirectory,
  signal: AbortSignal,
): Promise<Result<Launched>> {
  const opened: FileHandle[] = [];
  try {
    const log = await open(directory.log, "w", 0o600);
    opened.push(log);
    const files: number[] = [];
    for (const bytes of filesOf(plan)) {
      const file = await heldFile(join(directory.path, "held"), bytes);
      opened.push(file);
      files.push(file.fd);
    }
    const nothing = await open(devNull, "r+");
    opened.push(nothing);
    const child = spawn(plan.command[0], plan.command.slice(1), {
      cwd: plan.cwd,
      env: { ...plan.environment },
      // A session of its own: a terminal's signals to us are not for the agent.
      detached: true,
      stdio: stdioOf(plan, log.fd, files, nothing.fd),
    });
    return await named(plan, child, directory, signal);
  } finally {
    await Promise.all(opened.map((file) => file.close()));
  }
}

/** What the sandbox or the agent had to say. */
export async function logTail(directory: CellDirectory): Promise<string> {
  const bytes = await readFile(directory.log).catch(() => Buffer.alloc(0));
  return bytes.subarray(-LOG_TAIL_BYTES).toString("utf8");
}

function filesOf(plan: Launch): Files {
  if (plan.wrapper.kind !== "bubblewrap") return [];
  return [Buffer.from(plan.wrapper.args.map((arg) => `${arg}\0`).join("")), ...plan.wrapper.files];
}

/**
 * A file without a name. Not a pipe: if we died while we filled one, the sandbox would take what it
 * had read so far for the whole, and be weaker than asked.
 */
async function heldFile(path: string, bytes: Uint8Array): Promise<FileHandle> {
  await rm(path, { force: true });
  const file = await open(path, "wx+", 0o600);
  await rm(path);
  // At a position: the descriptor's own stays at the start, for its reader.
  await file.write(bytes, 0, bytes.length, 0);
  return file;
}

function stdioOf(
  plan: Launch,
  log: number,
  files: readonly number[],
  nothing: number,
): StdioOptions {
  const stdio: Exclude<StdioOptions, string> = ["ignore", log, log, "pipe"];
  if (plan.wrapper.kind === "bubblewrap") stdio.push("pipe", "pipe", ...files);
  if (plan.wrapper.kind === "runtime") stdio.push("pipe");
  const ownCount = stdio.length;
  for (const leak of leakedDescriptors()) {
    while (stdio.length <= leak) stdio.push("ignore");
    if (leak >= ownCount) stdio[leak] = nothing;
  }
  return stdio;
}

/**
 * Descriptors that whoever started us left open for all of our children. Node opens its own so that
 * they are closed by exec, but those it does not know of would be open in the cell.
 */
function leakedDescriptors(): readonly number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fd")
    .map(Number)
    .filter((descriptor) => descriptor > 2 && descriptor < DESCRIPTOR_LIMIT)
    .filter((descriptor) => !isClosedByExec(descriptor));
}

const O_CLOEXEC = 0o2000000;

function isClosedByExec(descriptor: number): boolean {
  try {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"));
    return (Number.parseInt(flags?.[1] ?? "0", 8) & O_CLOEXEC) !== 0;
  } catch {
    // The listing's own descriptor is gone again.
    return true;
  }
}

async function named(
  plan: Launch,
  child: ChildProcess,
  directory: CellDirectory,
  signal: AbortSignal,
): Promise<Result<Launched>> {
  let spawnFault: Fault | undefined;
  const ended = new Promise<undefined>((resolve) => {
    child.once("exit", () => resolve(undefined));
    child.once("error", (error) => {
      spawnFault = spawnFaultOf(error, plan.command[0]);
      resolve(undefined);
    });
  });
  // Wider than its type: a pipe is there for every "pipe" of the table.
  const pipes: readonly unknown[] = child.stdio;
  for (const stream of child.stdio) stream?.on("error", () => undefined);
  const rootPid = await within(
    LAUNCH_LIMIT_MS,
    Promise.race([rootPidOf(plan, child), ended]),
    signal,
  );
  const root = rootPid === undefined ? undefined : await nameProcess(rootPid);
  // A runtime's own process may end, and what it started may not.
  const agent = plan.wrapper.kind === "runtime" ? root : await nameProcess(child.pid ?? 0);
  const link = pipes[DESCRIPTORS.link];
  if (agent !== undefined && root !== undefined && link instanceof Duplex) {
    const gate = pipes[plan.wrapper.kind === "runtime" ? GATE_DESCRIPTOR : DESCRIPTORS.block];
    const release = (): void => {
      if (gate instanceof Writable) gate.end("go\n");
    };
    return ok({ link, agent, root, release, ended });
  }
  child.kill("SIGKILL");
  await ended;
  if (spawnFault !== undefined) return fail(spawnFault);
  return fail(diagnose(whatStarts(plan), await logTail(directory)));
}

/** What it is that has something to say when a start fails. */
export function whatStarts({ wrapper }: Launch): string {
  if (wrapper.kind === "none") return "the agent";
  return wrapper.kind === "runtime" ? wrapper.name : "bubblewrap";
}

/** bubblewrap tells the pid of the cell's first process, as JSON; a plain agent is its own root. */
async function rootPidOf(plan: Launch, child: ChildProcess): Promise<number | undefined> {
  if (plan.wrapper.kind === "none") return child.pid;
  if (plan.wrapper.kind === "runtime") return pidIn(plan.wrapper, child);
  const info = child.stdio[DESCRIPTORS.info];
  if (!(info instanceof Readable)) return undefined;
  let text = "";
  for await (const chunk of info) {
    text += String(chunk);
    if (text.length > LOG_TAIL_BYTES) return undefined;
    const pid = /"child-pid"\s*:\s*(\d+)/.exec(text)?.[1];
    if (pid !== undefined && text.includes("}")) return Number(pid);
  }
  return undefined;
}

/** The pid that a runtime has written down, if it is of this cell: nothing is killed on its word alone. */
async function pidIn(
  { pidFile, mark }: Extract<Launch["wrapper"], { kind: "runtime" }>,
  child: ChildProcess,
): Promise<number | undefined> {
  while (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
    const text = await readFile(pidFile, "utf8").catch(() => "");
    const pid = Number(/^\d+$/.exec(text.trim())?.[0] ?? 0);
    if (pid > 1 && (await isMarked(pid, mark))) return pid;
    await delay(PID_POLL_MS);
  }
  return undefined;
}

/** What the work comes to; undefined when the limit or the signal was first. */
export async function within<T>(
  limitMs: number,
  work: Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const done = new AbortController();
  const until = AbortSignal.any([signal, done.signal]);
  const pause = delay(limitMs, undefined, { signal: until }).catch(() => undefined);
  try {
    return await Promise.race([work, pause]);
  } finally {
    done.abort();
  }
}

function spawnFaultOf(error: Error, program: string): Fault {
  if ("code" in error && error.code === "ENOENT") return missingProgram(program);
  return fault("unavailable", `the cell's process: ${error.message}`, program);
}
