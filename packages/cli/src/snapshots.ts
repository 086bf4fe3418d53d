import { mkdirSync } from "node:fs";
import { ok, type Result } from "@dev/protocol";
import {
  directoryBlobs,
  Objects,
  type Restored,
  restoreSnapshot,
  type ScanProgress,
  type SnapshotId,
  StatCache,
  type TakenSnapshot,
  TREE_LIMITS,
  takeSnapshot,
} from "@dev/workspace";
import { countText } from "./figure.ts";
import { holderName, isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";

/** How often progress is told, in files; and how long work lasts before any is told. */
const TELL_EVERY = 500;
const TELL_AFTER_MS = 1_000;

export type Tell = (text: string) => void;

/** The snapshots of all sessions on this machine, opened when they are first needed. */
export class Snapshots {
  readonly #home: Home;
  readonly #nowMs: () => number;
  readonly #caches = new Map<string, StatCache>();
  #objects: Objects | null = null;

  constructor(home: Home, nowMs: () => number) {
    this.#home = home;
    this.#nowMs = nowMs;
  }

  /** The store of objects. Faults: `io`, `corrupt`, `newer_version`. */
  async objects(): Promise<Result<Objects>> {
    if (this.#objects !== null) return ok(this.#objects);
    const opened = await Objects.open(directoryBlobs(this.#home.snapshots));
    if (opened.ok) this.#objects = opened.value;
    return opened;
  }

  /** Takes a snapshot of a tree; `seen` is the file that remembers what it held. */
  async take(tree: string, seen: string, tell: Tell): Promise<Result<TakenSnapshot>> {
    const objects = await this.objects();
    if (!objects.ok) return objects;
    const onProgress = this.#teller("taking a snapshot", tell);
    const options = { ...LOOKING, cache: this.#cache(seen), onProgress, nowMs: this.#nowMs() };
    return takeSnapshot(objects.value, tree, options);
  }

  /** Makes a directory, which is made where there is none, hold what a snapshot does. */
  async restore(id: SnapshotId, tree: string, seen: string, tell: Tell): Promise<Result<Restored>> {
    const objects = await this.objects();
    if (!objects.ok) return objects;
    mkdirSync(tree, { recursive: true, mode: 0o700 });
    const onProgress = this.#teller("restoring the workspace", tell);
    const who = { holder: holderName(), isAlive: isHolderAlive };
    const options = { ...LOOKING, ...who, cache: this.#cache(seen), onProgress };
    return restoreSnapshot(objects.value, id, tree, options);
  }

  #cache(path: string): StatCache {
    const known = this.#caches.get(path) ?? new StatCache(path);
    this.#caches.set(path, known);
    return known;
  }

  #teller(what: string, tell: Tell): (progress: ScanProgress) => void {
    const beganMs = this.#nowMs();
    return ({ entryCount }) => {
      if (entryCount % TELL_EVERY !== 0 || this.#nowMs() - beganMs < TELL_AFTER_MS) return;
      tell(`${what}: ${countText(entryCount, "file")}`);
    };
  }
}

const LOOKING = { limits: TREE_LIMITS };
