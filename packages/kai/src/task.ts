import type { Result } from "@dev/protocol";
import type { Operation } from "./action.ts";
import type { Candidate } from "./candidate.ts";
import { edited } from "./candidate.ts";
import { textOf } from "./copy.ts";
import { TIMER_MAX_MS } from "./execution.ts";
import type { Ground } from "./ground.ts";
import { type Cost, costSum, type Helper, NO_COST } from "./help.ts";
import type { Ledger, Open } from "./ledger.ts";
import type { Account, Ending, Outcome, Progress } from "./outcome.ts";
import { type Revision, revisionOf } from "./revision.ts";
import type { Shell } from "./shell.ts";
import type { FileText } from "./verify.ts";

export type FixOptions = {
  readonly shell: Shell;
  /** The tree: absolute. Nothing in it is written but the fix, once that is verified. */
  readonly directory: string;
  /** Where in the tree the command runs: relative, with `/`; `.` is the tree itself. */
  readonly cwd: string;
  readonly argv: readonly string[];
  /** The whole environment of the command. */
  readonly env: Readonly<Record<string, string>>;
  /** A directory of this run's own, for copies; the caller removes it. */
  readonly scratch: string;
  /** Where it is written down that a fix is being applied: see `recoverFiles`. */
  readonly journal: string;
  /** Names this process to whoever finds its journal. */
  readonly owner: string;
  readonly ledger: Ledger;
  /** How many candidates are tried at once: the cores there are. */
  readonly slotCount: number;
  /** For all of it, but for the last verification. */
  readonly timeoutMs: number;
  /** How many answers of the helper are tried. */
  readonly helpCount: number;
  /** Null: no model, the rules alone. */
  readonly helper: Helper | null;
  readonly nowMs: () => number;
  readonly onProgress: (progress: Progress) => void;
  /** Told of each file that is made beside another, before it is made. */
  readonly onAside: (path: string) => void;
  /** Told of what is about to be written, before any of it is; a fault says why it may not be. */
  readonly onApply?: (files: readonly FileText[]) => Result<void>;
};

/** The one state of a run: what it is for, at which revision it is, and what was spent. */
export class Task {
  readonly options: FixOptions;
  readonly ground: Ground;
  readonly beganMs: number;
  triedCount = 0;
  firstMs: number | null = null;
  cost: Cost = NO_COST;

  constructor(options: FixOptions, ground: Ground, beganMs: number) {
    this.options = options;
    this.ground = ground;
    this.beganMs = beganMs;
  }

  get ledger(): Ledger {
    return this.options.ledger;
  }

  /** Since the run began. */
  get elapsedMs(): number {
    return this.options.nowMs() - this.beganMs;
  }

  /** Of the whole time; for a timer, so never less than nothing. */
  get leftMs(): number {
    return Math.max(0, Math.ceil(Math.min(this.options.timeoutMs - this.elapsedMs, TIMER_MAX_MS)));
  }

  stage(text: string): void {
    this.options.onProgress({ kind: "stage", text });
  }

  note(text: string): void {
    this.options.onProgress({ kind: "note", text });
  }

  spend(cost: Cost): void {
    this.cost = costSum(this.cost, cost);
  }

  /** Begins an action of the flow's own, by a rule. */
  begin(operation: Operation, evidence: string, revision: Revision): Open {
    return this.ledger.begin({
      revision,
      evidence,
      operation,
      preconditions: operation.kind === "edit" ? [`revision ${revision}`] : [],
      authorization: operation.kind === "edit" ? "verified" : "copy",
      expected: operation.kind === "test" ? "its exit status" : "",
      verification: "exit status",
      source: "rule",
    });
  }

  outcome(ending: Ending): Outcome {
    const outcome = { ...ending, ...this.#account() };
    this.ledger.note("ended", {
      outcome: ending.kind,
      ...("why" in ending && { why: ending.why }),
      tried: this.triedCount,
      first_ms: this.firstMs,
      ms: outcome.durationMs,
      cost: this.cost,
    });
    return outcome;
  }

  #account(): Account {
    const { triedCount, firstMs, cost, ledger, elapsedMs: durationMs } = this;
    return { task: ledger.task, triedCount, firstMs, durationMs, cost, ledger: ledger.path };
  }
}

/** The files of a candidate, as they are and as it would have them. */
export async function filesOf(candidate: Candidate, { tree }: Ground): Promise<FileText[]> {
  const files: FileText[] = [];
  for (const file of new Set(candidate.edits.map((edit) => edit.file))) {
    const before = await textOf(tree, file);
    if (before === null) throw new Error(`a candidate is about no text: ${file}`);
    files.push({ file, before, after: edited(before, file, candidate.edits) });
  }
  return files;
}

/** The revision of the files that a candidate touches, as they are before it. */
export function baseRevision(files: readonly FileText[]): Revision {
  return revisionOf(new Map(files.map(({ file, before }) => [file, before])));
}
