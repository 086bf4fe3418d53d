import { spawn } from "node:child_process";
import { constants, openSync, unlinkSync } from "node:fs";

import { join } from "node:path";
import { makeDirectory } from "./directory.ts";

/** One end of a pipe for a command to write to, and the other to read it from. */
export type Pipe = { readonly read: number; readonly write: number };

/** Named pipes that are made by one call, */
const PIPES_MADE = 32;
/** and how few are left when it is made ahead: a command takes two, and is not to wait for it. */
const PIPES_LOW = 8;

/**
 * Makes real pipes. What Node gives a child is a pair of sockets, and no program can open
 * `/dev/stdout` on one.
 */
export class Pipes {
  readonly #directory: string;
  readonly #names: string[] = [];
  #madeCount = 0;
  #making: Promise<void> | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** A pipe of its own for whoever asks; throws what the system says when there is none. */
  async take(): Promise<Pipe> {
    for (;;) {
      const path = this.#names.pop();
      if (path !== undefined) {
        // What it fails with is told to whoever finds none.
        if (this.#names.length < PIPES_LOW) this.#refilled().catch(() => {});
        try {
          return openPipe(path);
        } catch (error) {
          // Something has removed them: the next who asks gets new ones.
          this.#names.length = 0;
          throw error;
        }
      }
      await this.#refilled();
    }
  }

  /** One call for all who ask meanwhile. */
  #refilled(): Promise<void> {
    this.#making ??= this.#refill();
    return this.#making;
  }

  async #refill(): Promise<void> {
    try {
      await makeDirectory(this.#directory);
      const paths: string[] = [];
      for (let count = 0; count < PIPES_MADE; count++) {
        paths.push(join(this.#directory, `${this.#madeCount++}`));
      }
      await makePipes(paths);
      this.#names.push(...paths);
    } finally {
      // A failure is told to those who wait for it, and tried again by the next.
      this.#making = null;
    }
  }
}

/** Node cannot make one itself. */
async function makePipes(paths: readonly string[]): Promise<void> {
  const child = spawn("mkfifo", ["-m", "600", ...paths], { stdio: "ignore" });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  if (code === 0) return;
  // It has said why to nobody; nearly always the disk takes nothing more.
  throw Object.assign(new Error("mkfifo failed"), { code: "EIO" });
}

function openPipe(path: string): Pipe {
  // The reading end first, and without waiting: a named pipe opens when it has both.
  const read = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const write = openSync(path, constants.O_WRONLY);
  unlinkSync(path);
  return { read, write };
}
