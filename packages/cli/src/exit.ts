import type { Fault } from "@dev/protocol";
import type { TurnEnd } from "@dev/session";

/** The command's exit codes, as `dev help` states them. */
export const EXIT = {
  complete: 0,
  failed: 1,
  usage: 2,
  refused: 3,
  limit: 4,
  interrupted: 130,
} as const;

/** Those of `dev fix`, as `dev help fix` states them. */
export const FIX_EXIT = {
  verified: 0,
  not_fixed: 1,
  usage: 2,
  not_run: 3,
  passes: 4,
  ambiguous: 5,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT] | (typeof FIX_EXIT)[keyof typeof FIX_EXIT];

export function exitOfEnd(end: TurnEnd): ExitCode {
  switch (end.outcome) {
    case "complete":
      return end.refused ? EXIT.refused : EXIT.complete;
    case "failed":
      return EXIT.failed;
    case "limit":
      return EXIT.limit;
    case "cancelled":
      return EXIT.interrupted;
  }
}

export function exitOfFault(fault: Fault): ExitCode {
  return fault.code === "usage" || fault.code === "config" || fault.code === "unknown_id"
    ? EXIT.usage
    : EXIT.failed;
}
