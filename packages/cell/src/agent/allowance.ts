import { lstat, opendir, readdir, readlink, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "./clock.ts";
import { errnoOf } from "./errno.ts";

/** How often the disk is asked how much is free; one command can write so much longer than it may. */
export const ALLOWANCE_POLL_MS: number = 250;
/** Files that one look goes through, before it calls what it has seen all. */
export const ALLOWANCE_FILE_LIMIT: number = 1_000_000;

/** What commands of one cell may write: what is below these directories is theirs. */
export type AllowanceOptions = {
  readonly directories: readonly string[];
  /** More than that, in what it has written since it began, and a command is too large. */
  readonly limitBytes: number;
  readonly clock: Clock;
};

/**
 * Resolves with the bytes that were written, when that is more than is allowed; with null when the
 * signal was first. Asking a file system what is free costs next to nothing, and only when that has
 * fallen by as much as may be written, whoever did it, are the files looked at.
 */
export async function overAllowance(
  options: AllowanceOptions,
  signal: AbortSignal,
): Promise<number | null> {
  const { limitBytes, clock } = options;
  const directories = outermost(options.directories);
  const sinceMs = clock.wallMs() - CLOCK_SLACK_MS;
  const base = await freeOf(directories);
  let allowedBytes = limitBytes;
  for (;;) {
    await clock.sleep(ALLOWANCE_POLL_MS, signal);
    if (signal.aborted) return null;
    const free = await freeOf(directories);
    const lost = Math.max(0, ...base.map((bytes, index) => bytes - (free[index] ?? bytes)));
    if (lost <= allowedBytes) continue;
    const writtenBytes = await writtenSince(directories, sinceMs, limitBytes);
    if (writtenBytes > limitBytes) return writtenBytes;
    // Others write too: the next look is when this command may have written the rest.
    allowedBytes = lost + Math.max(limitBytes - writtenBytes, limitBytes / 8);
  }
}

/** What lies in another of them is counted with that one. */
function outermost(directories: readonly string[]): readonly string[] {
  return directories.filter(
    (one, index) =>
      directories.indexOf(one) === index &&
      !directories.some((other) => one.startsWith(`${other}${other.endsWith("/") ? "" : "/"}`)),
  );
}

/** File systems keep a time that is some milliseconds old. */
const CLOCK_SLACK_MS = 50;
const BLOCK_BYTES = 512;

async function freeOf(directories: readonly string[]): Promise<readonly number[]> {
  return Promise.all(
    directories.map((directory) =>
      statfs(directory).then(
        ({ bavail, bsize }) => bavail * bsize,
        () => 0,
      ),
    ),
  );
}

/** The disk that is taken by what was changed since then; stops when it is above the limit. */
async function writtenSince(
  directories: readonly string[],
  sinceMs: number,
  limitBytes: number,
): Promise<number> {
  const count = new Count(sinceMs);
  const waiting = [...directories];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (count.bytes > limitBytes || count.fileCount > ALLOWANCE_FILE_LIMIT) return count.bytes;
    waiting.push(...(await entriesOf(next, count)));
  }
  await countUnlinked(count);
  return count.bytes;
}

class Count {
  readonly #sinceMs: number;
  readonly #seen = new Set<string>();
  bytes = 0;
  fileCount = 0;

  constructor(sinceMs: number) {
    this.#sinceMs = sinceMs;
  }

  add(file: { dev: number; ino: number; ctimeMs: number; blocks: number; nlink: number }): void {
    this.fileCount++;
    if (file.ctimeMs < this.#sinceMs) return;
    const name = `${file.dev}:${file.ino}`;
    if (file.nlink !== 1) {
      if (this.#seen.has(name)) return;
      this.#seen.add(name);
    }
    this.bytes += file.blocks * BLOCK_BYTES;
  }
}

/** Counts a directory's files, and answers with its directories. */
async function entriesOf(directory: string, count: Count): Promise<readonly string[]> {
  const below: string[] = [];
  try {
    for await (const entry of await opendir(directory)) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) below.push(path);
      else if (entry.isFile()) {
        const file = await lstat(path).catch(() => null);
        if (file !== null) count.add(file);
      }
    }
  } catch (error) {
    // It went while it was looked at, or is not for our eyes.
    if (errnoOf(error) === null) throw error;
  }
  return below;
}

/** What has no name any more takes its disk until the last process has closed it. */
async function countUnlinked(count: Count): Promise<void> {
  const pids = await readdir("/proc").catch(() => []);
  for (const pid of pids.filter((name) => /^\d+$/.test(name))) {
    const place = join("/proc", pid, "fd");
    for (const name of await readdir(place).catch(() => [])) {
      const to = await readlink(join(place, name)).catch(() => "");
      if (!to.startsWith("/") || !to.endsWith(" (deleted)")) continue;
      const file = await stat(join(place, name)).catch(() => null);
      if (file?.isFile() === true) count.add(file);
    }
  }
}
