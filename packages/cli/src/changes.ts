import { ok, type Result } from "@dev/protocol";
import type { Session } from "@dev/store";
import {
  applyChanges,
  type Base,
  changes,
  compareSnapshots,
  readManifest,
  snapshotDiff,
  type TreeChange,
  unifiedDiff,
} from "@dev/workspace";
import type { Command } from "./args.ts";
import { checkpointOf, openOwn, snapshotOf } from "./checkpoint.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { countText } from "./figure.ts";
import { holderName, isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";
import { fallen } from "./run.ts";
import { onOneLine } from "./say.ts";
import { Snapshots } from "./snapshots.ts";
import type { Terminal } from "./terminal.ts";
import { isInGit, type Place } from "./workspace.ts";

type Look = {
  readonly session: Session;
  readonly place: Place;
  readonly base: Base;
  readonly found: readonly TreeChange[];
};

/** What a session changed in its own workspace. Faults: `usage`, it has none; `gone`, it had one. */
async function look(id: string, home: Home, terminal: Terminal): Promise<Result<Look>> {
  const opened = await openOwn(id, home, terminal);
  if (!opened.ok) return opened;
  const { session, store, place } = opened.value;
  store.close();
  const manifest = await readManifest(place.manifest);
  if (!manifest.ok) return manifest;
  const found = await changes(manifest.value, place.tree);
  if (!found.ok) return found;
  const base = { manifest: manifest.value, textPath: place.text };
  return ok({ session, place, base, found: found.value });
}

/** `dev diff`: what a session changed, as a text that `git apply` takes. */
export async function diff(
  command: Extract<Command, { kind: "diff" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  if (command.from !== null) return diffSnapshots(command, command.from, home, terminal);
  const looked = await look(command.id, home, terminal);
  if (!looked.ok) return fallen(terminal.watch(command.json), looked);
  const { found, base, place } = looked.value;
  const text = (shown: readonly TreeChange[]) => unifiedDiff(shown, base, place.tree);
  return tell(found, text, command.json, terminal);
}

/** What became of a session's workspace between two checkpoints, or from one until now. */
async function diffSnapshots(
  command: Extract<Command, { kind: "diff" }>,
  from: string,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const opened = await openOwn(command.id, home, terminal);
  if (!opened.ok) return fallen(watch, opened);
  const { session, store, place } = opened.value;
  try {
    const snapshots = new Snapshots(home, terminal.nowMs);
    const before = await checkpointOf(store, session.id, from);
    if (!before.ok) return fallen(watch, before);
    const after =
      command.to === null
        ? await snapshotOf(place, snapshots, (text) => watch.note(text))
        : await checkpointOf(store, session.id, command.to);
    if (!after.ok) return fallen(watch, after);
    const objects = await snapshots.objects();
    if (!objects.ok) return fallen(watch, objects);
    const found = await compareSnapshots(objects.value, before.value.id, after.value.id);
    if (!found.ok) return fallen(watch, found);
    const text = (shown: readonly TreeChange[]) => snapshotDiff(objects.value, shown);
    return await tell(found.value, text, command.json, terminal);
  } finally {
    store.close();
  }
}

async function tell(
  found: readonly TreeChange[],
  textOf: (shown: readonly TreeChange[]) => Promise<Result<string>>,
  json: boolean,
  terminal: Terminal,
): Promise<ExitCode> {
  if (json) {
    for (const { kind, path } of found) terminal.print(`${JSON.stringify({ kind, path })}\n`);
    return EXIT.complete;
  }
  const shown = found.filter(({ path }) => !isInGit(path));
  const text = await textOf(shown);
  if (!text.ok) return fallen(terminal.watch(json), text);
  terminal.print(text.value);
  if (found.length === 0) terminal.complain("dev: nothing has changed\n");
  const left = found.length - shown.length;
  if (left > 0) terminal.complain(`dev: not shown: ${countText(left, "change")} inside .git\n`);
  return EXIT.complete;
}

/** `dev apply`: brings what a session changed into the directory that it was taken from. */
export async function apply(
  command: Extract<Command, { kind: "apply" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const looked = await look(command.id, home, terminal);
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
