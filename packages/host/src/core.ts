import { type Config, configFlaw } from "@dev/core";
import { type Action, type Event, never, ok, type Result } from "@dev/protocol";
import type { Host, Instance } from "./instance.ts";
import { openNative } from "./native.ts";
import { openSession } from "./session.ts";
import { LIVE_LIMIT, openWasm } from "./wasm.ts";

/** Runs cores. It is safe for concurrent use; each of its sessions runs one call at a time. */
export interface Core {
  /** A session that is to be closed, as is one that is restored. What is no config is a `TypeError`. */
  create(config: Config): Session;
  /**
   * Faults: `malformed` (damage, or no snapshot at all), `newer_version`, `full` (larger than the host
   * has room for). What is no `Uint8Array` is a `TypeError`.
   */
  restore(bytes: Uint8Array): Result<Session>;
  /** Ends every session of this core; one that is made later is closed from the start. */
  close(): void;
}

/**
 * One session's core. Faults of a call: `malformed` (the event; nothing changed), `full` (it is over
 * a limit; nothing changed), `busy` (made during another call), `panic` (the core trapped, which ends
 * this session alone), `poison` (it trapped earlier), `handle` (it was closed, or its deadline ended it).
 */
export interface Session {
  /** Takes one event. A call that answers a fault answers no actions. */
  step(event: Event): Result<readonly Action[]>;
  snapshot(): Result<Uint8Array>;
  close(): void;
}

export type HostOptions =
  | {
      /** The reducer, in this process. */
      readonly host: "native";
      /** What one call may take, in milliseconds of real time; `Infinity` for whoever keeps another time. */
      readonly deadlineMs?: number;
    }
  | {
      /** The reducer sealed in a module that imports nothing: a memory of its own for each session. */
      readonly host: "wasm";
      /** What one call may take, in milliseconds of work: see `FUEL_PER_MS`. */
      readonly deadlineMs?: number;
      /** How many sessions have an instance at a time, at least 1; the others wait as snapshots. */
      readonly liveLimit?: number;
    };

/** What one call into a core may take before it is stopped, and its session with it. */
export const CALL_DEADLINE_MS = 5000;

/**
 * Opens a core once for a process; sessions are then cheap. A deadline that is not above 0 and a limit
 * below 1 are a `RangeError`.
 */
export function openCore(options: HostOptions): Core {
  return coreOf(hostOf(options));
}

function hostOf(options: HostOptions): Host {
  const deadlineMs = options.deadlineMs ?? CALL_DEADLINE_MS;
  if (!(deadlineMs > 0)) throw new RangeError(`deadlineMs: ${deadlineMs} is not above 0`);
  switch (options.host) {
    case "native":
      return openNative(deadlineMs);
    case "wasm":
      return openWasm(deadlineMs, liveLimitOf(options.liveLimit ?? LIVE_LIMIT));
    default:
      return never(options);
  }
}

function liveLimitOf(limit: number): number {
  if (limit >= 1) return limit;
  throw new RangeError(`liveLimit: ${limit} is not at least 1`);
}

/** A core whose sessions run on this host. */
export function coreOf(host: Host): Core {
  const sessions = new Set<Session>();
  let closed = false;
  const track = (instance: Instance): Session => {
    const session = openSession(instance);
    if (closed) session.close();
    else sessions.add(session);
    return {
      ...session,
      close: () => {
        sessions.delete(session);
        session.close();
      },
    };
  };
  return {
    create: (config) => {
      const flaw = configFlaw(config);
      if (flaw !== null) throw new TypeError(flaw);
      return track(host.create(config));
    },
    restore: (bytes) => {
      if (!(bytes instanceof Uint8Array)) throw new TypeError("a snapshot is a Uint8Array");
      const restored = host.restore(bytes);
      return restored.ok ? ok(track(restored.value)) : restored;
    },
    close: () => {
      closed = true;
      for (const session of sessions) session.close();
      sessions.clear();
    },
  };
}
