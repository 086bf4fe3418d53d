import { closeSync, constants, openSync } from "node:fs";
import { createRequire } from "node:module";
import type { Duplex } from "node:stream";
import { ReadStream } from "node:tty";
import { PTY_OPENING, PTY_TAGS, type PtyOpening, PtyReader, ptyMessages, sizeOf } from "../pty.ts";
import { readAs } from "../wire.ts";
import type { Clock } from "./clock.ts";
import { systemFault } from "./errno.ts";
import { KILL_GRACE_MS, MARKER } from "./exec.ts";
import { isGroupAlive, killGroup, sweep } from "./process.ts";
import type { Tree } from "./tree.ts";

/** Terminals that one cell may have at once. */
export const PTY_LIMIT: number = 16;

/** What terminals need of the agent. */
export type PtyOptions = {
  /** The addon of @lydell/node-pty for this system; it is loaded with the first terminal. */
  readonly addon: string;
  readonly tree: Tree;
  /** The environment of every command. */
  readonly base: Readonly<Record<string, string>>;
  /** The spool's identity: what runs on a terminal is marked with it, like any command. */
  readonly identity: string;
  readonly clock: Clock;
};

/** The part of that addon which is used. Its own JavaScript finds it in node_modules, and a cell has none. */
type Addon = {
  fork(
    file: string,
    args: readonly string[],
    env: readonly string[],
    cwd: string,
    columns: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helper: string,
    onExit: (code: number, signal: number) => void,
  ): { readonly fd: number; readonly pid: number; readonly pty: string };
  resize(fd: number, columns: number, rows: number): void;
};

/** Serves channels of kind `pty`; whoever opens one too many is refused. */
export class Ptys {
  readonly #options: PtyOptions;
  readonly #open = new Map<number, Duplex>();
  #serial = 0;

  constructor(options: PtyOptions) {
    this.#options = options;
  }

  serve(payload: Uint8Array, stream: Duplex): void {
    const opening = readAs(PTY_OPENING, payload);
    if (!opening.ok) {
      stream.destroy(new Error(opening.fault.message));
      return;
    }
    if (this.#open.size >= PTY_LIMIT) {
      stream.destroy(new Error(`${PTY_LIMIT} terminals are open in this cell (PTY_LIMIT)`));
      return;
    }
    try {
      this.#start(opening.value, stream);
    } catch (error) {
      stream.destroy(new Error(systemFault(error, opening.value.argv[0] ?? "a shell").message));
    }
  }

  #start(opening: PtyOpening, stream: Duplex): void {
    const { addon, tree, base, identity } = this.#options;
    const cwd = tree.directory(opening.cwd);
    if (!cwd.ok) {
      stream.destroy(new Error(cwd.fault.message));
      return;
    }
    this.#serial++;
    const mark = `${identity}:pty-${this.#serial}`;
    const env: Record<string, string> = { TERM: "xterm-256color", ...base, PWD: cwd.value };
    for (const { name, value } of opening.variables) env[name] = value;
    env[MARKER] = mark;
    const [program = env.SHELL ?? "/bin/sh", ...rest] = opening.argv;
    const entries = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const native = createRequire(import.meta.url)(addon) as Addon;
    let tell: (end: Buffer) => void = () => undefined;
    const exited = new Promise<Buffer>((resolve) => {
      tell = resolve;
    });
    const { columns, rows } = opening;
    const onExit = (code: number, signal: number): void => tell(endBody(code, signal));
    const { fd, pid, pty } = native.fork(
      program,
      rest,
      entries,
      cwd.value,
      ...([columns, rows, OWN_ID, OWN_ID, true, "", onExit] as const),
    );
    const shown = show(fd, pty, stream);
    const { terminal } = shown;
    this.#open.set(pid, stream);
    void this.#finish(shown, stream, exited);
    hear(stream, (tag, body) => {
      if (terminal.destroyed) return;
      if (tag === PTY_TAGS.data) terminal.write(body);
      const size = tag === PTY_TAGS.resize ? sizeOf(body) : undefined;
      if (size !== undefined) native.resize(fd, size.columns, size.rows);
    });
    stream.on("error", () => undefined);
    stream.once("close", () => {
      this.#open.delete(pid);
      void this.#hangUp(pid, mark).then(() => shown.close());
    });
  }

  /** Sends what was shown to its end, and then how it ended. */
  async #finish(shown: Shown, stream: Duplex, exited: Promise<Buffer>): Promise<void> {
    const end = await exited;
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + DRAIN_LIMIT_MS;
    // All that it wrote is in the terminal by now; a daemon that stays on it is not waited for.
    for (let seen = -1; !shown.terminal.destroyed && clock.monotonicMs() < untilMs; ) {
      if (!shown.isHeld() && seen === shown.count()) break;
      seen = shown.count();
      await clock.sleep(DRAIN_IDLE_MS);
      // On a busy machine the time is over before what has come was looked at.
      await new Promise((resolve) => setImmediate(resolve));
    }
    shown.close();
    if (stream.destroyed) return;
    for (const piece of ptyMessages(PTY_TAGS.ended, end)) stream.write(piece);
    stream.end();
  }

  /** HUP, as a terminal that goes away does; then KILL for what stays, wherever it went. */
  async #hangUp(pid: number, mark: string): Promise<void> {
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + KILL_GRACE_MS;
    killGroup(pid, "SIGHUP");
    while (isGroupAlive(pid) && clock.monotonicMs() < untilMs) await clock.sleep(POLL_MS);
    killGroup(pid, "SIGKILL");
    sweep(`${MARKER}=${mark}`, []);
  }
}

type Shown = {
  readonly terminal: ReadStream;
  /** Rises with everything that is shown. */
  readonly count: () => number;
  /** Whether the other end takes no more for now. */
  readonly isHeld: () => boolean;
  readonly close: () => void;
};

/** Sends what is shown, no faster than it is read. */
function show(fd: number, path: string, stream: Duplex): Shown {
  let count = 0;
  let isHeld = false;
  // With its other end open here too, it is never hung up on: what is in it then would be lost.
  const other = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  const onread = {
    buffer: Buffer.allocUnsafe(READ_BYTES),
    callback: (length: number, buffer: Uint8Array): boolean => {
      count += 1;
      for (const piece of ptyMessages(PTY_TAGS.data, buffer.subarray(0, length))) {
        if (!stream.write(piece)) isHeld = true;
      }
      return !isHeld;
    },
  };
  const terminal = new ReadStream(fd, { readable: true, ...{ onread } });
  stream.on("drain", () => {
    isHeld = false;
    terminal.resume();
  });
  terminal.on("error", () => undefined);
  terminal.resume();
  let isOpen = true;
  const close = (): void => {
    terminal.destroy();
    if (isOpen) closeSync(other);
    isOpen = false;
  };
  return { terminal, count: () => count, isHeld: () => isHeld, close };
}

const READ_BYTES = 32 * 1024;

/** Whatever comes from the other end, taken apart. */
function hear(stream: Duplex, onMessage: (tag: number, body: Buffer) => void): void {
  const reader = new PtyReader();
  stream.on("data", (chunk: Buffer) => {
    const messages = reader.push(chunk);
    if (!messages.ok) stream.destroy(new Error(messages.fault.message));
    else for (const { tag, body } of messages.value) onMessage(tag, body);
  });
}

function endBody(code: number, signal: number): Buffer {
  const body = Buffer.alloc(8);
  body.writeInt32LE(code);
  body.writeInt32LE(signal, 4);
  return body;
}

/** The addon's word for the user and the group that we are. */
const OWN_ID = -1;
/** How long more of what an ended program has shown is waited for, while none comes, */
const DRAIN_IDLE_MS = 30;
/** and at most, for a reader that reads little. */
const DRAIN_LIMIT_MS = 30_000;
const POLL_MS = 20;
