import type { Duplex } from "node:stream";
import { type Digest, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { digestOf } from "./content.ts";
import { decodeChunks, decodeListing, type Entry, isChunked } from "./listing.ts";
import type { ObjectSource } from "./objects.ts";
import { OBJECT_LIMIT_BYTES } from "./pack.ts";
import { type Restored, type RestoreOptions, restoreOnto } from "./restore.ts";
import { scanTree } from "./scan.ts";
import { TreeObjects } from "./send.ts";
import { snapshotId } from "./snapshot.ts";
import { closeDir, DEPTH_LIMIT, type Dir, openTree, orFault } from "./walk.ts";
import { garbled, WANT_LIMIT, Wire } from "./wire.ts";

/** What a receiver did, and what came across for it. */
export type Received = Restored & { readonly receivedBytes: number };

/** Content that is asked for before it is needed, in objects of at most OBJECT_BYTES each. */
const WINDOW_COUNT = 64;
/** What the listings of a tree may come to, together. */
const LISTING_LIMIT_BYTES = 256 * 1024 * 1024;

/**
 * Makes a directory hold what a `sendTree` at the other end of a stream sends: it is looked at, and what
 * it lacks is asked for, each object once. As with `restoreSnapshot`, each file is wholly as it was
 * or wholly new, whenever the stream is cut, and doing it again finishes it. The other end is not
 * trusted: what is not what was asked for, or leads out of the directory, is refused. The stream stays
 * open. Faults: those of `restoreSnapshot`, `link_lost`, `silent`, and those of the other end.
 */
export async function receiveTree(
  directory: string,
  stream: Duplex,
  options: RestoreOptions,
  signal?: AbortSignal,
): Promise<Result<Received>> {
  const wire = new Wire(stream, signal);
  try {
    const received = await orFault(directory, async () => {
      const root = openTree(directory);
      try {
        return await receive(directory, root, wire, options, signal);
      } finally {
        closeDir(root);
      }
    });
    if (!received.ok && received.fault.code !== "link_lost") {
      await wire.send({ kind: "fault", fault: received.fault });
    }
    return received;
  } finally {
    wire.close();
  }
}

async function receive(
  directory: string,
  root: Dir,
  wire: Wire,
  options: RestoreOptions,
  signal: AbortSignal | undefined,
): Promise<Result<Received>> {
  const own = new TreeObjects();
  const scan = await scanTree(directory, own.keeper(), options, signal);
  if (!scan.ok) return scan;
  const said = await wire.next();
  if (!said.ok) return said;
  if (said.value.kind === "fault") return fail(said.value.fault);
  if (said.value.kind !== "root") return fail(garbled(`a ${said.value.kind} out of turn`));
  const { digest } = said.value;
  const far = new Far(wire, own, root, options);
  const known = await far.learn(digest);
  if (!known.ok) return known;
  const source: ObjectSource = { read: (wanted) => far.read(wanted) };
  const noting = {
    ...options,
    onPlaced: (placed: Digest, path: string) => own.note(placed, { path, offset: 0 }),
    onRemoved: (path: string, to: string) => own.move(path, to),
  };
  const restored = await restoreOnto(
    scan.value,
    source,
    snapshotId(digest),
    directory,
    noting,
    signal,
  );
  if (!restored.ok) return restored;
  const told = await wire.send({ kind: "done", digest });
  if (!told.ok) return told;
  return ok({ ...restored.value, receivedBytes: far.receivedBytes });
}

/** The other end's objects, of which as few as can be are asked for. */
class Far {
  readonly #wire: Wire;
  readonly #own: TreeObjects;
  readonly #root: Dir;
  readonly #options: RestoreOptions;
  /** Listings and lists of chunks; they are all asked for first. */
  readonly #listings = new Map<Digest, Uint8Array>();
  #listingBytes = 0;
  /** Content that is lacked, in the order in which it will be read. */
  readonly #queue: Digest[] = [];
  #next = 0;
  /** Asked for, and not yet here; the answers come in this order. */
  readonly #asked: Digest[] = [];
  readonly #here = new Map<Digest, Uint8Array>();
  #entryCount = 0;
  receivedBytes = 0;

  constructor(wire: Wire, own: TreeObjects, root: Dir, options: RestoreOptions) {
    this.#wire = wire;
    this.#own = own;
    this.#root = root;
    this.#options = options;
  }

  /** Asks for all listings, a level of the tree at a time, and notes what content is lacked. */
  async learn(root: Digest): Promise<Result<void>> {
    let level: ReadonlySet<Digest> = new Set([root]);
    const lists = new Map<Digest, number>();
    for (let depth = 0; level.size > 0; depth++) {
      if (depth > DEPTH_LIMIT) return fail(fault("limit", "the other end's tree is too deep"));
      const fetched = await this.#fetch([...level]);
      if (!fetched.ok) return fetched;
      const below = new Set<Digest>();
      for (const digest of level) {
        const entries = this.#entries(digest);
        if (!entries.ok) return entries;
        this.#entryCount += entries.value.length;
        if (this.#entryCount > this.#options.limits.entryCount) {
          return fail(fault("limit", "the other end's tree has too many entries"));
        }
        for (const entry of entries.value) {
          if (entry.kind === "directory" && !this.#listings.has(entry.digest)) {
            below.add(entry.digest);
          } else if (entry.kind === "file" && isChunked(entry)) {
            lists.set(entry.digest, entry.sizeBytes);
          }
        }
      }
      level = below;
    }
    const fetched = await this.#fetch([...lists.keys()]);
    if (!fetched.ok) return fetched;
    return this.#plan(root, { entryCount: 0, seen: new Set() }, 0);
  }

  /** An object for the restore: from here where it is here, else from the other end. */
  async read(digest: Digest): Promise<Result<Uint8Array>> {
    const listing = this.#listings.get(digest);
    if (listing !== undefined) return ok(listing);
    const own = this.#own.read(this.#root, digest);
    if (own !== null) return ok(own);
    for (;;) {
      const content = this.#here.get(digest);
      if (content !== undefined) {
        this.#here.delete(digest);
        return ok(content);
      }
      const asked = await this.#ask(digest);
      if (!asked.ok) return asked;
      const taken = await this.#take();
      if (!taken.ok) return taken;
      this.#here.set(taken.value.digest, taken.value.content);
    }
  }

  /** Asks ahead for what comes next, and for this one in any case. */
  async #ask(digest: Digest): Promise<Result<void>> {
    const wanted: Digest[] = [];
    while (
      this.#next < this.#queue.length &&
      this.#asked.length + this.#here.size + wanted.length < WINDOW_COUNT
    ) {
      const next = this.#queue[this.#next++];
      // It may have been asked for out of turn.
      if (next !== undefined && !this.#asked.includes(next) && !this.#here.has(next)) {
        wanted.push(next);
      }
    }
    if (!wanted.includes(digest) && !this.#asked.includes(digest)) wanted.push(digest);
    if (wanted.length === 0) return ok(undefined);
    this.#asked.push(...wanted);
    return this.#wire.send({ kind: "want", digests: wanted });
  }

  /** The answer to the oldest thing that was asked for. */
  async #take(): Promise<Result<{ readonly digest: Digest; readonly content: Uint8Array }>> {
    const digest = this.#asked.shift();
    const said = await this.#wire.next();
    if (!said.ok) return said;
    const frame = said.value;
    if (frame.kind === "fault") return fail(frame.fault);
    if (frame.kind === "lack" && frame.digest === digest) return fail(lackFault(digest));
    if (frame.kind !== "object") return fail(garbled(`a ${frame.kind} out of turn`));
    if (frame.digest !== digest) return fail(garbled("an object that was not asked for"));
    if (digestOf(frame.content) !== digest) return fail(garbled("an object is not what it should"));
    this.receivedBytes += frame.content.length;
    if (this.receivedBytes > this.#options.limits.sizeBytes + LISTING_LIMIT_BYTES) {
      return fail(fault("limit", "the other end's tree is too large"));
    }
    return ok({ digest, content: frame.content });
  }

  /** Asks for listings that are not here, and waits for them. */
  async #fetch(digests: readonly Digest[]): Promise<Result<void>> {
    const lacked: Digest[] = [];
    for (const digest of digests) {
      const own = this.#own.listings.get(digest);
      if (own === undefined) lacked.push(digest);
      else this.#listings.set(digest, own);
    }
    for (let at = 0; at < lacked.length; at += WANT_LIMIT) {
      const part = lacked.slice(at, at + WANT_LIMIT);
      this.#asked.push(...part);
      const sent = await this.#wire.send({ kind: "want", digests: part });
      if (!sent.ok) return sent;
      while (this.#asked.length > 0) {
        const taken = await this.#take();
        if (!taken.ok) return taken;
        const { digest, content } = taken.value;
        this.#listingBytes += content.length;
        if (content.length > OBJECT_LIMIT_BYTES || this.#listingBytes > LISTING_LIMIT_BYTES) {
          return fail(fault("limit", "the other end's directories are too large"));
        }
        this.#listings.set(digest, content);
      }
    }
    return ok(undefined);
  }

  /** Lists the content that is lacked, in the order of a restore. */
  #plan(
    listing: Digest,
    count: { entryCount: number; readonly seen: Set<Digest> },
    depth: number,
  ): Result<void> {
    // By way of another directory one may lie deeper than where it was first met.
    if (depth > DEPTH_LIMIT) return fail(fault("limit", "the other end's tree is too deep"));
    const entries = this.#entries(listing);
    if (!entries.ok) return entries;
    for (const entry of entries.value) {
      // A few listings that name each other many times stand for a tree without end.
      count.entryCount += 1;
      if (count.entryCount > this.#options.limits.entryCount) {
        return fail(fault("limit", "the other end's tree has too many entries"));
      }
      if (entry.kind === "directory") {
        const inner = this.#plan(entry.digest, count, depth + 1);
        if (!inner.ok) return inner;
      }
      if (entry.kind !== "file" || entry.sizeBytes === 0) continue;
      const contents = this.#contents(entry);
      if (!contents.ok) return contents;
      for (const content of contents.value) {
        if (content === null || count.seen.has(content) || this.#own.has(content)) continue;
        count.seen.add(content);
        this.#queue.push(content);
      }
    }
    return ok(undefined);
  }

  #contents(entry: Extract<Entry, { kind: "file" }>): Result<readonly (Digest | null)[]> {
    if (!isChunked(entry)) return ok([entry.digest]);
    const list = this.#listings.get(entry.digest);
    if (list === undefined) return fail(garbled("a list of chunks is missing"));
    return decodeChunks(list, entry.sizeBytes, entry.digest);
  }

  #entries(digest: Digest): Result<readonly Entry[]> {
    const content = this.#listings.get(digest);
    if (content === undefined) return fail(garbled("a directory is missing"));
    return decodeListing(content, digest);
  }
}

function lackFault(digest: Digest | undefined): Fault {
  const message = "a file changed at the other end while it was sent";
  return fault("changed", message, digest ?? "", "do it again");
}
