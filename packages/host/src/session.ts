import {
  EVENT_LIMIT_BYTES,
  eventFromJson,
  type Fault,
  fail,
  fault,
  never,
  ok,
  type Result,
} from "@dev/protocol";
import type { Session } from "./core.ts";
import { runWithin } from "./deadline.ts";
import type { Instance } from "./native.ts";

/** Gives an instance a deadline, and turns its traps into faults that end this session alone. */
export function openSession(first: Instance, deadlineMs: number): Session {
  let life: Life = { kind: "open", instance: first };
  // What was closed while it ran stays closed.
  const isClosed = (): boolean => life.kind === "closed";

  function call<T>(run: (instance: Instance) => T): Result<T> {
    if (life.kind !== "open") return fail(refusal(life));
    const { instance } = life;
    life = { kind: "running" };
    const ran = runWithin(deadlineMs, () => run(instance));
    switch (ran.kind) {
      case "done":
        if (!isClosed()) life = { kind: "open", instance };
        return ok(ran.value);
      case "late": {
        const why = `a call was stopped at its deadline of ${deadlineMs} ms`;
        if (!isClosed()) life = { kind: "closed", why };
        return fail(fault("handle", why, "", RESTORE));
      }
      case "threw": {
        const why = said(ran.error);
        if (!isClosed()) life = { kind: "poisoned", why };
        return fail(fault("panic", `the core trapped: ${why}`, "", RESTORE));
      }
      default:
        return never(ran);
    }
  }

  return {
    step: (event) => {
      if (life.kind !== "open") return fail(refusal(life));
      // Reading it anew also puts its fields in one order, so that equal events give equal bytes.
      const read = eventFromJson(event);
      if (!read.ok) return read;
      if (weight(read.value) > EVENT_LIMIT_BYTES) {
        return fail(fault("full", `an event is over EVENT_LIMIT_BYTES (${EVENT_LIMIT_BYTES})`));
      }
      return call((instance) => instance.step(read.value));
    },
    snapshot: () => call((instance) => instance.snapshot()),
    close: () => {
      life = { kind: "closed", why: "the session was closed" };
    },
  };
}

const RESTORE = "restore the last snapshot";

type Life =
  | { readonly kind: "open"; readonly instance: Instance }
  | { readonly kind: "running" }
  | { readonly kind: "poisoned"; readonly why: string }
  | { readonly kind: "closed"; readonly why: string };

function refusal(life: Exclude<Life, { readonly kind: "open" }>): Fault {
  switch (life.kind) {
    case "running":
      return fault("busy", "a call was made during another", "", "wait until it has answered");
    case "poisoned":
      return fault("poison", `it trapped earlier: ${life.why}`, "", RESTORE);
    case "closed":
      return fault("handle", life.why, "", RESTORE);
    default:
      return never(life);
  }
}

/** What a trap says of itself, shortened: it may quote the value that it stumbled on. */
function said(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return `${error.name}: ${error.message}`.slice(0, WHY_LIMIT);
}

/** How much a fault quotes of a trap, in characters. */
const WHY_LIMIT = 500;

/** What an event weighs, near to what it takes on the wire: its text, and 4 bytes for each part. */
function weight(value: unknown): number {
  if (typeof value === "string") return 4 + Buffer.byteLength(value);
  if (typeof value !== "object" || value === null) return 4;
  let sumBytes = 4;
  for (const part of Object.values(value)) sumBytes += weight(part);
  return sumBytes;
}
