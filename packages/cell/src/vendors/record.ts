import { execFile } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
} from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { type CellId, fail, fault, ok, parseCellId, type Result } from "@dev/protocol";
import type { Boundary } from "../vendor.ts";
import type { ProcessName } from "./process.ts";

/** What a vendor knows of one cell of its own, in `cell.json` in the cell's directory. */
export type CellRecord = {
  readonly version: 1;
  readonly id: CellId;
  /** The vendor's name. */
  readonly vendor: string;
  /** Raised before every start; 0 has never been started. */
  readonly generation: number;
  /** What its last start had, so that no later one has less unasked; null before the first. */
  readonly boundary: Boundary | null;
  /** The control groups that its processes are in; none where the machine has none for us. */
  readonly groups: readonly string[];
  readonly running: Running;
};

type Running =
  | { readonly kind: "none" }
  | {
      readonly kind: "started";
      /** Ends when the agent does. */
      readonly agent: ProcessName;
      /** Kill this, and every process of the cell is gone; the agent itself where there is no such. */
      readonly root: ProcessName;
    };

/** Where a cell's own things lie on this machine. */
export type CellDirectory = {
  readonly path: string;
  /** The cell's own disk: what its agent keeps from one generation to the next. */
  readonly disk: string;
  /** On the disk. */
  readonly spool: string;
  /** The home directory of its commands, where they have none of their own; kept as well. */
  readonly home: string;
  /** Emptied at every start. */
  readonly scratch: string;
  /** What the agent and the sandbox had to say, of the latest start. */
  readonly log: string;
  readonly record: string;
};

export function directoryOf(home: string, id: CellId): CellDirectory {
  // What is deleted later is named by this, so a cast that went wrong stops here.
  if (!parseCellId(id).ok) throw new Error(`not a cell id: ${id}`);
  const path = join(home, id);
  const disk = join(path, "disk");
  return {
    path,
    disk,
    spool: join(disk, "spool"),
    home: join(path, "home"),
    scratch: join(path, "scratch"),
    log: join(path, "agent.log"),
    record: join(path, "cell.json"),
  };
}

/**
 * Makes a cell's directory, whole or not at all. One that is there already is an `exists` fault.
 */
export async function createRecord(home: string, record: CellRecord): Promise<Result<undefined>> {
  const directory = directoryOf(home, record.id);
  // Built aside, so that a crash half-way leaves no directory without its record.
  const aside = directoryOf(join(home, ".new"), record.id);
  try {
    await rm(aside.path, { recursive: true, force: true });
    await mkdir(aside.spool, { recursive: true, mode: 0o700 });
    await mkdir(aside.home, { mode: 0o700 });
    await mkdir(aside.scratch, { mode: 0o700 });
    await writeDurably(aside.record, JSON.stringify(record));
    if (await isThere(directory.path)) return fail(taken(record.id));
    await rename(aside.path, directory.path);
    await syncDirectory(home);
    return ok(undefined);
  } catch (error) {
    if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return fail(taken(record.id));
    return fail(ioFault(error, directory.path));
  }
}

/** Reads the record of this very cell; undefined when there is no such cell. */
export async function readRecord(
  home: string,
  id: CellId,
  vendor: string,
): Promise<Result<CellRecord | undefined>> {
  const directory = directoryOf(home, id);
  let text: string;
  try {
    text = await readFile(directory.record, "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") {
      return fail(ioFault(error, directory.record));
    }
    if (!(await isThere(directory.path))) return ok(undefined);
    return fail(notOurs(directory.path));
  }
  const record = parse(text);
  if (record?.id !== id || record.vendor !== vendor) return fail(notOurs(directory.path));
  return ok(record);
}

export async function writeRecord(home: string, record: CellRecord): Promise<Result<undefined>> {
  const directory = directoryOf(home, record.id);
  try {
    await writeDurably(directory.record, JSON.stringify(record));
    return ok(undefined);
  } catch (error) {
    return fail(ioFault(error, directory.record));
  }
}

/** Removes a cell's directory, its record last: until then the cell is known. */
export async function removeCell(home: string, id: CellId): Promise<Result<undefined>> {
  const directory = directoryOf(home, id);
  try {
    for (const name of await readdir(directory.path)) {
      const path = join(directory.path, name);
      if (path !== directory.record) await removeTree(path);
    }
    await removeTree(directory.path);
    return ok(undefined);
  } catch (error) {
    return fail(ioFault(error, directory.path));
  }
}

/** Makes a directory anew that a cell could write in; nothing in it is followed out of it. */
export async function emptyDirectory(path: string, mode: number): Promise<Result<undefined>> {
  try {
    await removeTree(path);
    await mkdir(path);
    await chmod(path, mode);
    return ok(undefined);
  } catch (error) {
    return fail(ioFault(error, path));
  }
}

/** The real path of a workspace. Fault `unavailable`: there is no such directory. */
export async function directoryAt(path: string): Promise<Result<string>> {
  try {
    const real = await realpath(path);
    if ((await stat(real)).isDirectory()) return ok(real);
    return fail(fault("unavailable", "the workspace is not a directory", path));
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return fail(fault("unavailable", `the workspace: ${words}`, path));
  }
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

export function ioFault(error: unknown, path: string): ReturnType<typeof fault> {
  const words = error instanceof Error ? error.message : String(error);
  return fault("unavailable", `the cell's directory: ${words}`, path);
}

async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch {
    // A directory that its owner may not write, such as a module cache, is still the owner's; and one
    // that is nested past the longest path wants a tool that walks by descriptor.
    await run("chmod", ["-R", "u+rwX", "--", path]);
    await run("rm", ["-rf", "--", path]);
  }
}

const run = promisify(execFile);

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function taken(id: CellId): ReturnType<typeof fault> {
  return fault(
    "exists",
    "there is a cell of this id already",
    id,
    "make a new id, or get this one",
  );
}

function notOurs(path: string): ReturnType<typeof fault> {
  return fault(
    "corrupt",
    "this directory has no record that it is this vendor's cell, so it is left alone",
    path,
    "remove it by hand if it is not wanted",
  );
}

function parse(text: string): CellRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    const record = value as Partial<CellRecord>;
    if (record.version !== 1 || !Number.isSafeInteger(record.generation)) return undefined;
    const { groups = [] } = record;
    // What is in a group is killed with it: it has to be this cell's.
    if (!groups.every((group) => basename(group).startsWith(`dev-${record.id}.`))) return undefined;
    return isRunning(record.running) ? ({ ...record, groups } as CellRecord) : undefined;
  } catch {
    return undefined;
  }
}

function isRunning(value: Running | undefined): boolean {
  if (value?.kind === "none") return true;
  return value?.kind === "started" && isName(value.agent) && isName(value.root);
}

function isName(value: Partial<ProcessName> | undefined): boolean {
  // 0 and below would signal whole groups.
  return Number.isSafeInteger(value?.pid) && Number(value?.pid) > 1 && value?.started !== undefined;
}

/** Written aside and renamed, so that a crash leaves the old text or the new. */
async function writeDurably(path: string, text: string): Promise<void> {
  const aside = `${path}.new`;
  const file = await open(aside, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(aside, path);
  await syncDirectory(join(path, ".."));
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
