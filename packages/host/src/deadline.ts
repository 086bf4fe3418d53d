import { Script } from "node:vm";
import type { Fault } from "@dev/protocol";

/** How a call into a core ended. Only after `done` and `refused`, which changed nothing, is it to be called again. */
export type Ran<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "refused"; readonly fault: Fault }
  | { readonly kind: "late" }
  | { readonly kind: "threw"; readonly error: unknown };

/**
 * Runs a synchronous call that is stopped where it stands when its time is up. The watchdog of
 * `node:vm` interrupts plain JavaScript in this thread, and the call cannot catch it. Without a
 * deadline (`Infinity`) there is no watchdog, which is a thread, and waits for its turn.
 */
export function runWithin<T>(deadlineMs: number, call: () => T): Ran<T> {
  if (deadlineMs === Number.POSITIVE_INFINITY) return runUnwatched(call);
  Reflect.set(globalThis, SLOT, call);
  try {
    return { kind: "done", value: ENTER.runInThisContext({ timeout: deadlineMs }) as T };
  } catch (error) {
    const code = (error as { readonly code?: unknown } | null)?.code;
    return code === "ERR_SCRIPT_EXECUTION_TIMEOUT" ? { kind: "late" } : { kind: "threw", error };
  } finally {
    Reflect.deleteProperty(globalThis, SLOT);
  }
}

export function runUnwatched<T>(call: () => T): Ran<T> {
  try {
    return { kind: "done", value: call() };
  } catch (error) {
    return { kind: "threw", error };
  }
}

// Read at once when a script is entered, so that a call within a call may use it too.
const SLOT = Symbol.for("dev.host.call");
const ENTER: Script = new Script('globalThis[Symbol.for("dev.host.call")]()');
