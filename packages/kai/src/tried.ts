import type { Open } from "./ledger.ts";
import type { Trial } from "./trial/trial.ts";

/** Writes down what became of a candidate that was tried; what passes is no more than `validated`. */
export function record(action: Open, trial: Trial): void {
  const ms = Math.round(trial.durationMs);
  switch (trial.kind) {
    case "passed":
      action.become("completed");
      action.become("validated", { ms });
      return;
    case "failed":
      action.become("completed");
      action.become("rejected", { ms, failed: trial.failedTests.slice(0, 5) });
      return;
    case "broken":
      action.become("completed");
      action.become("rejected", { ms, failed: ["it does not load"] });
      return;
    case "timeout":
      action.become("timed_out", { ms });
      return;
  }
}
