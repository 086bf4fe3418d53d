import { recoverFiles } from "@dev/kai";
import { ok, type Result } from "@dev/protocol";
import { type ExitCode, FIX_EXIT } from "./exit.ts";
import type { FixCommand } from "./fix-args.ts";
import { fixModel } from "./fix-model.ts";
import { placeOf, runFix } from "./fix-run.ts";
import { findTree } from "./fix-tree.ts";
import { type FixWatch, fixWatch } from "./fix-watch.ts";
import { isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { randomBytes } from "./world.ts";

const LIMITS = {
  /** Where no model is asked there is nothing else to wait for. */
  timeoutS: 60,
  modelTimeoutS: 600,
  helpCount: 6,
} as const;

/** `dev fix`: brings a failing test command to pass, or says that it did not. */
export async function fix(command: FixCommand, home: Home, terminal: Terminal): Promise<ExitCode> {
  const watch = fixWatch(terminal, command.json);
  const found = findTree(command.directory);
  if (!found.ok) return misused(watch, found);
  const settings = loadSettings(home, found.value.given);
  if (!settings.ok) return misused(watch, settings);
  const chance = Buffer.from(randomBytes(terminal)).toString("hex");
  const model = fixModel(command, settings.value, terminal.env);
  if (!model.ok) return misused(watch, model);
  const place = placeOf(home, chance);
  if (!place.ok) return misused(watch, place);
  const { signal, release } = terminal.interrupts();
  try {
    const restored = await recoverFiles(place.value.journal, isHolderAlive);
    for (const path of restored)
      watch.note(`put back what a run that was killed had begun: ${path}`);
    if (command.isModelAllowed && model.value === null) {
      watch.note(`no model is configured, so that none is asked: see model in ${home.config}`);
    }
    const usualS = model.value === null ? LIMITS.timeoutS : LIMITS.modelTimeoutS;
    const outcome = await runFix(
      {
        argv: command.argv,
        env: plain(terminal.env),
        timeoutMs: (command.timeoutS ?? usualS) * 1_000,
        helpCount: command.max ?? LIMITS.helpCount,
        decisions: command.decisions,
        place: place.value,
        chance,
        masked: [],
        settings: settings.value,
        model: model.value,
        terminal,
        onBegan: (began) => watch.began(began),
        onNote: (text) => watch.note(text),
        onProgress: (progress) => watch.progress(progress),
        onApply: () => ok(undefined),
      },
      found.value,
      signal,
    );
    if (!outcome.ok) return misused(watch, outcome);
    watch.ended(outcome.value);
    return FIX_EXIT[outcome.value.kind];
  } catch (error) {
    if (!signal.aborted) throw error;
    watch.stopped();
    return FIX_EXIT.interrupted;
  } finally {
    release();
  }
}

function misused(watch: FixWatch, failed: Extract<Result<never>, { ok: false }>): ExitCode {
  watch.failed(failed.fault);
  return FIX_EXIT.usage;
}

/** The person's own variables, but for those that are Dev's. */
function plain(env: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined || name.startsWith("DEV_") ? [] : [[name, value] as const],
    ),
  );
}
