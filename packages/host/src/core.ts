import type { Config } from "@dev/core";
import type { Action, Event, Result } from "@dev/protocol";
import { NATIVE } from "./native.ts";
import { openSession } from "./session.ts";

/** Runs cores. It is safe for concurrent use; each of its sessions runs one call at a time. */
export interface Core {
  /** A session that is to be closed, as is one that is restored. */
  create(config: Config): Session;
  /** Faults: `malformed` (damage, or no snapshot at all), `newer_version`. */
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

export type HostOptions = {
  readonly host: "native";
  /** What one call may take, in milliseconds of real time; `Infinity` for whoever keeps another time. */
  readonly deadlineMs?: number;
};

/** What one call into a core may take before it is stopped, and its session with it. */
export const CALL_DEADLINE_MS = 5000;

/** Opens a core once for a process; sessions are then cheap. */
export function openCore(options: HostOptions): Core {
  const deadlineMs = options.deadlineMs ?? CALL_DEADLINE_MS;
  const sessions = new Set<Session>();
  let closed = false;
  const track = (session: Session): Session => {
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
    create: (config) => track(openSession(NATIVE.create(config), deadlineMs)),
    restore: (bytes) => {
      const restored = NATIVE.restore(bytes);
      if (!restored.ok) return restored;
      return { ok: true, value: track(openSession(restored.value, deadlineMs)) };
    },
    close: () => {
      closed = true;
      for (const session of sessions) session.close();
      sessions.clear();
    },
  };
}
