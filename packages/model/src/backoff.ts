import type { IncomingHttpHeaders } from "node:http";
import type { RouterLimits } from "./limit.ts";

/** Whether, and after what wait, to try once more. */
export type Backoff =
  | { readonly kind: "wait"; readonly waitMs: number }
  | { readonly kind: "give_up"; readonly why: "attempts" | "total" | "retry_after" };

/**
 * Plans the wait after try `attempt` (counted from 1) came to nothing; `spentMs` is what earlier waits
 * and silences cost, `askedMs` the wait that the provider asked for. The wait grows exponentially and
 * half of it is chance, so that those who failed together do not come back together.
 */
export function backoff(
  attempt: number,
  spentMs: number,
  askedMs: number | null,
  random: number,
  limits: RouterLimits,
): Backoff {
  if (attempt >= limits.attemptCount) return { kind: "give_up", why: "attempts" };
  if (askedMs !== null && askedMs > limits.retryAfterLimitMs) {
    return { kind: "give_up", why: "retry_after" };
  }
  const growingMs = Math.min(limits.backoffMs * 2 ** (attempt - 1), limits.backoffLimitMs);
  const waitMs = Math.round((askedMs ?? 0) + (growingMs * (1 + random)) / 2);
  if (spentMs + waitMs > limits.retryTotalMs) return { kind: "give_up", why: "total" };
  return { kind: "wait", waitMs };
}

/**
 * The wait that an answer asks for in `retry-after-ms` or `Retry-After` (RFC 9110, section 10.2.3). A
 * date is measured against the answer's own `Date`, so that no clock of ours comes into it. Null when
 * it does not ask, or in a way that cannot be read.
 */
export function retryAfterMs(headers: IncomingHttpHeaders): number | null {
  const exact = headers["retry-after-ms"];
  if (typeof exact === "string" && /^\d+(\.\d+)?$/.test(exact)) return Math.ceil(Number(exact));
  const text = headers["retry-after"];
  if (text === undefined) return null;
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  const waitMs = Date.parse(text) - Date.parse(headers.date ?? "");
  return Number.isNaN(waitMs) ? null : Math.max(0, waitMs);
}
