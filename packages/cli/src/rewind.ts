import { copyFileSync, existsSync } from "node:fs";
import { ok, type Result, sessionId } from "@dev/protocol";
import type { Checkpoint, NewSession, Store } from "@dev/store";
import type { Command } from "./args.ts";
import { checkpointOf, type Named, type Own, openOwn } from "./checkpoint.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { countText, momentText } from "./figure.ts";
import { holderName, isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";
import { makeDirectory } from "./home.ts";
import { fallen, find } from "./run.ts";
import { Snapshots } from "./snapshots.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch.ts";
import { placeOf } from "./workspace.ts";
import { randomBytes } from "./world.ts";

/** How much of an id is shown: enough to name it by. */
const SHOWN_DIGITS = 12;

/** `dev rewind`: sets a session's workspace back to a checkpoint, or lists what there is. */
export async function rewind(
  command: Extract<Command, { kind: "rewind" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  if (command.to === null) return list(command.id, command.json, home, terminal);
  const opened = await openOwn(command.id, home, terminal);
  if (!opened.ok) return fallen(watch, opened);
  const { store, session } = opened.value;
  try {
    const to = await checkpointOf(store, session.id, command.to);
    if (!to.ok) return fallen(watch, to);
    const done = await setBack(opened.value, to.value, home, terminal, watch);
    if (!done.ok) return fallen(watch, done);
    const { undo, writtenCount, removedCount } = done.value;
    if (command.json) {
      const { id, number } = to.value;
      terminal.print(`${JSON.stringify({ id, number, undo, writtenCount, removedCount })}\n`);
      return EXIT.complete;
    }
    const written = countText(writtenCount, "file");
    terminal.complain(
      `the workspace is as at ${momentText(to.value.atMs)}: ${written} written, ${removedCount} removed
the conversation goes on as it is: say in your next prompt what you went back to, or see dev help fork
undo: dev rewind ${session.id} ${undo.slice(0, SHOWN_DIGITS)}\n`,
    );
    return EXIT.complete;
  } finally {
    store.close();
  }
}

/** Sets the workspace back while no driver has the session; what it held before can be gone back to. */
async function setBack(
  { session, store, place }: Own,
  to: Named,
  home: Home,
  terminal: Terminal,
  watch: Watch,
) {
  const nowMs = terminal.nowMs();
  const claim = await store.claim(session.id, holderName(), isHolderAlive, nowMs);
  if (!claim.ok) return claim;
  try {
    const row = await store.session(session.id);
    if (!row.ok) return row;
    const snapshots = new Snapshots(home, terminal.nowMs);
    const tell = (text: string): void => watch.note(text);
    const before = await snapshots.take(place.tree, place.seen, tell);
    if (!before.ok) return before;
    const of = { sequence: row.value.sequence, atMs: nowMs, cause: "rewind" } as const;
    const kept = await store.checkpoint(claim.value, { ...of, workspace: before.value.id });
    if (!kept.ok) return kept;
    const restored = await snapshots.restore(to.id, place.tree, place.seen, tell);
    if (!restored.ok) return restored;
    const named = await store.checkpoint(claim.value, { ...of, workspace: to.id });
    return named.ok ? ok({ ...restored.value, undo: before.value.id }) : named;
  } finally {
    await store.release(claim.value);
  }
}

async function list(id: string, json: boolean, home: Home, terminal: Terminal): Promise<ExitCode> {
  const watch = terminal.watch(json);
  const opened = await find(id, home);
  if (!opened.ok) return fallen(watch, opened);
  const { store, session } = opened.value;
  const checkpoints = await store.checkpoints(session.id);
  store.close();
  if (!checkpoints.ok) return fallen(watch, checkpoints);
  for (const each of checkpoints.value) terminal.print(json ? asJson(each) : asLine(each));
  if (checkpoints.value.length === 0 && !json) {
    const why = session.vendor === "local" ? ": it works in your own directory" : " yet";
    terminal.complain(`the session has no checkpoints${why}\n`);
  }
  return EXIT.complete;
}

function asJson({ number, workspace, sequence, atMs, cause }: Checkpoint): string {
  const at = new Date(atMs).toISOString();
  return `${JSON.stringify({ number, id: workspace, sequence, at, cause })}\n`;
}

function asLine({ number, workspace, atMs, cause }: Checkpoint): string {
  const id = workspace.slice(0, SHOWN_DIGITS);
  return `${String(number).padStart(4)}  ${id}  ${momentText(atMs)}  ${cause}\n`;
}

/** `dev fork`: a session that goes on from a checkpoint of another, on a workspace of its own. */
export async function fork(
  command: Extract<Command, { kind: "fork" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const opened = await openOwn(command.id, home, terminal);
  if (!opened.ok) return fallen(watch, opened);
  const { store } = opened.value;
  try {
    const made = await forked(opened.value, command.at, home, terminal);
    if (!made.ok) return fallen(watch, made);
    const { id, number } = made.value;
    if (command.json) terminal.print(`${JSON.stringify({ id, number })}\n`);
    else {
      terminal.print(`${id}\n`);
      terminal.complain(`go on with it: dev resume ${id} "…"\n`);
    }
    return EXIT.complete;
  } finally {
    store.close();
  }
}

async function forked(
  { session, store }: Own,
  word: string | null,
  home: Home,
  terminal: Terminal,
): Promise<Result<{ readonly id: string; readonly number: number }>> {
  const at = await checkpointOf(store, session.id, word ?? (await newest(store, session.id)));
  if (!at.ok) return at;
  const createdMs = terminal.nowMs();
  const id = sessionId(createdMs, randomBytes(terminal));
  const { directory, vendor, model, config } = session;
  const made: NewSession = { id, createdMs, directory, vendor, model, config };
  // What was brought to the directory from the one is there for the other too.
  const [from, to] = [placeOf(home, session.id), placeOf(home, id)];
  if (existsSync(from.applied)) {
    makeDirectory(to.root);
    copyFileSync(from.applied, to.applied);
  }
  const done = await store.fork(session.id, at.value.number, made);
  return done.ok ? ok({ id, number: at.value.number }) : done;
}

/** The number of the newest checkpoint; 0, which none has, where there is none. */
async function newest(store: Store, session: Own["session"]["id"]): Promise<string> {
  const checkpoints = await store.checkpoints(session);
  return checkpoints.ok ? String(checkpoints.value.at(-1)?.number ?? 0) : "0";
}
