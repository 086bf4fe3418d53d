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
import type { Ran } from "./deadline.ts";
import type { Instance } from "./instance.ts";

/** Turns the ways in which an instance's calls end into faults that end this session alone. */
export function openSession(first: Instance): Session {
  let life: Life = { kind: "open", instance: first };

  function call<T>(run: (instance: Instance) => Ran<T>): Result<T> {
    if (life.kind !== "open") return fail(refusal(life));
    const { instance } = life;
    life = { kind: "running" };
    const ran = run(instance);
    const next = after(ran, instance);
    // What was closed while it ran stays closed.
    if (!isClosed()) life = next;
    if (life.kind !== "open") instance.close();
    return ran.kind === "done" ? ok(ran.value) : fail(told(ran));
  }

  const isClosed = (): boolean => life.kind === "closed";

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
      if (life.kind === "open") life.instance.close();
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

/** What is left of a session after a call. */
function after(ran: Ran<unknown>, instance: Instance): Life {
  switch (ran.kind) {
    case "done":
    case "refused":
      return { kind: "open", instance };
    case "late":
      return { kind: "closed", why: LATE };
    case "threw":
      return { kind: "poisoned", why: said(ran.error) };
    default:
      return never(ran);
  }
}

/** The fault of a call that answers nothing. */
function told(ran: Exclude<Ran<unknown>, { readonly kind: "done" }>): Fault {
  switch (ran.kind) {
    case "refused":
      return ran.fault;
    case "late":
      return fault("handle", LATE, "", RESTORE);
    case "threw":
      return fault("panic", `the core trapped: ${said(ran.error)}`, "", RESTORE);
    default:
      return never(ran);
  }
}

const LATE = "a call was stopped at its deadline";

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
  if (error instanceof Error) return `${error.name}: ${error.message}`.slice(0, WHY_LIMIT);
  return typeof error === "string" ? error.slice(0, WHY_LIMIT) : typeof error;
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
