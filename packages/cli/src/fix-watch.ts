import type { Fix, Outcome, Progress, Proof } from "@dev/kai";
import { type Fault, never } from "@dev/protocol";
import { createTwoFilesPatch } from "diff";
import { FIX_EXIT } from "./exit.ts";
import { countText, grouped, timeText } from "./figure.ts";
import { shellText } from "./item.ts";
import { faultText, onOneLine, printable } from "./say.ts";
import type { Terminal } from "./terminal.ts";

/** Whoever is shown what `dev fix` does. */
export type FixWatch = {
  began(run: Began): void;
  progress(progress: Progress): void;
  note(text: string): void;
  ended(outcome: Outcome): void;
  stopped(): void;
  failed(fault: Fault): void;
};

export type Began = {
  readonly task: string;
  readonly directory: string;
  readonly cwd: string;
  readonly argv: readonly string[];
};

/** How often a program is told how far the search is. */
const TELL_MS = 1_000;
const DIFFS_MAX = 8;

export function fixWatch(terminal: Terminal, json: boolean): FixWatch {
  return json ? jsonWatch(terminal) : textWatch(terminal);
}

function textWatch(terminal: Terminal): FixWatch {
  const { activity, print } = terminal;
  const line = (text: string): void => activity.above(`${printable(text)}\n`);
  return {
    began: () => undefined,
    note: line,
    stopped: () => {
      activity.clear();
      line("stopped; nothing was changed");
    },
    failed: (fault) => activity.above(`dev: ${faultText(fault)}\n`),
    progress: (progress) => {
      switch (progress.kind) {
        case "stage":
          activity.begin("fix", progress.text);
          return;
        case "note":
          line(progress.text);
          return;
        case "ran":
          line(ranText(progress));
          return;
        case "trying":
          activity.begin("fix", tryingText(progress));
          return;
        default:
          never(progress);
      }
    },
    ended: (outcome) => {
      activity.clear();
      const { diffs, lines } = outcomeText(outcome);
      if (diffs !== "") print(diffs);
      lines.forEach(line);
      line(accountText(outcome));
    },
  };
}

/** An outcome in words, with its changes as patches. */
export function outcomeText(outcome: Outcome): {
  readonly diffs: string;
  readonly lines: string[];
} {
  switch (outcome.kind) {
    case "verified": {
      const { proof, around } = outcome.proof;
      const lines = [
        `verified: ${shellText(proof.argv)}: ${endOf(proof)}, ${countsOf(proof)}`,
        `before: ${endOf(outcome.before)}, ${countsOf(outcome.before)}`,
        ...around.map((each) => `around it: ${shellText(each.argv)}: ${endOf(each)}`),
      ];
      return { diffs: diffOf(outcome.fix), lines };
    }
    case "ambiguous": {
      const diffs = outcome.fixes.slice(0, DIFFS_MAX).map(diffOf).join("");
      return { diffs, lines: [AMBIGUOUS, ...exampleLines(outcome)] };
    }
    case "not_fixed":
      return { diffs: "", lines: [`not fixed: ${outcome.why}; nothing was changed`] };
    case "not_run":
      return { diffs: "", lines: [`dev: the command could not be run: ${outcome.why}`] };
    case "passes": {
      const { before } = outcome;
      const said = `it already passes: ${shellText(before.argv)}: ${countsOf(before)}`;
      return { diffs: "", lines: [said] };
    }
    default:
      return never(outcome);
  }
}

const AMBIGUOUS =
  "ambiguous: each of these passes, and they do different things; nothing was changed";

/** How a run of a command went, in a line. */
export function ranText({ proof }: Extract<Progress, { kind: "ran" }>): string {
  const mark = proof.end.kind === "exit" && proof.end.code === 0 ? "✓" : "✗";
  const took = timeText(proof.durationMs);
  return `${mark} ${shellText(proof.argv)}  ${endOf(proof)}, ${countsOf(proof)}, ${took}`;
}

function tryingText({ site, triedCount, how }: Extract<Progress, { kind: "trying" }>): string {
  const where = site.function === null ? "" : ` ${site.function}`;
  return onOneLine(
    `${countText(triedCount, "candidate")} tried (${how}), at ${site.file}:${site.line}${where}`,
  );
}

export function accountText({ triedCount, durationMs, cost, task }: Outcome): string {
  const tokens = cost.inputTokens + cost.outputTokens;
  const spent = tokens === 0 ? "no model" : `${grouped(tokens)} tokens, $${cost.usd.toFixed(4)}`;
  return `${countText(triedCount, "candidate")}, ${timeText(durationMs)}, ${spent}; ${task}`;
}

function exampleLines(outcome: Extract<Outcome, { kind: "ambiguous" }>): readonly string[] {
  const { example } = outcome.comparison;
  if (example === null) return [];
  const said = example.outcomes.map((each, at) => `  ${at + 1}: ${cameTo(each)}`);
  return [`called with ${example.input}:`, ...said];
}

function cameTo(outcome: string): string {
  const rest = onOneLine(outcome.slice(1));
  if (outcome.startsWith("v")) return rest;
  if (outcome.startsWith("e")) return `raises ${rest}`;
  return outcome.startsWith("t") ? "does not end" : "is not known";
}

/** A fix as a patch. */
export function diffOf({ files }: Fix): string {
  return files
    .map(({ file, before, after }) =>
      createTwoFilesPatch(`a/${file}`, `b/${file}`, before, after, "", "", { context: 3 }).replace(
        /^=+\n/,
        "",
      ),
    )
    .join("");
}

function endOf({ end }: Proof): string {
  if (end.kind === "exit") return `exit code ${end.code}`;
  return end.kind === "signal" ? `ended by ${end.signal}` : "did not end";
}

function countsOf({ report }: Proof): string {
  const { passedCount, failedCount, failures } = report;
  if (passedCount === null && failedCount === null) {
    return failures.length === 0 ? "no tests counted" : countText(failures.length, "failure");
  }
  return `${passedCount ?? 0} passed, ${failedCount ?? 0} failed`;
}

function jsonWatch(terminal: Terminal): FixWatch {
  const say = (object: unknown): void => terminal.print(`${JSON.stringify(object)}\n`);
  let toldMs = 0;
  let count = 0;
  return {
    began: ({ task, directory, cwd, argv }) =>
      say({ type: "fix.started", task_id: task, directory, cwd, argv }),
    note: (text) => say({ type: "fix.note", text }),
    stopped: () => say({ type: "fix.stopped", exit: FIX_EXIT.interrupted }),
    failed: ({ code, message, subject, mend }) =>
      say({ type: "error", code, message, subject, mend }),
    progress: (progress) => {
      switch (progress.kind) {
        case "stage":
        case "note":
          return say({ type: "fix.note", text: progress.text });
        case "ran":
          count += 1;
          return say({ type: "item.completed", item: itemOf(progress, count) });
        case "trying": {
          const nowMs = terminal.nowMs();
          if (nowMs - toldMs < TELL_MS) return;
          toldMs = nowMs;
          const { site, triedCount, how } = progress;
          return say({ type: "fix.progress", triedCount, how, site });
        }
        default:
          return never(progress);
      }
    },
    ended: (outcome) => {
      if (outcome.kind === "verified") {
        for (const { file } of outcome.fix.files) {
          count += 1;
          const item = { id: `item_${count}`, type: "file_change", path: file, change: "patch" };
          say({ type: "item.completed", item: { ...item, status: "completed" } });
        }
      }
      say(endedOf(outcome));
    },
  };
}

function itemOf({ what, proof }: Extract<Progress, { kind: "ran" }>, count: number): unknown {
  return {
    id: `item_${count}`,
    type: "command_execution",
    purpose: what,
    command: shellText(proof.argv),
    ...proofOf(proof),
    status: proof.end.kind === "exit" && proof.end.code === 0 ? "completed" : "failed",
  };
}

function proofOf({ argv, end, durationMs, report }: Proof): Readonly<Record<string, unknown>> {
  return {
    argv,
    exit_code: end.kind === "exit" ? end.code : null,
    end,
    duration_ms: Math.round(durationMs),
    runner: report.runner,
    passed_count: report.passedCount,
    failed_count: report.failedCount,
    failed: report.failures.map(({ test }) => test),
  };
}

function endedOf(outcome: Outcome): Readonly<Record<string, unknown>> {
  const { kind, task, triedCount, firstMs, durationMs, cost, ledger } = outcome;
  const account = {
    type: kind === "verified" ? "fix.completed" : "fix.failed",
    outcome: kind,
    exit: FIX_EXIT[kind],
    task_id: task,
    triedCount,
    firstMs: firstMs === null ? null : Math.round(firstMs),
    duration_ms: Math.round(durationMs),
    cost,
    ledger,
  };
  switch (outcome.kind) {
    case "verified": {
      const { fix, proof, before } = outcome;
      return {
        ...account,
        ...fixFields(fix),
        before: proofOf(before),
        verified: proofOf(proof.proof),
        around: proof.around.map(proofOf),
      };
    }
    case "ambiguous":
      return {
        ...account,
        before: proofOf(outcome.before),
        candidates: outcome.fixes.map(fixFields),
        example: outcome.comparison.example,
      };
    case "not_fixed":
    case "not_run":
      return { ...account, reason: outcome.why };
    case "passes":
      return { ...account, before: proofOf(outcome.before) };
    default:
      return never(outcome);
  }
}

function fixFields(fix: Fix): Readonly<Record<string, unknown>> {
  const { operator, source, site, share } = fix;
  return { operator, source, site, share, diff: diffOf(fix) };
}
