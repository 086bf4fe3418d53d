import { closeSync, readSync } from "node:fs";
import type { Duplex } from "node:stream";
import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { digestOf } from "./content.ts";
import { OBJECT_BYTES } from "./listing.ts";
import { type Keeper, type Scan, type ScanOptions, scanTree, type Where } from "./scan.ts";
import {
  type ByteName,
  closeDir,
  type Dir,
  errno,
  openDirAt,
  openFileAt,
  openTree,
  orFault,
} from "./walk.ts";
import { type Frame, garbled, Wire } from "./wire.ts";

/** What went across. */
export type Sent = { readonly objectCount: number; readonly sizeBytes: number };

/** How often an object is asked for at most, over all: a peer that asks without end is not answered. */
const ASK_LIMIT = 4;

/** Objects of a tree that lie where they are: listings in memory, content in its files. */
export class TreeObjects {
  readonly listings: Map<Digest, Uint8Array> = new Map();
  readonly #places = new Map<Digest, Where>();
  readonly #moved = new Map<ByteName, ByteName>();

  /** Takes note of what a scan finds, and keeps nothing else. */
  keeper(): Keeper {
    return {
      has: (digest, where) => {
        if (where === null) return this.listings.has(digest);
        this.note(digest, where);
        return true;
      },
      keep: (digest, content) => void this.listings.set(digest, content),
      room: async () => ok(undefined),
    };
  }

  get count(): number {
    return this.listings.size + this.#places.size;
  }

  note(digest: Digest, where: Where): void {
    if (!this.#places.has(digest)) this.#places.set(digest, where);
  }

  /** Takes note that a path, and all below it, is another now. */
  move(path: ByteName, to: ByteName): void {
    this.#moved.set(path, to);
  }

  has(digest: Digest): boolean {
    return this.listings.has(digest) || this.#places.has(digest);
  }

  /** An object, verified; null where it is no longer what it was. Throws the system's errors. */
  read(root: Dir, digest: Digest): Uint8Array | null {
    const listing = this.listings.get(digest);
    if (listing !== undefined) return listing;
    const where = this.#places.get(digest);
    if (where === undefined) return null;
    const content = readAt(root, { ...where, path: this.#now(where.path) });
    return content !== null && digestOf(content) === digest ? content : null;
  }

  #now(path: ByteName): ByteName {
    for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
      const to = this.#moved.get(path.slice(0, end));
      if (to !== undefined) return to + path.slice(end);
    }
    return path;
  }
}

/**
 * Sends a tree to a `receiveTree` at the other end of a stream, which asks for what it lacks. Resolves when
 * that has it all. The stream stays open. Faults: `link_lost`, `silent`, `corrupt`, `limit`, `io`, and
 * those of the other end.
 */
export async function sendTree(
  directory: string,
  stream: Duplex,
  options: ScanOptions,
  signal?: AbortSignal,
): Promise<Result<Sent>> {
  const wire = new Wire(stream, signal);
  try {
    const sent = await orFault(directory, async () => {
      const objects = new TreeObjects();
      const scan = await scanTree(directory, objects.keeper(), options, signal);
      if (!scan.ok) return scan;
      const root = openTree(directory);
      try {
        return await serve(wire, root, objects, scan.value);
      } finally {
        closeDir(root);
      }
    });
    // It may be what the other end has just said itself; then nobody hears it.
    if (!sent.ok && sent.fault.code !== "link_lost") {
      await wire.send({ kind: "fault", fault: sent.fault });
    }
    return sent;
  } finally {
    wire.close();
  }
}

async function serve(
  wire: Wire,
  root: Dir,
  objects: TreeObjects,
  { digest }: Scan,
): Promise<Result<Sent>> {
  const begun = await wire.send({ kind: "root", digest });
  if (!begun.ok) return begun;
  let [objectCount, sizeBytes] = [0, 0];
  for (;;) {
    const said = await wire.next();
    if (!said.ok) return said;
    const frame = said.value;
    if (frame.kind === "fault") return fail(frame.fault);
    if (frame.kind === "done") {
      if (frame.digest !== digest) return fail(garbled("it has another tree than was sent"));
      return ok({ objectCount, sizeBytes });
    }
    if (frame.kind !== "want") return fail(garbled(`a ${frame.kind} out of turn`));
    for (const wanted of frame.digests) {
      objectCount += 1;
      if (objectCount > ASK_LIMIT * (objects.count + 1)) {
        return fail(fault("limit", "the other end asks for more than there is"));
      }
      const content = objects.read(root, wanted);
      const answer: Frame =
        content === null
          ? { kind: "lack", digest: wanted }
          : { kind: "object", digest: wanted, content };
      sizeBytes += content?.length ?? 0;
      const sent = await wire.send(answer);
      if (!sent.ok) return sent;
    }
  }
}

/** Up to OBJECT_BYTES from a place in a file; null where there is no such file any more. */
function readAt(root: Dir, { path, offset }: Where): Uint8Array | null {
  try {
    return within(root, path.split("/"), (dir, name) => {
      const fd = openFileAt(dir.atBytes(name));
      try {
        const buffer = Buffer.allocUnsafe(OBJECT_BYTES);
        let length = 0;
        while (length < buffer.length) {
          const count = readSync(fd, buffer, length, buffer.length - length, offset + length);
          if (count === 0) break;
          length += count;
        }
        return buffer.subarray(0, length);
      } finally {
        closeSync(fd);
      }
    });
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ELOOP", "EACCES"].includes(errno(error))) return null;
    throw error;
  }
}

function within<T>(dir: Dir, names: readonly ByteName[], act: (dir: Dir, name: ByteName) => T): T {
  const [name = "", ...rest] = names;
  if (rest.length === 0) return act(dir, name);
  const inner = openDirAt(dir.atBytes(name));
  try {
    return within(inner, rest, act);
  } finally {
    closeDir(inner);
  }
}
