import type { Config } from "@dev/core";
import type { Action, Event, Result } from "@dev/protocol";
import type { Ran } from "./deadline.ts";

/** A way to run cores. */
export interface Host {
  create(config: Config): Instance;
  /** Faults: `malformed`, `newer_version`. */
  restore(bytes: Uint8Array): Result<Instance>;
}

/** One session's core as its session drives it: one call at a time, and none after one that was stopped. */
export interface Instance {
  /** Takes an event that has been read, and whose size is within its limit. */
  step(event: Event): Ran<readonly Action[]>;
  snapshot(): Ran<Uint8Array>;
  close(): void;
}
