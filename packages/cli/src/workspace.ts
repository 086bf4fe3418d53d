import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Checkpoint, Session, Store } from "@dev/store";
import {
  changes,
  parseSnapshotId,
  readManifest,
  type Skipped,
  TREE_LIMITS,
  type TreeChange,
  takeTree,
  writeManifest,
} from "@dev/workspace";
import { countText, momentText, sizeText } from "./figure.ts";
import type { Home } from "./home.ts";
import type { Snapshots } from "./snapshots.ts";

/** A session's own workspace: the copy, and what it was when it was taken. */
export type Place = {
  readonly root: string;
  readonly tree: string;
  readonly text: string;
  readonly manifest: string;
  /** What the tree held when it was last looked at. */
  readonly seen: string;
  /** What applies have brought: kept beside, and not in the manifest, which stays as it is. */
  readonly applied: string;
};

export function placeOf(home: Home, session: string): Place {
  const root = join(home.workspaces, session);
  return {
    root,
    tree: join(root, "tree"),
    text: join(root, "base.text"),
    manifest: join(root, "manifest.json"),
    seen: join(root, "seen"),
    applied: join(root, "applied.json"),
  };
}

/**
 * The fault of a session whose own workspace was there, is no more, and has no snapshot that it could be
 * rebuilt from; null where nothing is missing.
 */
export function lostWorkspace(
  session: Session,
  home: Home,
  checkpoints: readonly Checkpoint[],
): Fault | null {
  const { tree } = placeOf(home, session.id);
  if (session.vendor === "local" || existsSync(tree)) return null;
  if (checkpoints.length > 0 && existsSync(home.snapshots)) return null;
  // A cell is remembered only once there is a workspace for it.
  return session.cell === null && checkpoints.length === 0 ? null : goneFault(tree);
}

function goneFault(tree: string): Fault {
  const mend = 'what it had not applied is lost with it; begin a new session: dev exec "…"';
  return fault("gone", "the session's own copy of the directory is gone", tree, mend);
}

/** How often the progress of a copy is told, in files. */
const TELL_EVERY = 500;

/** Whoever is told of a copy: how far it is, and what a person should know of it. */
export type CopyWatch = {
  readonly onProgress: (text: string) => void;
  readonly onNote: (text: string) => void;
};

/** What a workspace is prepared with. */
export type Workshop = {
  readonly home: Home;
  readonly store: Store;
  readonly snapshots: Snapshots;
  readonly watch: CopyWatch;
};

/**
 * Takes a session's workspace from its directory, or finds it taken, or rebuilds it from its newest snapshot
 * where it is lost, or was never here, as a fork's. It appears whole, by a rename, so that a crash in
 * the middle leaves nothing that looks like one.
 */
export async function prepareWorkspace(session: Session, shop: Workshop): Promise<Result<string>> {
  const { home, store, watch } = shop;
  const place = placeOf(home, session.id);
  if (existsSync(place.tree)) return ok(place.tree);
  const checkpoints = await store.checkpoints(session.id);
  if (!checkpoints.ok) return checkpoints;
  const lost = lostWorkspace(session, home, checkpoints.value);
  if (lost !== null) return fail(lost);
  const aside = placeOf(home, `${session.id}.new`);
  rmSync(aside.root, { recursive: true, force: true });
  mkdirSync(aside.root, { recursive: true, mode: 0o700 });
  const made =
    checkpoints.value.length > 0
      ? await rebuild(session, checkpoints.value, aside, shop)
      : await copyInto(session.directory, aside, watch);
  // Its snapshots are gone too.
  if (!made.ok && made.fault.code === "not_found") return fail(goneFault(place.tree));
  if (!made.ok) return made;
  rmSync(place.root, { recursive: true, force: true });
  renameSync(aside.root, place.root);
  if (made.value.length > 0) watch.onNote(leftOut(made.value));
  return ok(place.tree);
}

/** Copies a directory to where a workspace is made; answers what was left out. */
async function copyInto(
  directory: string,
  { tree, text, manifest }: Place,
  watch: CopyWatch,
): Promise<Result<readonly Skipped[]>> {
  const taken = await takeTree(directory, tree, {
    textPath: text,
    limits: TREE_LIMITS,
    onProgress: ({ entryCount, sizeBytes }) => {
      if (entryCount % TELL_EVERY === 0) {
        const sofar = `${countText(entryCount, "file")}, ${sizeText(sizeBytes)}`;
        watch.onProgress(`copying the directory: ${sofar}`);
      }
    },
  });
  if (!taken.ok) return taken;
  const written = await writeManifest(manifest, taken.value.manifest);
  return written.ok ? ok(taken.value.skipped) : written;
}

/** Makes a workspace of what it was when it was taken, and then of what it was last. */
async function rebuild(
  session: Session,
  checkpoints: readonly Checkpoint[],
  aside: Place,
  { home, snapshots, watch }: Workshop,
): Promise<Result<readonly Skipped[]>> {
  const [first, last] = [checkpoints[0], checkpoints.at(-1)];
  const base = parseSnapshotId(first?.workspace ?? "");
  const newest = parseSnapshotId(last?.workspace ?? "");
  if (!base.ok || !newest.ok) return base.ok ? (newest as Result<never>) : base;
  const from = join(aside.root, "base");
  const seen = join(aside.root, "base.seen");
  const restored = await snapshots.restore(base.value, from, seen, watch.onProgress);
  if (!restored.ok) return restored;
  const copied = await copyInto(from, aside, watch);
  if (!copied.ok) return copied;
  rmSync(from, { recursive: true, force: true });
  rmSync(seen, { force: true });
  const brought = await snapshots.restore(newest.value, aside.tree, aside.seen, watch.onProgress);
  if (!brought.ok) return brought;
  const { applied } = placeOf(home, session.id);
  if (existsSync(applied)) copyFileSync(applied, aside.applied);
  watch.onNote(`the workspace was rebuilt from its snapshot of ${momentText(last?.atMs ?? 0)}`);
  return ok([]);
}

/** How many of the entries that a copy leaves out are named. */
const NAMED_LIMIT = 5;

function leftOut(skipped: readonly { readonly path: string }[]): string {
  const paths = skipped.map(({ path }) => path);
  const names = paths.slice(0, NAMED_LIMIT).join(", ") + (paths.length > NAMED_LIMIT ? ", …" : "");
  return `left out of the copy (no files, or not readable): ${names}`;
}

/** How many files a session changed in its own workspace; 0 where it has none. */
export async function changedCount(session: Session["id"], home: Home): Promise<number> {
  const place = placeOf(home, session);
  if (!existsSync(place.tree)) return 0;
  const manifest = await readManifest(place.manifest);
  const found = manifest.ok ? await changes(manifest.value, place.tree) : manifest;
  return found.ok ? found.value.filter(isWork).length : 0;
}

/** Whether a change is one that a person would call so: not a socket that was left, nor git's own business. */
function isWork({ kind, path }: TreeChange): boolean {
  return kind !== "skipped" && !isInGit(path);
}

/** Whether git itself would refuse a patch of this path. */
export function isInGit(path: string): boolean {
  return /(^|\/)\.git(\/|$)/i.test(path);
}
