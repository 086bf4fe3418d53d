import { once } from "node:events";
import type { Duplex } from "node:stream";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { type Holder, receiveTree, type ScanOptions, sendTree, TREE_LIMITS } from "@dev/workspace";
import type { Link } from "./vendor.ts";

/** What a `workspace` channel is opened for: its payload's one byte. */
export const WORKSPACE_CALLS = { fill: 1, collect: 2 } as const;

/** How a far workspace is looked at, on either side. */
export const FAR_TREE: ScanOptions = {
  cache: null,
  limits: TREE_LIMITS,
  onProgress: () => undefined,
};

/**
 * Fills the workspace of a cell on another machine with what a directory of this one has: what it lacks
 * crosses, and nothing does when it was filled before. Faults: those of the link and of `sendTree`.
 */
export async function fillWorkspace(
  link: Link,
  directory: string,
  signal: AbortSignal,
): Promise<Result<undefined>> {
  const stream = await link.open("workspace", Uint8Array.of(WORKSPACE_CALLS.fill), signal);
  if (!stream.ok) return stream;
  try {
    const isWanted = await firstByte(stream.value, signal);
    if (!isWanted.ok || isWanted.value === 0) return isWanted.ok ? ok(undefined) : isWanted;
    const sent = await sendTree(directory, stream.value, FAR_TREE, signal);
    return sent.ok ? ok(undefined) : sent;
  } finally {
    stream.value.destroy();
  }
}

/**
 * Brings what a far workspace has into a directory of this machine, which then holds just that: each file
 * wholly as it was or wholly new. Faults: those of the link and of `receiveTree`.
 */
export async function collectWorkspace(
  link: Link,
  directory: string,
  holder: Holder,
  signal: AbortSignal,
): Promise<Result<undefined>> {
  const stream = await link.open("workspace", Uint8Array.of(WORKSPACE_CALLS.collect), signal);
  if (!stream.ok) return stream;
  try {
    const received = await receiveTree(directory, stream.value, { ...FAR_TREE, ...holder }, signal);
    return received.ok ? ok(undefined) : received;
  } finally {
    stream.value.destroy();
  }
}

async function firstByte(stream: Duplex, signal: AbortSignal): Promise<Result<number>> {
  try {
    for (;;) {
      const byte: unknown = stream.read(1);
      if (byte instanceof Uint8Array) return ok(byte[0] ?? 0);
      if (stream.readableEnded || stream.destroyed) return fail(cut("the agent closed it"));
      await once(stream, "readable", { signal });
    }
  } catch (error) {
    return fail(cut(error instanceof Error ? error.message : String(error)));
  }
}

function cut(message: string): ReturnType<typeof fault> {
  return fault("link_lost", `the workspace was not filled: ${message}`, "", "try again");
}
