import { randomBytes } from "node:crypto";
import { type FileHandle, link, mkdir, open, opendir, rename, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import {
  BLOB_LIMIT_BYTES,
  type BlobPage,
  type Blobs,
  type ByteRange,
  checkBlobName,
} from "./blobs.ts";
import { errno, orFault } from "./walk.ts";

/** Names of a page. */
const PAGE_NAMES = 1_000;
/** Where blobs are written before they have their name; what a crash leaves there is listed. */
const ASIDE = "aside";

/**
 * Blobs as files of a directory, which is made with its first blob: each is written aside, forced to
 * the disk, given its name if nothing has it, and then the directory is forced too. Several processes
 * may have one directory open.
 */
export function directoryBlobs(path: string): Blobs {
  return {
    packing: "raw",
    put: (name, content) => put(path, name, content),
    get: (name, range) => get(path, name, range),
    list: (prefix, after) => list(path, prefix, after),
    delete: (name) => remove(path, name),
  };
}

async function put(root: string, name: string, content: Uint8Array) {
  checkBlobName(name);
  if (content.length > BLOB_LIMIT_BYTES) {
    return fail(fault("too_large", `a blob has at most ${BLOB_LIMIT_BYTES} bytes`, name));
  }
  const path = join(root, name);
  return orFault<"put" | "there">(path, async () => {
    const aside = join(root, ASIDE, randomBytes(12).toString("hex"));
    await makeDirectory(dirname(aside));
    await makeDirectory(dirname(path));
    await writeDurably(aside, content);
    const isNew = await giveName(aside, path);
    await syncDirectory(dirname(path));
    return ok(isNew ? "put" : "there");
  });
}

/** Gives a file its name; false where something has it. */
async function giveName(aside: string, path: string): Promise<boolean> {
  try {
    // A rename would take the place of what is there; a link never does.
    await link(aside, path);
    return true;
  } catch (error) {
    if (errno(error) === "EEXIST") return false;
    // A file system without links: there two writers may both be told `put`, of the same bytes.
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"].includes(errno(error))) throw error;
    await rename(aside, path);
    return true;
  } finally {
    await unlinkIfThere(aside);
  }
}

async function get(root: string, name: string, range: ByteRange | null) {
  checkBlobName(name);
  const path = join(root, name);
  return orFault<Uint8Array>(path, async () => {
    let file: FileHandle;
    try {
      file = await open(path, "r");
    } catch (error) {
      if (errno(error) !== "ENOENT") throw error;
      return fail(fault("not_found", "there is no such blob", path));
    }
    try {
      const { size } = await file.stat();
      const offset = Math.min(range?.offset ?? 0, size);
      const length = Math.min(range?.length ?? size, size - offset);
      const content = Buffer.allocUnsafe(length);
      let done = 0;
      while (done < length) {
        const { bytesRead } = await file.read(content, done, length - done, offset + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return ok(content.subarray(0, done));
    } finally {
      await file.close();
    }
  });
}

async function list(root: string, prefix: string, after: string) {
  return orFault<BlobPage>(root, async () => {
    const found: string[] = [];
    await collect(root, "", prefix, found);
    const names = found.filter((name) => name > after).sort();
    const page = names.slice(0, PAGE_NAMES);
    return ok({ names: page, next: names.length > page.length ? (page.at(-1) ?? null) : null });
  });
}

/** The names below a directory that begin with a prefix; directories that cannot hold one are passed over. */
async function collect(root: string, at: string, prefix: string, found: string[]): Promise<void> {
  let entries: Awaited<ReturnType<typeof opendir>>;
  try {
    entries = await opendir(join(root, at));
  } catch (error) {
    if (errno(error) === "ENOENT") return;
    throw error;
  }
  for await (const entry of entries) {
    const name = at === "" ? entry.name : `${at}/${entry.name}`;
    if (entry.isDirectory()) {
      const within = `${name}/`;
      if (within.startsWith(prefix) || prefix.startsWith(within)) {
        await collect(root, name, prefix, found);
      }
    } else if (entry.isFile() && name.startsWith(prefix)) found.push(name);
  }
}

async function remove(root: string, name: string): Promise<Result<void>> {
  checkBlobName(name);
  const path = join(root, name);
  return orFault(path, async () => {
    await unlinkIfThere(path);
    return ok(undefined);
  });
}

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!["ENOENT", "ENOTDIR"].includes(errno(error))) throw error;
  }
}

async function writeDurably(path: string, content: Uint8Array): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function makeDirectory(path: string): Promise<void> {
  // It answers the first directory that it made: each name above it is new, and has to be durable too.
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) {
    await syncDirectory(dirname(made));
  }
}

async function syncDirectory(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
