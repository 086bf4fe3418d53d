import { closeSync, constants } from "node:fs";
import { open, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import {
  type ActionId,
  type ExecEnd,
  type ExecOp,
  fail,
  fault,
  type Outcome,
  ok,
  type Result,
} from "@dev/protocol";
import type { CellLimits } from "../vendor.ts";
import type { OnText } from "./agent.ts";
import { overAllowance } from "./allowance.ts";
import { decodeText, wholeEnd, wholeStart } from "./capture.ts";
import type { Clock } from "./clock.ts";
import { makeDirectory } from "./directory.ts";
import type { CellNetwork } from "./egress.ts";
import { errnoOf, systemFault } from "./errno.ts";
import type { CommandEvidence } from "./log.ts";
import { OutputFile, Tap, trimOutputs } from "./output.ts";
import { type Pipe, Pipes } from "./pipe.ts";
import { isGroupAlive, killGroup, sweep } from "./process.ts";
import { openInput, type Spawned, spawnProcess } from "./spawn.ts";

/** The longest deadline that a command may ask for. */
export const COMMAND_TIMEOUT_LIMIT_MS: number = 6 * 60 * 60 * 1000;
/** Between asking a process group to end and killing it. */
export const KILL_GRACE_MS: number = 2_000;
/** How long an exited command's pipes are waited for while nothing comes, */
export const DRAIN_IDLE_MS: number = 50;
/** and at most: a child that was left behind can hold them for ever. */
export const DRAIN_LIMIT_MS: number = 250;
/** Every process in the cell has it in its environment, so that the cell's end finds it. */
export const MARKER: string = "DEV_CELL_COMMAND";

/** What the commands of one cell share. */
export type CommandsOptions = {
  /** The directory for outputs and pipes, outside the workspace. */
  readonly directory: string;
  /** The spool's identity: commands are marked with it. */
  readonly identity: string;
  readonly limits: CellLimits;
  /** The clean base of every command's environment, with the cell's own variables. */
  readonly base: Readonly<Record<string, string>>;
  /** What each has to know of the cell's network; null where there is none. */
  readonly network: CellNetwork | null;
  readonly clock: Clock;
  /** Where commands write: what they write there is held to `diskBytes`. */
  readonly written: readonly string[];
};

/** One program to run; `cwd` is absolute. */
export type Command = ExecOp & { readonly id: ActionId };

/** Runs commands, each in a process group of its own, and ends them. */
export class Commands {
  readonly #options: CommandsOptions;
  readonly #outputs: string;
  readonly #pipes: Pipes;
  readonly #running = new Map<ActionId, Started>();
  /** Of commands that have exited, pipes that a child left behind holds. */
  readonly #lingering: Tap[] = [];
  /** Those whose whole output is in their outcome. */
  readonly #whole = new Set<ActionId>();
  #keptCount = 0;

  private constructor(options: CommandsOptions) {
    this.#options = options;
    this.#outputs = join(options.directory, "output");
    this.#pipes = new Pipes(join(options.directory, "pipes"));
  }

  /** Where outputs and pipes are. */
  get directory(): string {
    return this.#options.directory;
  }

  /** Kills what the agent of before left running, and makes the directories. Fault: `io`. */
  static async open(options: CommandsOptions): Promise<Result<Commands>> {
    const commands = new Commands(options);
    sweep(`${MARKER}=${options.identity}`, []);
    try {
      await rm(join(options.directory, "pipes"), { recursive: true, force: true });
      await makeDirectory(commands.#outputs);
    } catch (error) {
      return fail(systemFault(error, options.directory));
    }
    return ok(commands);
  }

  /** Whether this command can be run at all. Faults: `bad_call`, `limit`. */
  check(op: Pick<ExecOp, "argv" | "env" | "timeoutMs">): Result<void> {
    const problem = problemOf(op);
    if (problem !== null) return fail(fault("bad_call", problem, op.argv[0] ?? ""));
    const limit = this.#options.limits.processCount;
    if (this.#running.size < limit) return ok(undefined);
    const message = `${limit} commands are running (processCount)`;
    return fail(fault("limit", message, op.argv[0] ?? "", "end one in the background"));
  }

  /** Runs a command to its end, or starts it in the background. Faults: `not_found`, `spawn`, `io`. */
  async run(command: Command, onText: OnText, signal: AbortSignal): Promise<Outcome> {
    const started = await this.#start(command, onText);
    if (!started.ok) return { kind: "failed", fault: started.fault };
    this.#running.set(command.id, started.value);
    if (command.background) {
      void this.#watch(command, started.value);
      const name = `command-${command.id}`;
      return this.#outcome(command, started.value, { kind: "background", name });
    }
    const end = await this.#end(command, started.value, signal);
    await this.#drain(started.value);
    this.#running.delete(command.id);
    return this.#outcome(command, started.value, end);
  }

  /** What is left of a command that an agent of before had started. */
  async evidence(id: ActionId, evidence: CommandEvidence): Promise<string> {
    const began = new Date(evidence.startedMs).toISOString();
    const output = await describeOutput(this.#outputPath(id));
    return `\`${evidence.program}\` was started at ${began}; the agent ended before it did. ${output}`;
  }

  /** The outcome is durable: an output file that holds nothing more than it may go. */
  settled(id: ActionId): void {
    if (!this.#whole.delete(id)) return;
    // Should it stay, it is removed when there are too many.
    void unlink(this.#outputPath(id)).catch(() => {});
  }

  /** Kills every command at once, and all that any of them left behind. */
  killAll(): void {
    const groups = [...this.#running.values()].map((started) => started.pid);
    for (const group of groups) killGroup(group, "SIGKILL");
    sweep(`${MARKER}=${this.#options.identity}`, [process.pid]);
    for (const tap of this.#lingering.splice(0)) tap.close();
  }

  #outputPath(id: ActionId): string {
    return join(this.#outputs, `${id}.txt`);
  }

  #marker(id: ActionId): string {
    return `${MARKER}=${this.#options.identity}:${id}`;
  }

  async #start(command: Command, onText: OnText): Promise<Result<Started>> {
    const { limits, base, clock, network } = this.#options;
    const path = this.#outputPath(command.id);
    if (this.#keptCount % TRIM_INTERVAL === 0) await trimOutputs(this.#outputs, path);
    const file = await OutputFile.make(path, limits.fileBytes);
    const own = network?.variables(command.id);
    const env: Record<string, string> = { ...base, ...own, PWD: command.cwd };
    for (const { name, value } of command.env) env[name] = value;
    env[MARKER] = `${this.#options.identity}:${command.id}`;
    const opened = await this.#openStdio(command);
    if (!opened.ok) return opened;
    const stdio = opened.value;
    const startedMs = clock.monotonicMs();
    const spawned = await spawnProcess(command, env, stdio.given);
    for (const descriptor of stdio.given) closeSync(descriptor);
    if (!spawned.ok) {
      for (const descriptor of stdio.read) closeSync(descriptor);
      await file.close();
      await rm(path, { force: true });
      return spawned;
    }
    const [stdout, stderr] = stdio.read.map((descriptor, index) => {
      const stream = index === 0 ? "stdout" : "stderr";
      const limit = command.background ? 0 : limits.outputBytes;
      return new Tap(descriptor, limit, file, (text) => onText(stream, text));
    });
    if (stdout === undefined || stderr === undefined) throw new Error("a command has two outputs");
    return ok({ ...spawned.value, stdout, stderr, file, startedMs });
  }

  async #openStdio(command: Command): Promise<Result<Stdio>> {
    const pipes: Pipe[] = [];
    try {
      for (const _ of ["stdout", "stderr"]) pipes.push(await this.#pipes.take());
      const path = join(this.#options.directory, `stdin-${command.id}`);
      const input = openInput(path, command.stdin);
      const given = [input, ...pipes.map((pipe) => pipe.write)];
      return ok({ given, read: pipes.map((pipe) => pipe.read) });
    } catch (error) {
      for (const { read, write } of pipes) for (const one of [read, write]) closeSync(one);
      return fail(systemFault(error, this.#options.directory));
    }
  }

  /** Waits for the process to exit, and kills its group when its time is up or it is cancelled. */
  async #end(command: Command, started: Started, signal: AbortSignal): Promise<ExecEnd | null> {
    const { clock, limits } = this.#options;
    const afterMs = command.timeoutMs === 0 ? limits.commandTimeoutMs : command.timeoutMs;
    const over = new AbortController();
    const first = await Promise.race([
      started.exited,
      clock.sleep(afterMs, over.signal).then(() => "timeout" as const),
      aborted(signal, over.signal).then(() => "cancelled" as const),
      this.#tooMuch(over.signal),
    ]);
    over.abort();
    if (first !== "timeout" && first !== "cancelled" && first.kind !== "written") return first;
    if (first === "timeout" || first === "cancelled") {
      await this.#kill(command, started);
      return first === "timeout" ? { kind: "timeout", afterMs } : null;
    }
    this.#stop(command, started, first.bytes);
    return started.exited;
  }

  /** Never resolves while what is written stays below what may be. */
  async #tooMuch(signal: AbortSignal): Promise<{ kind: "written"; bytes: number }> {
    const { limits, clock, written } = this.#options;
    const options = { directories: written, limitBytes: limits.diskBytes, clock };
    const bytes = await overAllowance(options, signal);
    return bytes === null ? new Promise(() => {}) : { kind: "written", bytes };
  }

  /** No time to end in: what fills the disk goes on doing so for as long as it is asked nicely. */
  #stop(command: Command, started: Started, bytes: number): void {
    killGroup(started.pid, "SIGKILL");
    sweep(this.#marker(command.id), [started.pid]);
    const { diskBytes } = this.#options.limits;
    const note = `\n[killed: ${bytes} bytes were written since it began, and diskBytes is ${diskBytes}]\n`;
    started.stderr.capture.push(Buffer.from(note));
  }

  /** TERM, time to end in, KILL: the whole group, and whatever left it. */
  async #kill(command: Command, started: Started): Promise<void> {
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + KILL_GRACE_MS;
    killGroup(started.pid, "SIGTERM");
    while (isGroupAlive(started.pid) && clock.monotonicMs() < untilMs) {
      await clock.sleep(GROUP_POLL_MS);
    }
    killGroup(started.pid, "SIGKILL");
    sweep(this.#marker(command.id), [started.pid]);
    // A process that waits for a dead disk cannot even be killed: it is not waited for.
    const over = new AbortController();
    await Promise.race([started.exited, clock.sleep(KILL_GRACE_MS, over.signal)]);
    over.abort();
  }

  async #drain(started: Started): Promise<void> {
    const { clock } = this.#options;
    const taps = [started.stdout, started.stderr];
    const ended = Promise.all(taps.map((tap) => tap.ended)).then(() => true);
    const untilMs = clock.monotonicMs() + DRAIN_LIMIT_MS;
    for (let seen = -1; ; ) {
      const count = started.stdout.chunkCount + started.stderr.chunkCount;
      if (count === seen || clock.monotonicMs() >= untilMs) break;
      seen = count;
      const over = new AbortController();
      const done = await Promise.race([ended, clock.sleep(DRAIN_IDLE_MS, over.signal)]);
      over.abort();
      if (done === true) break;
    }
    await Promise.all(taps.map((tap) => tap.settle()));
    await started.file.close();
    this.#linger(taps);
  }

  /** A child left behind keeps its pipes open; of too many such, the oldest are closed. */
  #linger(taps: readonly Tap[]): void {
    for (const tap of taps) {
      this.#lingering.push(tap);
      void tap.ended.then(() => {
        const at = this.#lingering.indexOf(tap);
        if (at !== -1) this.#lingering.splice(at, 1);
      });
    }
    const limit = Math.floor(this.#options.limits.openFileCount / 4);
    while (this.#lingering.length > limit) this.#lingering.shift()?.close();
  }

  /** Writes at the end of a background command's output how it ended. */
  async #watch(command: Command, started: Started): Promise<void> {
    const over = new AbortController();
    void this.#tooMuch(over.signal).then(({ bytes }) => this.#stop(command, started, bytes));
    const end = await started.exited;
    over.abort();
    const how = end.kind === "exit" ? `exited with ${end.code}` : `ended by ${end.signal}`;
    await Promise.all([started.stdout, started.stderr].map((tap) => tap.settle()));
    await started.file.write(Buffer.from(`\n[${how}]\n`));
    await started.file.close();
    this.#linger([started.stdout, started.stderr]);
    this.#running.delete(command.id);
  }

  #outcome(command: Command, started: Started, end: ExecEnd | null): Outcome {
    const durationMs = Math.round(this.#options.clock.monotonicMs() - started.startedMs);
    const stdout = started.stdout.capture.text();
    const stderr = started.stderr.capture.text();
    const isCut = stdout.cutBytes + stderr.cutBytes > 0;
    const isKept = isCut || command.background;
    if (isKept) this.#keptCount++;
    else this.#whole.add(command.id);
    if (end === null) {
      const known = [`it ran for ${durationMs} ms and was killed`];
      if (stdout.text !== "") known.push(`stdout so far:\n${stdout.text}`);
      if (stderr.text !== "") known.push(`stderr so far:\n${stderr.text}`);
      if (isCut) known.push(`all of it: ${started.file.path}`);
      return { kind: "cancelled", known: known.join("\n") };
    }
    const result = {
      kind: "exec",
      end,
      stdout: stdout.text,
      stderr: stderr.text,
      stdoutCutBytes: stdout.cutBytes,
      stderrCutBytes: stderr.cutBytes,
      durationMs,
      outputPath: isKept ? started.file.path : "",
    } as const;
    return { kind: "ok", result };
  }
}

type Started = Spawned & {
  readonly stdout: Tap;
  readonly stderr: Tap;
  readonly file: OutputFile;
  readonly startedMs: number;
};
/** Descriptors: those that the process is given, in order, and those that we read from. */
type Stdio = { readonly given: readonly number[]; readonly read: readonly number[] };

const GROUP_POLL_MS = 20;
/** Outputs that are kept between two looks at how large all of them are. */
const TRIM_INTERVAL = 16;

function problemOf(op: Pick<ExecOp, "argv" | "env" | "timeoutMs">): string | null {
  if (op.argv.length === 0 || op.argv[0] === "") return "no program is named";
  if (op.argv.some((word) => word.includes("\0"))) return "an argument holds a NUL";
  for (const { name, value } of op.env) {
    if (name === "" || /[=\0]/.test(name) || value.includes("\0")) {
      return `${JSON.stringify(name)} is no variable`;
    }
  }
  if (op.timeoutMs > COMMAND_TIMEOUT_LIMIT_MS) {
    return `its deadline is above ${COMMAND_TIMEOUT_LIMIT_MS} ms`;
  }
  return null;
}

/** Resolves when the first signal aborts; the second lets go of it. */
function aborted(signal: AbortSignal, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true, signal: over });
  });
}

/** Of an output that may be large. */
const EVIDENCE_BYTES = 4 * 1024;

async function describeOutput(path: string): Promise<string> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { size } = await handle.stat();
      if (size === 0) return "It had written nothing.";
      const half = EVIDENCE_BYTES / 2;
      const head = Buffer.alloc(Math.min(size, half));
      await handle.read(head, 0, head.length, 0);
      const tail = Buffer.alloc(Math.min(size - head.length, half));
      await handle.read(tail, 0, tail.length, size - tail.length);
      const isWhole = head.length + tail.length === size;
      const first = decodeText(isWhole ? head : head.subarray(0, wholeEnd(head))).text;
      const last = decodeText(isWhole ? tail : tail.subarray(wholeStart(tail))).text;
      const text = isWhole ? first + last : `${first}\n[…]\n${last}`;
      return `It had written ${size} bytes (${path}):\n${text}`;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return "What it had written is not there any more.";
  }
}
