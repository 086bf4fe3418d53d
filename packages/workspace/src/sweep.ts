import { type Digest, fail, fault, ok, type Result } from "@dev/protocol";
import { type Blobs, listAll } from "./blobs.ts";
import { decodeChunks, isChunked } from "./listing.ts";
import { Objects, type Pack, portions } from "./objects.ts";
import type { Loose } from "./pack.ts";
import { readListing, rootOf, type SnapshotId } from "./snapshot.ts";
import { halt, orFault } from "./walk.ts";

export type SweepOptions = {
  /** Every snapshot that somebody keeps the id of. */
  readonly live: Iterable<SnapshotId>;
  readonly nowMs: number;
  /**
   * How long what nobody needs stays: longer than any snapshot takes to be taken and named. What was
   * taken before it was condemned is named by then, and so is found to be needed after all.
   */
  readonly graceMs: number;
};

export type Swept = {
  readonly snapshotCount: number;
  /** Named, and not there. */
  readonly missing: readonly SnapshotId[];
  readonly objectCount: number;
  /** What all packs hold, and what of it is needed. */
  readonly sizeBytes: number;
  readonly liveBytes: number;
  /** Blobs that are to go once the grace period is over, and those that went now. */
  readonly condemnedCount: number;
  readonly deletedCount: number;
  readonly deletedBytes: number;
  /** Packs whose needed objects were written anew, into fewer. */
  readonly repackedCount: number;
};

export const GRACE_MS: number = 24 * 60 * 60 * 1000;
/** A pack of which less than this is needed is written anew. */
const LIVE_SHARE = 0.5;
/** Packs smaller than this are put together once there are so many. */
const SMALL_BYTES = 1024 * 1024;
const SMALL_COUNT = 64;

/**
 * Removes what no live snapshot needs, in two steps: what is not needed is condemned first, and goes at a
 * sweep after the grace period, if it is not needed then either. Who takes a snapshot meanwhile counts
 * on nothing that is condemned. Stopped anywhere, or run by two at once, it removes nothing that is needed.
 * Faults: those of the blobs; `corrupt`, when a live snapshot cannot be read: then nothing is removed.
 */
export async function sweep(
  blobs: Blobs,
  { live, nowMs, graceMs }: SweepOptions,
  signal?: AbortSignal,
): Promise<Result<Swept>> {
  return orFault("the snapshots", async () => {
    const objects = must(await Objects.open(blobs, signal));
    const mark = new Mark(objects, signal);
    for (const id of live) await mark.snapshot(id);
    const before = objects.packs();
    const repacked = await repack(objects, mark, nowMs - graceMs, nowMs, signal);
    const all = must(await listAll(blobs, "", signal));
    const known = new Set(objects.packs().map(({ name }) => name));
    const needed = mark.packsNeeded();
    const indexed = new Set(
      all.filter((name) => name.startsWith("index/")).map((name) => name.slice(6)),
    );
    const isNeeded = (name: string): boolean => {
      const [folder, pack = ""] = name.split("/");
      if (folder !== "index" && folder !== "packs") return false;
      // An index that came since this sweep looked is not its business yet, nor is the pack.
      return known.has(pack) ? needed.has(pack) : indexed.has(pack);
    };
    const work = { blobs, nowMs, graceMs, signal };
    const swept = await condemn(all, isNeeded, work);
    const sizes = new Map(before.map((pack) => [pack.name, bytesOf(pack)]));
    return ok({
      snapshotCount: mark.snapshotCount,
      missing: mark.missing,
      objectCount: mark.live.size,
      sizeBytes: [...sizes.values()].reduce((sum, each) => sum + each, 0),
      liveBytes: mark.liveBytes(),
      condemnedCount: swept.condemnedCount,
      deletedCount: swept.deleted.length,
      deletedBytes: swept.deleted.reduce((sum, name) => {
        return sum + (name.startsWith("packs/") ? (sizes.get(name.slice(6)) ?? 0) : 0);
      }, 0),
      repackedCount: repacked,
    });
  });
}

/** Finds all that the live snapshots need. */
class Mark {
  readonly live = new Set<Digest>();
  readonly missing: SnapshotId[] = [];
  snapshotCount = 0;
  readonly #objects: Objects;
  readonly #signal: AbortSignal | undefined;

  constructor(objects: Objects, signal: AbortSignal | undefined) {
    this.#objects = objects;
    this.#signal = signal;
  }

  async snapshot(id: SnapshotId): Promise<void> {
    this.snapshotCount += 1;
    if (this.#objects.placeOf(rootOf(id)) === null) this.missing.push(id);
    else await this.#directory(rootOf(id));
  }

  /** The packs that needed objects are read from. */
  packsNeeded(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const digest of this.live) {
      const place = this.#objects.placeOf(digest);
      if (place !== null) names.add(place.pack.name);
    }
    return names;
  }

  liveBytes(): number {
    let sum = 0;
    for (const digest of this.live) sum += this.#objects.placeOf(digest)?.object.storedBytes ?? 0;
    return sum;
  }

  async #directory(digest: Digest): Promise<void> {
    if (this.live.has(digest)) return;
    this.live.add(digest);
    // One that cannot be read may need anything: then nothing may go.
    for (const entry of must(await readListing(this.#objects, digest, this.#signal))) {
      if (entry.kind === "directory") await this.#directory(entry.digest);
      if (entry.kind !== "file" || entry.sizeBytes === 0 || this.live.has(entry.digest)) continue;
      this.live.add(entry.digest);
      if (!isChunked(entry)) continue;
      const list = must(await this.#objects.read(entry.digest, this.#signal));
      const chunks = must(decodeChunks(list, entry.sizeBytes, entry.digest));
      for (const chunk of chunks) if (chunk !== null) this.live.add(chunk);
    }
  }
}

/** Writes anew what is needed of packs that are mostly not, or small; answers how many those were. */
async function repack(
  objects: Objects,
  mark: Mark,
  beforeMs: number,
  nowMs: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  const needed = mark.packsNeeded();
  const old = objects.packs().filter(({ name, index }) => {
    return index.madeMs <= beforeMs && needed.has(name);
  });
  const small = old.filter((pack) => bytesOf(pack) < SMALL_BYTES);
  const chosen = old.filter((pack) => {
    const share = needOf(pack, objects, mark).reduce((sum, each) => sum + each.storedBytes, 0);
    return (
      share < bytesOf(pack) * LIVE_SHARE || (small.length > SMALL_COUNT && small.includes(pack))
    );
  });
  const digests = chosen.flatMap((pack) => needOf(pack, objects, mark).map(({ digest }) => digest));
  const loose: Loose[] = [];
  const sizes = digests.map((digest) => {
    const sizeBytes = objects.placeOf(digest)?.object.sizeBytes ?? 0;
    return { digest, content: { length: sizeBytes } };
  });
  for (const part of portions(sizes)) {
    loose.length = 0;
    for (const { digest } of part) {
      loose.push({ digest, content: must(await objects.read(digest, signal)) });
    }
    // Nobody waits for it here: it is made as small as it can be.
    must(await objects.write(loose, "deflate", nowMs, signal));
  }
  return chosen.length;
}

/** The needed objects that are read from this pack, and not from another that has them too. */
function needOf(pack: Pack, objects: Objects, mark: Mark): Pack["index"]["objects"] {
  return pack.index.objects.filter(({ digest }) => {
    return mark.live.has(digest) && objects.placeOf(digest)?.pack === pack;
  });
}

type SweepWork = {
  readonly blobs: Blobs;
  readonly nowMs: number;
  readonly graceMs: number;
  readonly signal: AbortSignal | undefined;
};

/** Condemns what is not needed, pardons what is, and deletes what was condemned long enough ago. */
async function condemn(
  names: readonly string[],
  isNeeded: (name: string) => boolean,
  { blobs, nowMs, graceMs, signal }: SweepWork,
) {
  const marks = names.filter((name) => name.startsWith(CONDEMNED));
  const marked = new Set(marks);
  const there = new Set(names);
  const deleted: string[] = [];
  let condemnedCount = 0;
  // An index goes before its pack, since it says that the pack is there.
  for (const name of names.filter((each) => !each.startsWith(CONDEMNED)).sort()) {
    const markName = CONDEMNED + name;
    if (isNeeded(name)) {
      if (marked.has(markName)) must(await blobs.delete(markName, signal));
      continue;
    }
    if (!marked.has(markName)) {
      must(await blobs.put(markName, Buffer.from(JSON.stringify({ atMs: nowMs })), signal));
      condemnedCount += 1;
      continue;
    }
    const mark = must(await blobs.get(markName, null, signal));
    if (condemnedMs(mark, markName) > nowMs - graceMs) {
      condemnedCount += 1;
      continue;
    }
    must(await blobs.delete(name, signal));
    must(await blobs.delete(markName, signal));
    deleted.push(name);
  }
  for (const mark of marks) {
    if (!there.has(mark.slice(CONDEMNED.length))) must(await blobs.delete(mark, signal));
  }
  return { condemnedCount, deleted };
}

const CONDEMNED = "condemned/";

function condemnedMs(content: Uint8Array, name: string): number {
  try {
    const { atMs } = JSON.parse(Buffer.from(content).toString());
    if (typeof atMs === "number") return atMs;
  } catch {
    // It is told below.
  }
  return must<number>(fail(fault("corrupt", "not a mark of a sweep", name, "delete this file")));
}

function bytesOf({ index }: Pack): number {
  return index.objects.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
}

/** The value; a fault ends the sweep. */
function must<T>(result: Result<T>): T {
  return result.ok ? result.value : halt(result.fault);
}
