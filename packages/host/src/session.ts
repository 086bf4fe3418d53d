import { EVENT_LIMIT_BYTES, eventFromJson, fail, fault, ok, type Result } from "@dev/protocol";
import type { Session } from "./core.ts";
import { runWithin } from "./deadline.ts";
import type { Instance } from "./native.ts";

/** Gives an instance a deadline, and turns its traps into faults that end this session alone. */
export function openSession(first: Instance, deadlineMs: number): Session {
  let life: Life = { kind: "open", instance: first };
  let running = false;

  function call<T>(run: (instance: Instance) => T): Result<T> {
    if (running) return fail(fault("busy", "a call was made during another"));
    if (life.kind === "poisoned") return fail(fault("poison", `it trapped earlier: ${life.why}`));
    if (life.kind === "dead") return fail(fault("handle", life.why, "", RESTORE));
    const { instance } = life;
    running = true;
    const ran = runWithin(deadlineMs, () => run(instance));
    running = false;
    switch (ran.kind) {
      case "done":
        return ok(ran.value);
      case "late":
        life = { kind: "dead", why: `a call was stopped at its deadline of ${deadlineMs} ms` };
        return fail(fault("handle", life.why, "", RESTORE));
      case "threw":
        life = { kind: "poisoned", why: String(ran.error) };
        return fail(fault("panic", `the core trapped: ${life.why}`, "", RESTORE));
    }
  }

  return {
    step: (event) => {
      if (life.kind === "open" && weight(event) > EVENT_LIMIT_BYTES) {
        return fail(fault("full", `an event is over ${EVENT_LIMIT_BYTES} bytes`));
      }
      // Reading it anew also puts its fields in one order, so that equal events give equal bytes.
      const read = eventFromJson(event);
      return read.ok ? call((instance) => instance.step(read.value)) : read;
    },
    snapshot: () => call((instance) => instance.snapshot()),
    close: () => {
      if (life.kind === "open") life = { kind: "dead", why: "the session was closed" };
    },
  };
}

const RESTORE = "restore the last snapshot";

type Life =
  | { readonly kind: "open"; readonly instance: Instance }
  | { readonly kind: "poisoned"; readonly why: string }
  | { readonly kind: "dead"; readonly why: string };

/** A lower bound of what an event takes on the wire: a UTF-16 unit takes at least one byte. */
function weight(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  let sum = 0;
  for (const part of Object.values(value)) sum += weight(part);
  return sum;
}
