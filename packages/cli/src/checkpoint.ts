import { existsSync } from "node:fs";
import { fail, fault, ok, type Result, type SessionId } from "@dev/protocol";
import type { Checkpoint, Session, Store } from "@dev/store";
import { parseSnapshotId, type SnapshotId } from "@dev/workspace";
import type { Home } from "./home.ts";
import { find } from "./run.ts";
import { Snapshots, type Tell } from "./snapshots.ts";
import type { Terminal } from "./terminal.ts";
import { type Place, placeOf, prepareWorkspace } from "./workspace.ts";

/** A session with a workspace of its own, which is here. */
export type Own = { readonly session: Session; readonly store: Store; readonly place: Place };

/** The least of an id that is taken for one: shorter words are numbers of checkpoints. */
const ID_LEAST_DIGITS = 8;

/**
 * Finds a session that has a workspace of its own, and rebuilds that where it is lost. Faults: `usage`, it
 * has none; `gone`, it is lost for good.
 */
export async function openOwn(id: string, home: Home, terminal: Terminal): Promise<Result<Own>> {
  const opened = await find(id, home);
  if (!opened.ok) return opened;
  const { session, store } = opened.value;
  const prepared = await prepareOwn(session, store, home, terminal);
  if (prepared.ok) return ok({ session, store, place: prepared.value });
  store.close();
  return prepared;
}

async function prepareOwn(
  session: Session,
  store: Store,
  home: Home,
  terminal: Terminal,
): Promise<Result<Place>> {
  const place = placeOf(home, session.id);
  if (session.vendor === "local") {
    const mend = "it worked in your directory, in place: see `git diff` there";
    return fail(fault("usage", "the session has no workspace of its own", session.id, mend));
  }
  if (existsSync(place.tree)) return ok(place);
  const checkpoints = await store.checkpoints(session.id);
  if (!checkpoints.ok) return checkpoints;
  if (session.cell === null && checkpoints.value.length === 0) {
    const message = "the session has changed nothing: it never used its cell";
    return fail(fault("usage", message, session.id));
  }
  const say = (text: string): void => terminal.complain(`${text}\n`);
  const snapshots = new Snapshots(home, terminal.nowMs);
  const watch = { onProgress: say, onNote: say };
  const prepared = await prepareWorkspace(session, { home, store, snapshots, watch });
  return prepared.ok ? ok(place) : prepared;
}

/** The snapshot of what the workspace holds now. */
export async function snapshotOf(
  place: Place,
  snapshots: Snapshots,
  tell: Tell,
): Promise<Result<{ readonly id: SnapshotId }>> {
  return snapshots.take(place.tree, place.seen, tell);
}

/** A checkpoint, with its snapshot's id as one. */
export type Named = Checkpoint & { readonly id: SnapshotId };

/**
 * The checkpoint that a person means by a number, or by the beginning of a snapshot's id. Faults: `usage`
 * for a word that is neither, or that several ids begin with; `not_found`.
 */
export async function checkpointOf(
  store: Store,
  session: SessionId,
  word: string,
): Promise<Result<Named>> {
  const checkpoints = await store.checkpoints(session);
  if (!checkpoints.ok) return checkpoints;
  const isNumber = /^\d+$/.test(word) && word.length < ID_LEAST_DIGITS;
  const list = `dev rewind ${session} --list`;
  if (!isNumber && !new RegExp(`^[0-9a-f]{${ID_LEAST_DIGITS},64}$`).test(word)) {
    const message = `not a checkpoint's number, nor ${ID_LEAST_DIGITS} digits or more of a snapshot's id`;
    return fail(fault("usage", message, word, list));
  }
  const found = checkpoints.value.filter(({ number, workspace }) =>
    isNumber ? number === Number(word) : workspace.startsWith(word),
  );
  const last = found.at(-1);
  if (last === undefined) {
    return fail(fault("not_found", "the session has no such checkpoint", word, list));
  }
  if (new Set(found.map(({ workspace }) => workspace)).size > 1) {
    return fail(fault("usage", "several ids begin so", word, list));
  }
  const id = parseSnapshotId(last.workspace);
  return id.ok ? ok({ ...last, id: id.value }) : id;
}
