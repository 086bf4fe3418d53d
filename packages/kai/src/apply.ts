import { randomUUID } from "node:crypto";
import { chmod, chown, lstat, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { digestOf } from "./revision.ts";

/** What a file was when it was decided upon, and what it is to be. */
export type FileChange = {
  /** Relative to the tree, with `/`. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
};

export type ApplyOptions = {
  /** The tree that the files are of; absolute. */
  readonly directory: string;
  /** A directory in which what is under way is written down; made where it is not there. */
  readonly journal: string;
  /** Who does it; whoever finds the journal asks whether this one still lives. */
  readonly owner: string;
  /** Told of each file that is made beside another, before it is: it is removed by whoever survives us. */
  readonly onAside: (path: string) => void;
};

/** A journal as it is stored. */
type Journal = {
  readonly version: 1;
  readonly owner: string;
  readonly directory: string;
  readonly files: readonly {
    readonly file: string;
    readonly aside: string;
    readonly mode: number;
    readonly beforeDigest: string;
    readonly afterDigest: string;
    readonly before: string;
  }[];
};

/**
 * Writes the files: all of them, or none. Each is checked just before to be what it was when the change
 * was decided upon, written beside itself and renamed into its place. A journal that is durable before
 * the first of them lets the next run put back what a death in the middle left. Faults: `changed`, `io`.
 */
export async function apply(
  changes: readonly FileChange[],
  options: ApplyOptions,
): Promise<Result<void>> {
  const { directory, journal: place, owner } = options;
  const path = join(place, `${randomUUID()}.json`);
  try {
    const found = await prepared(changes, directory, owner);
    if (!found.ok) return found;
    await mkdir(place, { recursive: true, mode: 0o700 });
    await writeDurably(path, JSON.stringify(found.value), 0o600);
    const written = await writeAll(changes, found.value, options);
    if (!written.ok) await restore(found.value);
    await rm(path, { force: true });
    return written;
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
    await recoverOne(path);
    return fail(fault("io", `the fix could not be written: ${error.message}`, directory));
  }
}

/**
 * Settles what runs that died while they wrote have left: a change of which a part is there is taken
 * back, one that is there whole stays. A file that is neither what it was nor what it was to be is
 * somebody's work since, and is not touched. Returns the files that were put back.
 */
export async function recoverFiles(
  place: string,
  isAlive: (owner: string) => boolean,
): Promise<readonly string[]> {
  const names = await readdir(place).catch(() => []);
  const restored: string[] = [];
  for (const name of names.filter((each) => each.endsWith(".json"))) {
    const path = join(place, name);
    const journal = await readJournal(path);
    if (journal !== null && isAlive(journal.owner)) continue;
    restored.push(...(await recoverOne(path)));
  }
  return restored;
}

async function prepared(
  changes: readonly FileChange[],
  directory: string,
  owner: string,
): Promise<Result<Journal>> {
  const files: Journal["files"][number][] = [];
  for (const { file, before, after } of changes) {
    const path = join(directory, file);
    const stat = await lstat(path).catch(() => null);
    if (stat === null || !stat.isFile()) return fail(changed(path));
    files.push({
      file,
      aside: join(dirname(path), `.${basename(path)}.${randomUUID().slice(0, 8)}.kai`),
      mode: stat.mode & 0o7777,
      beforeDigest: digestOf(before),
      afterDigest: digestOf(after),
      before,
    });
  }
  return ok({ version: 1, owner, directory, files });
}

async function writeAll(
  changes: readonly FileChange[],
  journal: Journal,
  { onAside }: ApplyOptions,
): Promise<Result<void>> {
  for (const [at, entry] of journal.files.entries()) {
    const path = join(journal.directory, entry.file);
    const after = changes[at]?.after ?? "";
    onAside(entry.aside);
    await replace(path, entry, after);
    const isSame = (await digestAt(path)) === entry.beforeDigest;
    if (!isSame) {
      await rm(entry.aside, { force: true });
      return fail(changed(path));
    }
    await rename(entry.aside, path);
  }
  return ok(undefined);
}

/** Writes what is to come into a file's place beside it, with its mode and its owner. */
async function replace(
  path: string,
  { aside, mode }: Journal["files"][number],
  text: string,
): Promise<void> {
  const { uid, gid } = await lstat(path);
  await writeDurably(aside, text, mode);
  await chmod(aside, mode);
  const own = await lstat(aside);
  // Not everybody may give a file away; then it is of whoever runs this, as from any editor.
  if (own.uid !== uid || own.gid !== gid) await chown(aside, uid, gid).catch(() => undefined);
}

async function recoverOne(path: string): Promise<readonly string[]> {
  const journal = await readJournal(path);
  const restored = journal === null ? [] : await restore(journal);
  await rm(path, { force: true });
  return restored;
}

async function restore(journal: Journal): Promise<readonly string[]> {
  const states = await Promise.all(
    journal.files.map(async (entry) => {
      await rm(entry.aside, { force: true });
      return { entry, digest: await digestAt(join(journal.directory, entry.file)) };
    }),
  );
  const written = states.filter(({ entry, digest }) => digest === entry.afterDigest);
  // All of it is there: it was verified before the first file was written.
  if (written.length === states.length) return [];
  const restored: string[] = [];
  for (const { entry } of written) {
    const path = join(journal.directory, entry.file);
    await replace(path, entry, entry.before);
    await rename(entry.aside, path);
    restored.push(path);
  }
  return restored;
}

async function readJournal(path: string): Promise<Journal | null> {
  const text = await readFile(path, "utf8").catch(() => "");
  try {
    const read = JSON.parse(text) as Partial<Journal>;
    return read.version === 1 && Array.isArray(read.files) ? (read as Journal) : null;
  } catch {
    // It was cut short, so nothing of what it is about had begun.
    return null;
  }
}

async function digestAt(path: string): Promise<string> {
  const bytes = await readFile(path).catch(() => null);
  return bytes === null ? "" : digestOf(bytes);
}

async function writeDurably(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

function changed(path: string) {
  const mend = "run it again on the file as it is now";
  return fault("changed", "the file was changed while a fix for it was looked for", path, mend);
}
