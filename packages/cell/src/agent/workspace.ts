import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { Result } from "@dev/protocol";
import { receiveTree, sendTree } from "@dev/workspace";
import type { Opening } from "../wire.ts";
import { FAR_TREE, WORKSPACE_CALLS } from "../workspace.ts";

/**
 * Serves a far workspace's channel: the host fills the workspace, once in the life of a cell's disk, or
 * collects what is in it.
 */
export async function serveWorkspace(
  payload: Uint8Array,
  stream: Duplex,
  opening: Opening,
): Promise<void> {
  const [call] = payload;
  const done =
    call === WORKSPACE_CALLS.fill
      ? await filled(stream, opening)
      : call === WORKSPACE_CALLS.collect
        ? await sendTree(opening.workspace, stream, FAR_TREE)
        : undefined;
  if (done?.ok === true) stream.end();
  else stream.destroy(new Error(done?.fault.message ?? `a workspace is not asked for ${call}`));
}

/**
 * The first byte says whether the tree is wanted: what the cell has worked on is not filled anew, even when its
 * agent is another. The mark comes after all of it is there.
 */
async function filled(
  stream: Duplex,
  { cell, spool, workspace }: Opening,
): Promise<Result<unknown>> {
  const mark = join(spool, "filled");
  const isFilled = existsSync(mark);
  stream.write(Uint8Array.of(isFilled ? 0 : 1));
  if (isFilled) return { ok: true, value: undefined };
  const holder = `${cell}/${process.pid}`;
  // The spool has one agent: whatever another began to write is nobody's any more.
  const its = { ...FAR_TREE, holder, isAlive: (other: string) => other === holder };
  const received = await receiveTree(workspace, stream, its);
  if (received.ok) writeFileSync(mark, "", { flush: true });
  return received;
}
