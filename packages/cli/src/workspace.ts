import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Session } from "@dev/store";
import {
  applyChanges,
  type Base,
  changes,
  readManifest,
  TREE_LIMITS,
  type TreeChange,
  takeTree,
  unifiedDiff,
  writeManifest,
} from "@dev/workspace";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { countText, sizeText } from "./figure.ts";
import { holderName, isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";
import { fallen, find } from "./run.ts";
import { onOneLine } from "./say.ts";
import type { Terminal } from "./terminal.ts";

/** A session's own workspace: the copy, and what it was when it was taken. */
type Place = {
  readonly root: string;
  readonly tree: string;
  readonly text: string;
  readonly manifest: string;
  /** What applies have brought: kept beside, and not in the manifest, which stays as it is. */
  readonly applied: string;
};

function placeOf(home: Home, session: string): Place {
  const root = join(home.workspaces, session);
  return {
    root,
    tree: join(root, "tree"),
    text: join(root, "base.text"),
    manifest: join(root, "manifest.json"),
    applied: join(root, "applied.json"),
  };
}

/** The fault of a session whose own workspace was there and is no more; null where none is missing. */
export function lostWorkspace(session: Session, home: Home): Fault | null {
  const { tree } = placeOf(home, session.id);
  // A cell is remembered only once there is a workspace for it.
  if (session.vendor === "local" || session.cell === null || existsSync(tree)) return null;
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

/**
 * Takes a session's workspace from its directory, or finds it taken. It appears whole, by a rename, so
 * that a crash in the middle leaves nothing that looks like one.
 */
export async function prepareWorkspace(
  session: Session,
  home: Home,
  watch: CopyWatch,
): Promise<Result<string>> {
  const place = placeOf(home, session.id);
  if (existsSync(place.tree)) return ok(place.tree);
  const lost = lostWorkspace(session, home);
  if (lost !== null) return fail(lost);
  const aside = placeOf(home, `${session.id}.new`);
  rmSync(aside.root, { recursive: true, force: true });
  mkdirSync(aside.root, { recursive: true, mode: 0o700 });
  const taken = await takeTree(session.directory, aside.tree, {
    textPath: aside.text,
    limits: TREE_LIMITS,
    onProgress: ({ entryCount, sizeBytes }) => {
      if (entryCount % TELL_EVERY === 0) {
        const sofar = `${countText(entryCount, "file")}, ${sizeText(sizeBytes)}`;
        watch.onProgress(`copying the directory: ${sofar}`);
      }
    },
  });
  if (!taken.ok) return taken;
  const written = await writeManifest(aside.manifest, taken.value.manifest);
  if (!written.ok) return written;
  renameSync(aside.root, place.root);
  if (taken.value.skipped.length > 0) watch.onNote(leftOut(taken.value.skipped));
  return ok(place.tree);
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
function isInGit(path: string): boolean {
  return /(^|\/)\.git(\/|$)/i.test(path);
}

type Look = {
  readonly session: Session;
  readonly place: Place;
  readonly base: Base;
  readonly found: readonly TreeChange[];
};

/** What a session changed in its own workspace. Faults: `usage`, it has none; `gone`, it had one. */
async function look(id: string, home: Home): Promise<Result<Look>> {
  const opened = await find(id, home);
  if (!opened.ok) return opened;
  const { session, store } = opened.value;
  store.close();
  const place = placeOf(home, session.id);
  if (session.vendor === "local") {
    const mend = "it worked in your directory, in place: see `git diff` there";
    return fail(fault("usage", "the session has no workspace of its own", session.id, mend));
  }
  const lost = lostWorkspace(session, home);
  if (lost !== null) return fail(lost);
  if (!existsSync(place.tree)) {
    return fail(
      fault("usage", "the session has changed nothing: it never used its cell", session.id),
    );
  }
  const manifest = await readManifest(place.manifest);
  if (!manifest.ok) return manifest;
  const found = await changes(manifest.value, place.tree);
  if (!found.ok) return found;
  const base = { manifest: manifest.value, textPath: place.text };
  return ok({ session, place, base, found: found.value });
}

/** `dev diff`: what a session changed, as a text that `git apply` takes. */
export async function diff(
  command: Extract<Command, { kind: "diff" | "apply" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const looked = await look(command.id, home);
  if (!looked.ok) return fallen(terminal.watch(command.json), looked);
  const { found, base, place } = looked.value;
  if (command.json) {
    for (const { kind, path } of found) terminal.print(`${JSON.stringify({ kind, path })}\n`);
    return EXIT.complete;
  }
  const shown = found.filter(({ path }) => !isInGit(path));
  const text = await unifiedDiff(shown, base, place.tree);
  if (!text.ok) return fallen(terminal.watch(command.json), text);
  terminal.print(text.value);
  if (found.length === 0) terminal.complain("dev: nothing has changed\n");
  const left = found.length - shown.length;
  if (left > 0) terminal.complain(`dev: not shown: ${countText(left, "change")} inside .git\n`);
  return EXIT.complete;
}

/** `dev apply`: brings what a session changed into the directory that it was taken from. */
export async function apply(
  command: Extract<Command, { kind: "diff" | "apply" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const looked = await look(command.id, home);
  if (!looked.ok) return fallen(terminal.watch(command.json), looked);
  const { found, base, place, session } = looked.value;
  const applied = await applyChanges(found, {
    base: base.manifest,
    tree: place.tree,
    target: session.directory,
    record: place.applied,
    holder: holderName(),
    isAlive: isHolderAlive,
  });
  if (!applied.ok) return fallen(terminal.watch(command.json), applied);
  const { written, held, indexes, kept, skipped } = applied.value;
  if (command.json) {
    terminal.print(`${JSON.stringify(applied.value)}\n`);
    return EXIT.complete;
  }
  const list = (paths: readonly string[], note: string): void => {
    for (const path of paths) terminal.complain(`${onOneLine(path)}: ${note}\n`);
  };
  const shown = written.filter((path) => !isInGit(path));
  terminal.print(shown.map((path) => `${onOneLine(path)}\n`).join(""));
  const inGit = written.length - shown.length;
  const besides = inGit === 0 ? "" : `, and ${countText(inGit, "file")} inside .git`;
  const what =
    written.length === 0 ? "nothing to apply" : `${countText(shown.length, "file")} applied`;
  terminal.complain(`${what}${besides}\n`);
  list(held, "left out: it steers what your own git does");
  list(indexes, "left out: your own git has written it since; `git reset` makes it fit the commit");
  list(kept, "left: it holds something that the session did not have");
  list(skipped, "left out: it is no file");
  if (held.length + kept.length > 0) terminal.complain(`the session's copy is ${place.tree}\n`);
  return EXIT.complete;
}
