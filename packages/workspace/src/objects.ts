import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { type Blobs, type ByteRange, listAll } from "./blobs.ts";
import { digestOf } from "./content.ts";
import {
  decodeIndex,
  encodeIndex,
  type Loose,
  layPack,
  PACK_BYTES,
  type PackedObject,
  type PackIndex,
  unpack,
} from "./pack.ts";

/** Objects by their digests; who takes a snapshot keeps them in one, and who restores it reads it. */
export type ObjectSource = {
  /** Verified. Faults: `not_found`, `corrupt`, and whatever the source itself meets. */
  readonly read: (digest: Digest, signal?: AbortSignal) => Promise<Result<Uint8Array>>;
};

/** A pack as it is known: what is in it, whether it is about to go, and whether it is gone. */
export type Pack = {
  readonly name: string;
  readonly index: PackIndex;
  readonly isCondemned: boolean;
  /** Its index is there, and it is not: somebody removed it who should not have. */
  readonly isLost: boolean;
};

function stays({ isCondemned, isLost }: Pack): boolean {
  return !isCondemned && !isLost;
}

/** How much of a pack is read at once, and how many such pieces are kept. */
const WINDOW_BYTES = 2 * 1024 * 1024;
const WINDOW_COUNT = 16;
/** Indexes read at a time. */
const INDEX_COUNT = 8;

/**
 * All objects of a store of blobs: append-only packs, each with an index that makes it known. A pack is
 * written before its index, and what an object names before the object: so what can be found is whole,
 * wherever a writer was killed. Several may write at once.
 */
export class Objects {
  readonly #blobs: Blobs;
  readonly #packs = new Map<string, Pack>();
  #places = new Map<Digest, { readonly object: PackedObject; readonly pack: Pack }>();
  /** The last pieces read, the newest at the end. */
  readonly #windows = new Map<string, Uint8Array>();

  private constructor(blobs: Blobs) {
    this.#blobs = blobs;
  }

  /** Reads every index. Faults: those of the blobs, `corrupt`, `newer_version`. */
  static async open(blobs: Blobs, signal?: AbortSignal): Promise<Result<Objects>> {
    const objects = new Objects(blobs);
    const found = await objects.refresh(signal);
    return found.ok ? ok(objects) : found;
  }

  get blobs(): Blobs {
    return this.#blobs;
  }

  /** Every pack, the newest last. */
  packs(): readonly Pack[] {
    return [...this.#packs.values()].sort(byAge);
  }

  /** Learns what others have written, condemned and removed. Faults: as `open`. */
  async refresh(signal?: AbortSignal): Promise<Result<void>> {
    const indexes = await listAll(this.#blobs, "index/", signal);
    if (!indexes.ok) return indexes;
    const marks = await listAll(this.#blobs, "condemned/packs/", signal);
    if (!marks.ok) return marks;
    // After the indexes: a pack is written before its own, so that one that is missing now is lost.
    const contents = await listAll(this.#blobs, "packs/", signal);
    if (!contents.ok) return contents;
    const condemned = new Set(marks.value.map((name) => nameIn(name)));
    const kept = new Set(contents.value.map((name) => nameIn(name)));
    const names = indexes.value.map(nameIn);
    const isSame =
      names.length === this.#packs.size &&
      names.every((name) => {
        const pack = this.#packs.get(name);
        return pack?.isCondemned === condemned.has(name) && pack.isLost !== kept.has(name);
      });
    if (isSame) return ok(undefined);
    const there = new Set(names);
    for (const name of this.#packs.keys()) if (!there.has(name)) this.#packs.delete(name);
    for (let at = 0; at < names.length; at += INDEX_COUNT) {
      const group = names.slice(at, at + INDEX_COUNT);
      const read = await Promise.all(group.map((name) => this.#index(name, signal)));
      for (const [nth, index] of read.entries()) {
        const name = group[nth] ?? "";
        // Removed since it was listed: its objects are in another pack, or nobody's.
        if (!index.ok && index.fault.code === "not_found") this.#packs.delete(name);
        else if (!index.ok) return index;
        else {
          const isCondemned = condemned.has(name);
          const isLost = !kept.has(name);
          this.#packs.set(name, { name, index: index.value, isCondemned, isLost });
        }
      }
    }
    this.#places = new Map();
    for (const pack of this.packs()) this.#place(pack);
    return ok(undefined);
  }

  /** Whether an object is kept, and will be: one in a pack that is about to go, or gone, is written anew. */
  has(digest: Digest): boolean {
    const place = this.#places.get(digest);
    return place !== undefined && stays(place.pack);
  }

  /** Where an object is read from; null where it is not kept. */
  placeOf(digest: Digest): { readonly object: PackedObject; readonly pack: Pack } | null {
    return this.#places.get(digest) ?? null;
  }

  /** One object, verified. Faults: `not_found`, `corrupt`, those of the blobs. */
  async read(digest: Digest, signal?: AbortSignal): Promise<Result<Uint8Array>> {
    const place = this.#places.get(digest);
    if (place === undefined) {
      return fail(fault("not_found", "there is no such object", digest, "name another snapshot"));
    }
    const { object, pack } = place;
    const stored = await this.#stored(pack.name, object, signal);
    if (!stored.ok) return stored;
    return unpack(stored.value, object, `packs/${pack.name}`);
  }

  /**
   * Writes one pack, and makes it known once it is durable. What is kept already is left out. Faults: those
   * of the blobs.
   */
  async write(
    loose: readonly Loose[],
    packing: "raw" | "deflate",
    nowMs: number,
    signal?: AbortSignal,
  ): Promise<Result<void>> {
    if (loose.length === 0) return ok(undefined);
    const { content, index } = await layPack(loose, packing, nowMs);
    const encoded = encodeIndex(index);
    const name = digestOf(encoded);
    const put = await this.#blobs.put(`packs/${name}`, content, signal);
    if (!put.ok) return put;
    const known = await this.#blobs.put(`index/${name}`, encoded, signal);
    if (!known.ok) return known;
    const pack: Pack = { name, index, isCondemned: false, isLost: false };
    this.#packs.set(name, pack);
    this.#place(pack);
    return ok(undefined);
  }

  #place(pack: Pack): void {
    for (const object of pack.index.objects) {
      const before = this.#places.get(object.digest);
      // The newest that stays: every process that looks prefers the same one.
      if (before === undefined || !stays(before.pack) || stays(pack)) {
        this.#places.set(object.digest, { object, pack });
      }
    }
  }

  async #index(name: string, signal: AbortSignal | undefined): Promise<Result<PackIndex>> {
    const known = this.#packs.get(name);
    if (known !== undefined) return ok(known.index);
    const content = await this.#blobs.get(`index/${name}`, null, signal);
    return content.ok ? decodeIndex(content.value, `index/${name}`) : content;
  }

  /** What a pack has of an object: neighbours are read together, since they are wanted together. */
  async #stored(pack: string, { offset, storedBytes }: PackedObject, signal?: AbortSignal) {
    const first = Math.floor(offset / WINDOW_BYTES);
    const last = Math.floor((offset + Math.max(1, storedBytes) - 1) / WINDOW_BYTES);
    const parts: Uint8Array[] = [];
    for (let nth = first; nth <= last; nth++) {
      const window = await this.#window(pack, nth, signal);
      if (!window.ok) return window;
      parts.push(window.value);
    }
    const all = parts.length === 1 ? (parts[0] ?? new Uint8Array()) : Buffer.concat(parts);
    const at = offset - first * WINDOW_BYTES;
    return ok(all.subarray(at, at + storedBytes));
  }

  async #window(pack: string, nth: number, signal?: AbortSignal): Promise<Result<Uint8Array>> {
    const key = `${pack} ${nth}`;
    const known = this.#windows.get(key);
    this.#windows.delete(key);
    let content = known;
    if (content === undefined) {
      const range: ByteRange = { offset: nth * WINDOW_BYTES, length: WINDOW_BYTES };
      const got = await this.#blobs.get(`packs/${pack}`, range, signal);
      if (!got.ok) return got;
      content = got.value;
    }
    this.#windows.set(key, content);
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > WINDOW_COUNT && oldest !== undefined) this.#windows.delete(oldest);
    return ok(content);
  }
}

/** Gathers objects into packs. What belongs to directories goes last, so that it lies together. */
export class PackWriter {
  readonly #objects: Objects;
  readonly #nowMs: number;
  readonly #signal: AbortSignal | undefined;
  #contents: Loose[] = [];
  #contentBytes = 0;
  #listings: Loose[] = [];
  readonly #pending = new Set<Digest>();
  /** The pack that is being written while the next one is gathered. */
  #writing: Promise<Result<void>> = Promise.resolve(ok(undefined));
  #writtenBytes = 0;

  constructor(objects: Objects, nowMs: number, signal?: AbortSignal) {
    this.#objects = objects;
    this.#nowMs = nowMs;
    this.#signal = signal;
  }

  /** Bytes that were not kept before. */
  get writtenBytes(): number {
    return this.#writtenBytes;
  }

  has(digest: Digest): boolean {
    return this.#pending.has(digest) || this.#objects.has(digest);
  }

  /** Takes an object, which must not change from now on. */
  keep(digest: Digest, content: Uint8Array, role: "content" | "listing"): void {
    if (content.length === 0 || this.has(digest)) return;
    this.#pending.add(digest);
    this.#writtenBytes += content.length;
    if (role === "listing") this.#listings.push({ digest, content });
    else {
      this.#contents.push({ digest, content });
      this.#contentBytes += content.length;
    }
  }

  /** Awaited now and then while objects are kept: writes a pack when one is full. */
  async room(): Promise<Result<void>> {
    if (this.#contentBytes < PACK_BYTES) return ok(undefined);
    const before = await this.#writing;
    if (!before.ok) return before;
    const full = this.#contents;
    this.#contents = [];
    this.#contentBytes = 0;
    this.#writing = this.#write(full);
    // Whoever stops before it has ended hears nothing of how it ended.
    this.#writing.catch(() => undefined);
    return ok(undefined);
  }

  /** Writes what is left. All is durable when it resolves. */
  async finish(): Promise<Result<void>> {
    const before = await this.#writing;
    if (!before.ok) return before;
    for (const part of portions([...this.#contents, ...this.#listings])) {
      const written = await this.#write(part);
      if (!written.ok) return written;
    }
    return ok(undefined);
  }

  async #write(loose: readonly Loose[]): Promise<Result<void>> {
    const { packing } = this.#objects.blobs;
    return this.#objects.write(loose, packing, this.#nowMs, this.#signal);
  }
}

/** Objects in packs of at most PACK_BYTES, or of one object. */
export function portions<T extends { readonly content: { readonly length: number } }>(
  loose: readonly T[],
): readonly (readonly T[])[] {
  const parts: T[][] = [];
  let part: T[] = [];
  let sizeBytes = 0;
  for (const each of loose) {
    if (part.length > 0 && sizeBytes + each.content.length > PACK_BYTES) {
      parts.push(part);
      part = [];
      sizeBytes = 0;
    }
    part.push(each);
    sizeBytes += each.content.length;
  }
  if (part.length > 0) parts.push(part);
  return parts;
}

function byAge(one: Pack, other: Pack): number {
  return one.index.madeMs - other.index.madeMs || (one.name < other.name ? -1 : 1);
}

function nameIn(blob: string): string {
  return blob.slice(blob.lastIndexOf("/") + 1);
}
