import { accessSync, closeSync, constants, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";

/** Makes the store's file, empty and for its owner alone, where there is none. Fault: `io`. */
export function makeFile(path: string): Result<void> {
  try {
    create(path);
    return ok(undefined);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const mend = "check the directory and its permissions, or name another";
    return fail(fault("io", `the store's file cannot be used: ${why}`, path, mend));
  }
}

function create(path: string): void {
  const directory = dirname(path);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  try {
    // Only ever made anew: closing any other descriptor of a database's file would drop the locks
    // that this process's connections to it hold.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    // SQLite would open it for reading alone, and fail at the first write.
    accessSync(path, constants.R_OK | constants.W_OK);
    return;
  }
  const parent = openSync(directory, "r");
  fsyncSync(parent);
  closeSync(parent);
}
