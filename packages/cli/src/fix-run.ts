import { availableParallelism } from "node:os";
import {
  type FileText,
  type Helper,
  type Ledger,
  fix as mend,
  type Outcome,
  openLedger,
  type Progress,
} from "@dev/kai";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { FixCommand } from "./fix-args.ts";
import { openGuard } from "./fix-guard.ts";
import { type FixModel, openFixHelp } from "./fix-model.ts";
import { type FixPlace, makePlace } from "./fix-place.ts";
import { openFixShell } from "./fix-shell.ts";
import type { FoundTree } from "./fix-tree.ts";
import type { Began } from "./fix-watch.ts";
import type { Home } from "./home.ts";
import type { Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

const SLOT_COUNT = 8;

/** What is to be mended, and whom it is told. */
export type FixRun = {
  readonly argv: readonly string[];
  /** The whole environment of the command. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly helpCount: number;
  readonly decisions: FixCommand["decisions"];
  readonly place: FixPlace;
  /** Names the run, after `fix_`. */
  readonly chance: string;
  /** Directories and files that no process of it may see. */
  readonly masked: readonly string[];
  readonly settings: Settings;
  /** Null: none is asked. */
  readonly model: FixModel | null;
  readonly terminal: Terminal;
  readonly onBegan: (began: Began) => void;
  readonly onNote: (text: string) => void;
  readonly onProgress: (progress: Progress) => void;
  readonly onApply: (files: readonly FileText[]) => Result<void>;
};

/** Runs the flow on a tree. Faults: `io`, `config`. Rejects when aborted, and then the tree is as it was. */
export async function runFix(
  run: FixRun,
  tree: FoundTree,
  signal: AbortSignal,
): Promise<Result<Outcome>> {
  const { decisions, place, chance, settings, model: given, terminal } = run;
  const { nowMs, env } = terminal;
  const ledger = openLedger({ path: place.ledger, task: `fix_${chance}`, env, nowMs });
  if (given === null) return ok(await mended(run, tree, ledger, null, signal));
  const { spend } = place;
  const help = await openFixHelp({ given, decisions, settings, terminal, spend, ledger });
  if (!help.ok) return help;
  try {
    return ok(await mended(run, tree, ledger, help.value.helper, signal));
  } finally {
    await help.value.close();
    ledger.flush();
  }
}

async function mended(
  run: FixRun,
  { directory, cwd }: FoundTree,
  ledger: Ledger,
  helper: Helper | null,
  signal: AbortSignal,
): Promise<Outcome> {
  const { argv, env, place, masked, settings, terminal } = run;
  const guard = openGuard(place.run, env.PATH ?? "/usr/bin:/bin");
  try {
    const { confine } = settings;
    const shell = await openFixShell({ place: place.run, directory, env, guard, masked, confine });
    if (shell.unconfined !== null) {
      run.onNote(`nothing confines what is run: ${shell.unconfined.message}`);
    }
    run.onBegan({ task: ledger.task, directory, cwd, argv });
    return await mend(
      {
        shell: shell.shell,
        directory,
        cwd,
        argv,
        env,
        scratch: place.run,
        journal: place.journal,
        owner: place.owner,
        ledger,
        slotCount: Math.min(SLOT_COUNT, availableParallelism()),
        timeoutMs: run.timeoutMs,
        helpCount: run.helpCount,
        helper,
        nowMs: terminal.nowMs,
        onProgress: run.onProgress,
        onAside: (path) => guard.aside(path),
        onApply: run.onApply,
      },
      signal,
    );
  } finally {
    await guard.close();
  }
}

/** Makes a run's place. Fault: `config`. */
export function placeOf(home: Home, chance: string): Result<FixPlace> {
  try {
    return ok(makePlace(home, chance));
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const message = `the state directory cannot be used: ${error.message}`;
    return fail(fault("config", message, home.state, "set DEV_HOME to a directory of yours"));
  }
}
