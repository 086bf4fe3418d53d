import { constants, readSync } from "node:fs";
import { type FileHandle, lstat, open, readdir, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { Capture } from "./capture.ts";
import { errnoOf } from "./errno.ts";

/** One command's output, on the cell's disk. */
export const OUTPUT_FILE_LIMIT_BYTES: number = 256 * 1024 * 1024;
/** All of them together; past this the oldest go. */
export const OUTPUT_KEPT_LIMIT_BYTES: number = 1024 * 1024 * 1024;

/** The whole output of one command as a file, both streams in the order in which they came. */
export class OutputFile {
  readonly path: string;
  readonly #handle: FileHandle | null;
  readonly #limitBytes: number;
  #sizeBytes = 0;
  #state: "open" | "full" | "closed";

  private constructor(path: string, handle: FileHandle | null, limitBytes: number) {
    this.path = path;
    this.#handle = handle;
    this.#limitBytes = limitBytes;
    this.#state = handle === null ? "closed" : "open";
  }

  /** A disk that takes no file gives one that keeps nothing: the command is more than its copy. */
  static async make(path: string, limitBytes: number): Promise<OutputFile> {
    try {
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND;
      const handle = await open(path, flags | constants.O_NOFOLLOW, 0o600);
      return new OutputFile(path, handle, Math.min(limitBytes, OUTPUT_FILE_LIMIT_BYTES));
    } catch (error) {
      if (errnoOf(error) === null) throw error;
      return new OutputFile("", null, 0);
    }
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (this.#state !== "open" || this.#handle === null) return;
    const room = this.#limitBytes - this.#sizeBytes;
    if (chunk.length > room) this.#state = "full";
    const note = `\n[more than ${this.#limitBytes} bytes: the rest was not kept]\n`;
    const kept = chunk.length > room ? [chunk.subarray(0, room), Buffer.from(note)] : [chunk];
    this.#sizeBytes += chunk.length;
    try {
      await this.#handle.writev(kept);
    } catch (error) {
      if (errnoOf(error) === null) throw error;
      this.#state = "full";
    }
  }

  async close(): Promise<void> {
    if (this.#state === "closed") return;
    this.#state = "closed";
    await this.#handle?.close();
  }
}

/** Removes the oldest files of a directory until the rest is below OUTPUT_KEPT_LIMIT_BYTES. */
export async function trimOutputs(directory: string, keep: string): Promise<void> {
  try {
    const files = [];
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      const stats = await lstat(path);
      if (stats.isFile()) files.push({ path, bytes: stats.size, atMs: stats.mtimeMs });
    }
    files.sort((a, b) => b.atMs - a.atMs);
    let bytes = 0;
    for (const file of files) {
      bytes += file.bytes;
      if (bytes <= OUTPUT_KEPT_LIMIT_BYTES || file.path === keep) continue;
      await rm(file.path, { force: true });
    }
  } catch (error) {
    // A command may remove them too: what is left is looked at the next time.
    if (errnoOf(error) === null) throw error;
  }
}

/** What a pipe holds at most, and so what a command that has exited can have left in it. */
const PIPE_BYTES = 1024 * 1024;
const READ_BYTES = 64 * 1024;

/** Reads one stream of a command, no faster than its file takes it. */
export class Tap {
  readonly capture: Capture;
  /** Resolves when nobody has the pipe open for writing any more. */
  readonly ended: Promise<void>;
  readonly #descriptor: number;
  readonly #socket: Socket;
  readonly #file: OutputFile;
  readonly #onText: (text: string) => void;
  readonly #decoder = new StringDecoder("utf8");
  #writing: Promise<void> = Promise.resolve();
  #chunkCount = 0;
  #state: "kept" | "dropped" = "kept";

  constructor(
    descriptor: number,
    limitBytes: number,
    file: OutputFile,
    onText: (text: string) => void,
  ) {
    this.capture = new Capture(limitBytes);
    this.#descriptor = descriptor;
    this.#file = file;
    this.#onText = onText;
    // One buffer for all that is read, and no reading on before it has been written: however much a
    // command writes, nothing grows.
    const onread = {
      buffer: Buffer.allocUnsafe(READ_BYTES),
      callback: (count: number, buffer: Uint8Array) => this.#take(buffer.subarray(0, count)),
    };
    const options = { fd: descriptor, readable: true, writable: false, onread };
    this.#socket = new Socket(options);
    this.ended = new Promise((resolve) => {
      this.#socket.once("close", () => resolve());
    });
    // A read error is an end: "close" follows it.
    this.#socket.on("error", () => {});
  }

  /** Rises with everything that is read. */
  get chunkCount(): number {
    return this.#chunkCount;
  }

  /**
   * Takes what lies in the pipe now, and nothing that comes later. A child that was left behind may
   * write on: it is read and dropped, for a closed pipe would kill it.
   */
  async settle(): Promise<void> {
    await this.#writing;
    if (!this.#socket.destroyed) this.#drain();
    this.#state = "dropped";
    this.#socket.resume();
    const last = this.#decoder.end();
    if (last !== "") this.#onText(last);
    await this.#writing;
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Whether to read on at once. */
  #take(chunk: Uint8Array): boolean {
    if (this.#state === "dropped") return true;
    this.#keep(chunk);
    void this.#writing.then(() => this.#socket.resume());
    return false;
  }

  #keep(chunk: Uint8Array): void {
    this.#chunkCount++;
    this.capture.push(chunk);
    this.#writing = this.#writing.then(() => this.#file.write(chunk));
    const text = this.#decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length));
    if (text !== "") this.#onText(text);
  }

  /** The pipe is read past the event loop, which may not have come round to it yet. */
  #drain(): void {
    for (let bytes = 0; bytes < PIPE_BYTES; ) {
      const buffer = Buffer.allocUnsafe(READ_BYTES);
      const count = readNow(this.#descriptor, buffer);
      if (count === 0) return;
      bytes += count;
      this.#keep(buffer.subarray(0, count));
    }
  }
}

/** How many bytes were there; 0 at the end, and when there are none now. */
function readNow(descriptor: number, buffer: Buffer): number {
  try {
    return readSync(descriptor, buffer);
  } catch (error) {
    if (errnoOf(error) === null) throw error;
    return 0;
  }
}
