import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errnoOf } from "./errno.ts";

/**
 * Makes a directory for its owner alone, and those above it. Node's own recursion never ends where a
 * directory was deleted that is still in use, as a cell's disk may be. Rejects as `mkdir` does.
 */
export async function makeDirectory(path: string): Promise<void> {
  const missing = await tryMake(path);
  if (!missing) return;
  const above = dirname(path);
  if (above !== path) await makeDirectory(above);
  if (await tryMake(path)) throw missing;
}

/** Nothing once it is there; the error when what is above it is not. */
async function tryMake(path: string): Promise<Error | null> {
  try {
    await mkdir(path, { mode: 0o700 });
    return null;
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return error as Error;
    if (errnoOf(error) === "EEXIST" && (await stat(path)).isDirectory()) return null;
    throw error;
  }
}
