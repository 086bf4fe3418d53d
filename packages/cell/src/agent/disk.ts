import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { fail, ok, type Result } from "@dev/protocol";
import { makeDirectory } from "./directory.ts";
import { errnoOf, systemFault } from "./errno.ts";

/**
 * The one file that the spool's log is in. What `append` wrote may be lost, or torn, by a crash until
 * `sync` has resolved; `replace` is atomic and durable. Calls are never made side by side.
 */
export interface Disk {
  /** The whole file; no bytes when there is none. */
  read(): Promise<Result<Uint8Array>>;
  append(bytes: Uint8Array): Promise<Result<void>>;
  sync(): Promise<Result<void>>;
  /** Puts `bytes` in the file's place; later appends go behind them. */
  replace(bytes: Uint8Array): Promise<Result<void>>;
  close(): Promise<void>;
}

/** A disk that is a real file, `log` in `directory`, which is made when there is none. */
export function fileDisk(directory: string): Disk {
  const path = join(directory, "log");
  let handle: FileHandle | null = null;

  async function appended(): Promise<FileHandle> {
    handle ??= await open(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, 0o600);
    return handle;
  }

  async function close(): Promise<void> {
    await handle?.close();
    handle = null;
  }

  return {
    read: () =>
      told(path, async () => {
        try {
          return await readFile(path);
        } catch (error) {
          if (errnoOf(error) === "ENOENT") return new Uint8Array(0);
          throw error;
        }
      }),
    append: (bytes) => told(path, async () => writeAll(await appended(), bytes)),
    sync: () => told(path, async () => (await appended()).datasync()),
    replace: (bytes) =>
      told(path, async () => {
        await makeDirectory(directory);
        const aside = `${path}.new`;
        const fresh = await open(aside, "w", 0o600);
        try {
          await writeAll(fresh, bytes);
          await fresh.sync();
        } finally {
          await fresh.close();
        }
        await close();
        await rename(aside, path);
        await syncDirectory(directory);
      }),
    close,
  };
}

/** Makes the names in a directory durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done);
    done += bytesWritten;
  }
}

async function told<T>(path: string, work: () => Promise<T>): Promise<Result<T>> {
  try {
    return ok(await work());
  } catch (error) {
    return fail(systemFault(error, path));
  }
}
