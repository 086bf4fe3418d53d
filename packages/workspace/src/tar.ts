import { isUtf8 } from "node:buffer";
import type { Readable, Writable } from "node:stream";
import { Readable as Reading } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { createTarDecoder, createTarPacker } from "modern-tar";
import { digestOf } from "./content.ts";
import {
  decodeChunks,
  type Entry,
  encodeChunks,
  encodeListing,
  FILE_LIMIT_BYTES,
  isChunked,
  OBJECT_BYTES,
} from "./listing.ts";
import { type ObjectSource, type Objects, PackWriter } from "./objects.ts";
import { readListing, rootOf, type SnapshotId, snapshotId } from "./snapshot.ts";
import type { TreeLimits } from "./take.ts";
import {
  type ByteName,
  bytesOf,
  DEPTH_LIMIT,
  errno,
  halt,
  ioFault,
  isTreePath,
  orFault,
  textOf,
} from "./walk.ts";

/** What was written, and the paths that a tar cannot hold: names and targets that are no UTF-8. */
export type Tarred = { readonly entryCount: number; readonly left: readonly string[] };

/** What came of a tar; `left`: what it has that no snapshot keeps. */
export type Untarred = Tarred & { readonly id: SnapshotId };

/**
 * Writes what a snapshot holds as a tar, each directory before what is in it, with mtimes to the microsecond
 * in PAX records. `out` is ended. Faults: those of the source, and of writing (`io`).
 */
export async function writeTar(
  source: ObjectSource,
  id: SnapshotId,
  out: Writable,
  signal?: AbortSignal,
): Promise<Result<Tarred>> {
  return orFault("the tar", async () => {
    const { readable, controller } = createTarPacker();
    const work = new Packing(source, controller, signal);
    const packed = work.directory(rootOf(id), "", 0).then(
      () => controller.finalize(),
      (error: unknown) => {
        controller.error(error);
        throw error;
      },
    );
    // Its types are the browser's; the streams are the same.
    const from = Reading.fromWeb(readable as Parameters<typeof Reading.fromWeb>[0]);
    const [packing, writing] = await Promise.allSettled([packed, pipeline(from, out, { signal })]);
    if (packing.status === "rejected") throw packing.reason;
    if (writing.status === "rejected") throw writing.reason;
    return ok({ entryCount: work.entryCount, left: work.left });
  });
}

type Controller = ReturnType<typeof createTarPacker>["controller"];

class Packing {
  entryCount = 0;
  readonly left: string[] = [];
  readonly #source: ObjectSource;
  readonly #controller: Controller;
  readonly #signal: AbortSignal | undefined;

  constructor(source: ObjectSource, controller: Controller, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#controller = controller;
    this.#signal = signal;
  }

  async directory(digest: Digest, prefix: ByteName, depth: number): Promise<void> {
    if (depth > DEPTH_LIMIT) halt(fault("limit", "the snapshot is too deep", textOf(prefix)));
    const entries = must(await readListing(this.#source, digest, this.#signal));
    for (const entry of entries) {
      this.#signal?.throwIfAborted();
      await this.#entry(entry, prefix + entry.name, depth);
    }
  }

  async #entry(entry: Entry, path: ByteName, depth: number): Promise<void> {
    const target = entry.kind === "symlink" ? entry.target : "";
    if (entry.kind === "skipped" || !isText(path) || !isText(target)) {
      this.left.push(textOf(path));
      return;
    }
    this.entryCount += 1;
    const of = {
      mtime: new Date(entry.mtimeUs / 1000),
      pax: { mtime: (entry.mtimeUs / 1e6).toFixed(6) },
    };
    if (entry.kind === "symlink") {
      const header = { ...of, name: textOf(path), type: "symlink", size: 0 } as const;
      await this.#controller.add({ ...header, linkname: textOf(target) }).close();
      return;
    }
    if (entry.kind === "directory") {
      const { mode, digest } = entry;
      const name = `${textOf(path)}/`;
      await this.#controller.add({ ...of, name, type: "directory", mode, size: 0 }).close();
      return this.directory(digest, `${path}/`, depth + 1);
    }
    const { mode, sizeBytes: size } = entry;
    const header = { ...of, name: textOf(path), type: "file", mode, size } as const;
    const writer = this.#controller.add(header).getWriter();
    for await (const part of this.#content(entry)) await writer.write(part);
    await writer.close();
  }

  async *#content(entry: Extract<Entry, { kind: "file" }>): AsyncGenerator<Uint8Array> {
    const { digest, sizeBytes } = entry;
    if (sizeBytes === 0) return;
    if (!isChunked(entry)) {
      yield must(await this.#source.read(digest, this.#signal));
      return;
    }
    const list = must(await this.#source.read(digest, this.#signal));
    const chunks = must(decodeChunks(list, sizeBytes, digest));
    for (const [nth, chunk] of chunks.entries()) {
      const length = Math.min(OBJECT_BYTES, sizeBytes - nth * OBJECT_BYTES);
      if (chunk === null) yield new Uint8Array(length);
      else yield must(await this.#source.read(chunk, this.#signal));
    }
  }
}

/** What Linux's file systems hold of a name, and of a symlink's target. */
const NAME_BYTES = 255;
const TARGET_BYTES = 4095;

export type TarOptions = { readonly limits: TreeLimits; readonly nowMs: number };

/**
 * Makes a snapshot of what a tar holds, without writing any of it to a directory. Names that lead out of
 * it are refused; what comes twice is what it was last; hard links are equal files; devices and the like, and
 * names and targets that no directory can hold, are left out. Faults: `corrupt` for what is no tar, `limit`, and those of the blobs.
 */
export async function readTar(
  objects: Objects,
  from: Readable,
  { limits, nowMs }: TarOptions,
  signal?: AbortSignal,
): Promise<Result<Untarred>> {
  return orFault("the tar", async () => {
    const writer = new PackWriter(objects, nowMs, signal);
    const work = new Unpacking(writer, limits);
    const decoder = createTarDecoder({ strict: true });
    const web = Reading.toWeb(from) as unknown as ReadableStream<Uint8Array>;
    const entries = web.pipeThrough(decoder);
    try {
      for await (const { header, body } of entries) {
        signal?.throwIfAborted();
        await work.take(header, body);
      }
    } catch (error) {
      if (error instanceof Error && "fault" in error) throw error;
      if (signal?.aborted === true) throw error;
      if (errno(error) !== "") return fail(ioFault("the tar", error as Error));
      const why = error instanceof Error ? error.message : String(error);
      return fail(fault("corrupt", `it cannot be read as a tar: ${why}`));
    }
    const id = snapshotId(work.finish());
    must(await writer.finish());
    return ok({ id, entryCount: work.entryCount, left: work.left });
  });
}

/** A directory of a tar, as far as it was read. */
type Folder = {
  entry: { readonly mode: number; readonly mtimeUs: number };
  readonly nodes: Map<ByteName, Folder | Exclude<Entry, { kind: "directory" | "skipped" }>>;
};

type Header = {
  readonly name: string;
  readonly size: number;
  readonly type?: string;
  readonly mode?: number;
  readonly mtime?: Date;
  readonly linkname?: string;
  readonly pax?: Readonly<Record<string, string>>;
};

class Unpacking {
  entryCount = 0;
  readonly left: string[] = [];
  readonly #writer: PackWriter;
  readonly #limits: TreeLimits;
  readonly #root: Folder = folder();
  #sizeBytes = 0;

  constructor(writer: PackWriter, limits: TreeLimits) {
    this.#writer = writer;
    this.#limits = limits;
  }

  async take(header: Header, body: ReadableStream<Uint8Array>): Promise<void> {
    const path = header.name.replace(/^(\.\/+)+/, "").replace(/\/+$/, "");
    if (path === "" || path === ".") return drain(body);
    if (!isTreePath(path)) {
      halt(fault("corrupt", "a name in the tar leads out of it", header.name));
    }
    this.#count(header);
    const names = bytesOf(path).split("/");
    const isLong =
      header.type === "symlink" && bytesOf(header.linkname ?? "").length > TARGET_BYTES;
    if (isLong || names.some((each) => each.length > NAME_BYTES)) {
      this.left.push(header.name);
      return drain(body);
    }
    const name = names.pop() ?? "";
    const parent = this.#folder(names);
    const mode = (header.mode ?? 0o644) & 0o777;
    const mtimeUs = timeOf(header);
    switch (header.type ?? "file") {
      case "directory": {
        const known = parent.nodes.get(name);
        if (known !== undefined && "nodes" in known) known.entry = { mode, mtimeUs };
        else parent.nodes.set(name, folder({ mode, mtimeUs }));
        return drain(body);
      }
      case "symlink": {
        const target = bytesOf(header.linkname ?? "");
        if (target === "") halt(fault("corrupt", "a symlink names nothing", header.name));
        parent.nodes.set(name, { kind: "symlink", name, mtimeUs, target });
        return drain(body);
      }
      case "link": {
        const other = this.#find(header.linkname ?? "");
        if (other === null) halt(fault("corrupt", "a hard link names no file", header.name));
        parent.nodes.set(name, { ...other, name });
        return drain(body);
      }
      case "file": {
        const digest = await this.#content(header.size, body);
        parent.nodes.set(name, {
          kind: "file",
          name,
          mode,
          mtimeUs,
          sizeBytes: header.size,
          digest,
        });
        return;
      }
      default:
        this.left.push(header.name);
        return drain(body);
    }
  }

  /** The root's digest. */
  finish(): Digest {
    return this.#listing(this.#root);
  }

  #listing({ nodes }: Folder): Digest {
    const entries = [...nodes].map(([name, node]): Entry => {
      if (!("nodes" in node)) return node;
      return { kind: "directory", name, ...node.entry, digest: this.#listing(node) };
    });
    entries.sort((one, other) => (one.name < other.name ? -1 : 1));
    return this.#keep(encodeListing(entries), "listing");
  }

  async #content(sizeBytes: number, body: ReadableStream<Uint8Array>): Promise<Digest> {
    const chunks: (Digest | null)[] = [];
    let digest: Digest = digestOf(new Uint8Array());
    for await (const content of pieces(body)) {
      const isHole = isChunked({ sizeBytes }) && content.every((byte) => byte === 0);
      if (!isHole) digest = this.#keep(content, "content");
      chunks.push(isHole ? null : digest);
      must(await this.#writer.room());
    }
    return isChunked({ sizeBytes }) ? this.#keep(encodeChunks(chunks), "listing") : digest;
  }

  #keep(content: Uint8Array, role: "content" | "listing"): Digest {
    const digest = digestOf(content);
    this.#writer.keep(digest, content, role);
    return digest;
  }

  /** The folder of these names, made where there is none. */
  #folder(names: readonly ByteName[]): Folder {
    if (names.length > DEPTH_LIMIT) halt(fault("limit", "the tar is too deep", names.join("/")));
    let at = this.#root;
    for (const name of names) {
      const known = at.nodes.get(name);
      const next = known !== undefined && "nodes" in known ? known : folder();
      if (next !== known) at.nodes.set(name, next);
      at = next;
    }
    return at;
  }

  #find(path: string): Extract<Entry, { kind: "file" }> | null {
    const names = bytesOf(path.replace(/^(\.\/+)+/, "")).split("/");
    let at: Folder | Entry | undefined = this.#root;
    for (const name of names)
      at = at !== undefined && "nodes" in at ? at.nodes.get(name) : undefined;
    return at !== undefined && "kind" in at && at.kind === "file" ? at : null;
  }

  #count({ name, size }: Header): void {
    this.entryCount += 1;
    this.#sizeBytes += size;
    const { entryCount, sizeBytes } = this.#limits;
    const isFull = this.entryCount > entryCount || this.#sizeBytes > sizeBytes;
    if (!isFull && size <= FILE_LIMIT_BYTES) return;
    halt(
      fault("limit", `the tar has more than ${entryCount} entries, or ${sizeBytes} bytes`, name),
    );
  }
}

function folder(entry: Folder["entry"] = { mode: 0o755, mtimeUs: 0 }): Folder {
  return { entry, nodes: new Map() };
}

/** A body in pieces of OBJECT_BYTES. */
async function* pieces(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    for (let at = 0; at < part.length; ) {
      const taken = part.subarray(at, at + OBJECT_BYTES - length);
      parts.push(taken);
      length += taken.length;
      at += taken.length;
      if (length < OBJECT_BYTES) continue;
      yield Buffer.concat(parts, length);
      parts = [];
      length = 0;
    }
  }
  if (length > 0) yield Buffer.concat(parts, length);
}

async function drain(body: ReadableStream<Uint8Array>): Promise<void> {
  for await (const _ of body);
}

function timeOf({ pax, mtime }: Header): number {
  const seconds = Number(pax?.mtime);
  const us = Number.isFinite(seconds) ? Math.round(seconds * 1e6) : (mtime?.getTime() ?? 0) * 1000;
  return Number.isSafeInteger(us) ? us : 0;
}

function isText(name: ByteName): boolean {
  return isUtf8(Buffer.from(name, "latin1"));
}

function must<T>(result: Result<T>): T {
  return result.ok ? result.value : halt(result.fault);
}
