import { directoryBlobs, GRACE_MS, parseSnapshotId, type SnapshotId, sweep } from "@dev/workspace";
import type { Command } from "./args.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { countText, sizeText } from "./figure.ts";
import type { Home } from "./home.ts";
import { fallen } from "./run.ts";
import type { Terminal } from "./terminal.ts";
import { openStore } from "./world.ts";

/** `dev gc`: removes what no session's snapshots need any more. */
export async function gc(
  command: Extract<Command, { kind: "gc" }>,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const watch = terminal.watch(command.json);
  const store = await openStore(home);
  if (!store.ok) return fallen(watch, store);
  const named = await store.value.workspaces();
  store.value.close();
  if (!named.ok) return fallen(watch, named);
  const live: SnapshotId[] = [];
  for (const each of named.value) {
    const id = parseSnapshotId(each);
    if (!id.ok) return fallen(watch, id);
    live.push(id.value);
  }
  const options = { live, nowMs: terminal.nowMs(), graceMs: GRACE_MS };
  const swept = await sweep(directoryBlobs(home.snapshots), options);
  if (!swept.ok) return fallen(watch, swept);
  if (command.json) {
    terminal.print(`${JSON.stringify(swept.value)}\n`);
    return EXIT.complete;
  }
  const { snapshotCount, sizeBytes, deletedBytes, condemnedCount, missing } = swept.value;
  terminal.complain(
    `${countText(snapshotCount, "snapshot")}, ${sizeText(sizeBytes - deletedBytes)}; ${sizeText(deletedBytes)} freed\n`,
  );
  if (condemnedCount > 0) {
    terminal.complain("what is needed no more goes with a gc a day from now, or later\n");
  }
  if (missing.length > 0) {
    terminal.complain(
      `${countText(missing.length, "snapshot")} named by a session cannot be found\n`,
    );
  }
  return EXIT.complete;
}
