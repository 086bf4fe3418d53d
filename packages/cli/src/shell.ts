import type { Link, Pty } from "@dev/cell";
import type { Result } from "@dev/protocol";
import { Driver } from "@dev/session";
import type { Command } from "./args.ts";
import type { Home } from "./home.ts";
import { fallen, find } from "./run.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { openWorld } from "./world.ts";

type Shell = Extract<Command, { kind: "shell" }>;

/** As shells say that a signal ended a program. */
const SIGNALLED = 128;
/** What a terminal sends for an end of input. */
const END_OF_INPUT = Buffer.from([4]);
const COLUMNS = 80;
const ROWS = 24;

/**
 * `dev shell`: a terminal in a session's cell, for a person's own hands. While it is open nobody else
 * drives the session. Answers the exit code of what ran on it.
 */
export async function shell(command: Shell, home: Home, terminal: Terminal): Promise<number> {
  const watch = terminal.watch(false);
  const found = await find(command.id, home);
  if (!found.ok) return fallen(watch, found);
  const { store, session } = found.value;
  const settings = loadSettings(home, session.directory);
  if (!settings.ok) return fallen(watch, settings);
  const { signal, release } = terminal.interrupts();
  const world = openWorld(store, {
    home,
    settings: settings.value,
    terminal,
    vendor: session.vendor,
    session: session.id,
    signal,
    asker: null,
    onProgress: (progress) => watch.progress(progress),
    onNote: (text) => watch.note(text),
  });
  try {
    const driver = await Driver.open(world.services, session.id);
    if (!driver.ok) return fallen(watch, driver);
    try {
      const link = await driver.value.lease.link();
      const pty = link.ok ? await opened(link.value, command.argv, signal) : link;
      if (!pty.ok) return fallen(watch, pty);
      const end = await attended(pty.value, signal);
      if (!end.ok) return fallen(watch, end);
      return end.value.signal === 0 ? end.value.code : SIGNALLED + end.value.signal;
    } finally {
      await driver.value.close();
    }
  } finally {
    release();
    await world.close();
    store.close();
  }
}

async function opened(
  link: Link,
  argv: readonly string[],
  signal: AbortSignal,
): Promise<Result<Pty>> {
  const { openPty } = await import("@dev/cell");
  const { columns = COLUMNS, rows = ROWS } = process.stdout;
  return openPty(link.open, { argv, cwd: ".", columns, rows, variables: [] }, signal);
}

/** Joins this terminal to the one in the cell, until what runs there has ended. */
async function attended(pty: Pty, signal: AbortSignal): Promise<Awaited<Pty["ended"]>> {
  const { stdin, stdout } = process;
  const resize = (): void => pty.resize(stdout.columns, stdout.rows);
  const type = (chunk: Buffer): void => pty.write(chunk);
  const finish = (): void => pty.write(END_OF_INPUT);
  pty.onData((bytes) => stdout.write(bytes));
  // Every key is the cell's: Ctrl-C too.
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.on("data", type);
  stdin.on("end", finish);
  stdout.on("resize", resize);
  signal.addEventListener("abort", pty.close, { once: true });
  if (signal.aborted) pty.close();
  try {
    return await pty.ended;
  } finally {
    if (stdin.isTTY) stdin.setRawMode(false);
    stdin.off("data", type);
    stdin.off("end", finish);
    stdout.off("resize", resize);
    stdin.pause();
  }
}
