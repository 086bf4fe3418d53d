import { createReadStream, createWriteStream, renameSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { fail, ok, type Result, type SessionId, sessionId } from "@dev/protocol";
import type { Store } from "@dev/store";
import { type SnapshotId, TREE_LIMITS } from "@dev/workspace";
import { readTar, type Tarred, writeTar } from "@dev/workspace/tar";
import type { ExportCommand, ImportCommand } from "./args.ts";
import { checkpointOf, type Own, openOwn, snapshotOf } from "./checkpoint.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { countText } from "./figure.ts";
import { holderName } from "./holder.ts";
import type { Home } from "./home.ts";
import { fallen, plan } from "./run.ts";
import { onOneLine } from "./say.ts";
import { Snapshots } from "./snapshots.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch.ts";
import { openStore, randomBytes } from "./world.ts";

/** `dev export`: a session's workspace as a tar. */
export async function exportTar(
  command: ExportCommand,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const opened = await openOwn(command.id, home, terminal);
  if (!opened.ok) return fallen(watch, opened);
  try {
    const written = await write(opened.value, command, home, terminal, watch);
    if (!written.ok) return fallen(watch, written);
    const { id, entryCount, left } = written.value;
    if (command.json) {
      terminal.print(`${JSON.stringify({ file: resolve(command.file), id, entryCount, left })}\n`);
      return EXIT.complete;
    }
    terminal.complain(`${command.file}: ${countText(entryCount, "entry", "entries")}\n`);
    tellLeft(left, terminal);
    return EXIT.complete;
  } finally {
    opened.value.store.close();
  }
}

async function write(
  { session, store, place }: Own,
  { file, at }: ExportCommand,
  home: Home,
  terminal: Terminal,
  watch: Watch,
): Promise<Result<Tarred & { readonly id: SnapshotId }>> {
  const snapshots = new Snapshots(home, terminal.nowMs);
  const taken =
    at === null
      ? await snapshotOf(place, snapshots, (text) => watch.note(text))
      : await checkpointOf(store, session.id, at);
  if (!taken.ok) return taken;
  const objects = await snapshots.objects();
  if (!objects.ok) return objects;
  const { id } = taken.value;
  // It has its name once it is whole.
  const aside = `${file}.new`;
  const out = createWriteStream(aside, { mode: 0o600 });
  const written = await writeTar(objects.value, id, out);
  if (!written.ok) {
    rmSync(aside, { force: true });
    return written;
  }
  renameSync(aside, file);
  return ok({ ...written.value, id });
}

/** `dev import`: a new session, whose workspace is what a tar holds. */
export async function importTar(
  command: ImportCommand,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const imported = await read(command, home, terminal, watch);
  if (!imported.ok) return fallen(watch, imported);
  const { session, id, entryCount, left } = imported.value;
  if (command.json) {
    terminal.print(`${JSON.stringify({ session, id, entryCount, left })}\n`);
    return EXIT.complete;
  }
  terminal.print(`${session}\n`);
  terminal.complain(
    `${countText(entryCount, "entry", "entries")}; work on it: dev resume ${session} "…"\n`,
  );
  tellLeft(left, terminal);
  return EXIT.complete;
}

type Imported = Tarred & { readonly session: SessionId; readonly id: SnapshotId };

async function read(
  command: ImportCommand,
  home: Home,
  terminal: Terminal,
  watch: Watch,
): Promise<Result<Imported>> {
  const planned = plan({ ...command, cell: "bubblewrap" }, home, terminal, watch);
  if (!planned.ok) return planned;
  const nowMs = terminal.nowMs();
  const objects = await new Snapshots(home, terminal.nowMs).objects();
  if (!objects.ok) return objects;
  const from = createReadStream(command.file);
  const taken = await readTar(objects.value, from, { limits: TREE_LIMITS, nowMs });
  from.destroy();
  if (!taken.ok) return fail({ ...taken.fault, subject: taken.fault.subject || command.file });
  const store = await openStore(home);
  if (!store.ok) return store;
  try {
    const { directory, model, config } = planned.value;
    const id = sessionId(nowMs, randomBytes(terminal));
    const made = { id, createdMs: nowMs, directory, vendor: "bubblewrap", model };
    const named = await name(
      store.value,
      { ...made, config: JSON.stringify(config) },
      taken.value.id,
    );
    return named.ok ? ok({ ...taken.value, session: id }) : named;
  } finally {
    store.value.close();
  }
}

/** Makes the session, and names its snapshot: from that its workspace is made when it is needed. */
async function name(
  store: Store,
  made: Parameters<Store["create"]>[0],
  workspace: SnapshotId,
): Promise<Result<void>> {
  const claim = await store.create(made, holderName());
  if (!claim.ok) return claim;
  const of = { sequence: 0, atMs: made.createdMs, cause: "import" } as const;
  const named = await store.checkpoint(claim.value, { ...of, workspace });
  const released = await store.release(claim.value);
  return named.ok ? released : named;
}

function tellLeft(left: readonly string[], terminal: Terminal): void {
  for (const path of left) terminal.complain(`${onOneLine(path)}: left out\n`);
}
