import { type ChildProcess, spawn } from "node:child_process";
import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { type Jail, openJail } from "@dev/cell";
import type { Ended, Running, Shell, Start } from "@dev/kai";
import type { Fault } from "@dev/protocol";
import type { Guard } from "./fix-guard.ts";

/** Where bubblewrap says that the command was started, after the filter; it hands it to nobody. */
const STATUS_DESCRIPTOR = 4;

export type FixShell = {
  readonly shell: Shell;
  /** Why nothing confines what it starts; null where something does. */
  readonly unconfined: Fault | null;
};

export type FixShellOptions = {
  /** A directory of this run's own. */
  readonly place: string;
  /** The person's tree. */
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
  readonly guard: Guard;
  /** Directories and files that it is not to see, but for the place and the tree. */
  readonly masked: readonly string[];
  /** `false`: the person has said that nothing is to be confined. */
  readonly confine: boolean;
};

/**
 * Starts processes with a cell's means: they write only where they are told to, reach no network, and are
 * gone when this one is. Where that cannot be had they are plain processes in groups of their own.
 */
export async function openFixShell(options: FixShellOptions): Promise<FixShell> {
  const { place, guard } = options;
  const { masked } = options;
  const jail = options.confine ? await openJail({ masked }) : null;
  if (jail === null || !jail.ok) {
    const shell = { start: (start: Start) => started(start, start.argv, null, guard) };
    return { shell, unconfined: jail === null ? null : jail.fault };
  }
  const filter = join(place, "filter");
  writeFileSync(filter, jail.value.filter, { mode: 0o600 });
  const seen = seenOf(options);
  const shell = {
    start: (start: Start) => started(start, confined(start, jail.value, seen), filter, guard),
  };
  return { shell, unconfined: null };
}

function confined(start: Start, jail: Jail, seen: readonly string[]): readonly string[] {
  const { argv, cwd, writable } = start;
  const [program = "", ...rest] = jail.command({ argv, cwd, writable, visible: seen });
  return [program, "--json-status-fd", String(STATUS_DESCRIPTOR), ...rest];
}

/**
 * Variables that name no part of a command: where it is, what a shell started last, which is this
 * program, and where whoever listens does what a cell may not.
 */
const UNSEEN = new Set(["TMPDIR", "PWD", "OLDPWD", "_", "XDG_RUNTIME_DIR"]);

/** What of the directories for temporary files the command was going to use: its tree, and its programs. */
function seenOf({ directory, place, env }: FixShellOptions): readonly string[] {
  const named = Object.entries(env).flatMap(([name, value]) =>
    UNSEEN.has(name) ? [] : value.split(delimiter),
  );
  const paths = [dirname(process.execPath), ...named].filter((path) => path.startsWith("/"));
  // These are seen also where a directory between them and one that is seen is masked.
  const own = [directory, place];
  const seen = [...new Set([...own, ...paths.map((path) => resolve(path))])];
  // What is in a directory that is seen is seen with it; a link there may lead to what is not.
  const isSeenWith = (path: string) => seen.some((above) => path.startsWith(`${above}/`));
  return seen.filter((path) => own.includes(path) || !(isSeenWith(path) || isSocket(path)));
}

/** A socket is a way out, also where nothing can be written: an agent that holds keys, or an engine. */
function isSocket(path: string): boolean {
  try {
    return statSync(path).isSocket();
  } catch {
    return false;
  }
}

function started(
  start: Start,
  argv: readonly string[],
  filter: string | null,
  guard: Guard,
): Running {
  const missing = whyMissing(start);
  if (missing !== null) return notStarted(missing);
  const [program = "", ...rest] = argv;
  const opened = filter === null ? null : openSync(filter, "r");
  const pipes = [start.stdin === "pipe" ? "pipe" : "ignore", "pipe", "pipe"] as const;
  const child = spawn(program, rest, {
    cwd: start.cwd,
    env: { ...start.env },
    detached: true,
    stdio: [...pipes, ...(opened === null ? [] : [opened, "pipe" as const])],
  });
  if (opened !== null) closeSync(opened);
  const { pid, stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error("a pipe was asked for");
  if (pid !== undefined) guard.began(pid);
  // A process that is gone reads no more; whoever writes to it is told by `ended`.
  child.stdin?.on("error", () => undefined);
  let isOver = false;
  let isKilled = false;
  const status = opened === null ? null : statusOf(child);
  const ended = endOf(child)
    .then(async (end) => (status === null || isKilled ? end : withinJail(end, await status)))
    .finally(() => {
      // From now on its number may be another's.
      isOver = true;
      if (pid !== undefined) guard.ended(pid);
    });
  const end = (): void => {
    isKilled = true;
    if (!isOver) kill(child);
  };
  return { stdin: child.stdin, stdout, stderr, ended, kill: end };
}

/** What bubblewrap has said by its end: a few words, of which the last come once the command has ended. */
async function statusOf({ stdio }: ChildProcess): Promise<string> {
  const stream = stdio[STATUS_DESCRIPTOR];
  if (!(stream instanceof Readable)) throw new Error("a pipe was asked for");
  let said = "";
  stream.on("data", (chunk: Buffer) => {
    said += chunk.toString("utf8");
  });
  await finished(stream).catch(() => undefined);
  return said;
}

/** Bubblewrap ends with 1 where it cannot start a command, as a test does that fails: it was not run then. */
function withinJail(end: Ended, status: string): Ended {
  if (end.kind !== "exit" || end.code !== 1 || status.includes('"exit-code"')) return end;
  return { kind: "spawn", why: "it could not be confined" };
}

function notStarted(why: string): Running {
  const ended = Promise.resolve<Ended>({ kind: "spawn", why });
  const nothing = (): Readable => Readable.from([]);
  return { stdin: null, stdout: nothing(), stderr: nothing(), ended, kill: () => {} };
}

/** What a program is looked for as, in the order of a shell's; null where it is found. */
function whyMissing({ argv, cwd, env }: Start): string | null {
  const [program = ""] = argv;
  const places = program.includes("/")
    ? [resolve(cwd, program)]
    : (env.PATH ?? "").split(delimiter).map((folder) => resolve(cwd, folder, program));
  if (program !== "" && places.some(isProgram)) return null;
  return `${program === "" ? "an empty command" : program}: there is no such program`;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function endOf(child: ChildProcess): Promise<Ended> {
  return new Promise((settle) => {
    child.once("error", (error) => settle({ kind: "spawn", why: error.message }));
    child.once("exit", (code, signal) => {
      // A descendant that lives on may hold the pipes open for ever.
      kill(child);
      const end: Ended =
        code === null ? { kind: "signal", signal: signal ?? "" } : { kind: "exit", code };
      const pipes = [child.stdout, child.stderr].flatMap((pipe) => (pipe ? [finished(pipe)] : []));
      void Promise.allSettled(pipes).then(() => settle(end));
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
