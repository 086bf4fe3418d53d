import type { Command } from "../report/report.ts";
import type { Warmth } from "./warm.ts";
import { unwrapped } from "./words.ts";

/** Options with which a run is not the collecting and running of tests in one process. */
const UNFIT =
  /^(-n|--numprocesses|--dist|--forked|--boxed|--lf|--last-failed|--ff|--failed-first|--nf|--new-first|--sw|--stepwise|--cache-clear|--pdb|--trace|--collect-only|--co|--setup-plan|--fixtures|--looponfail|--cov.*)(=.*|\d*|auto)?$/;

/**
 * The ways to run a pytest command warm, the cheaper first; none where it is no such command. `programs`
 * is the directory that holds the worker's modules, `origin` the directory that the tree was taken from.
 */
export function pytestWarmths(
  command: Command,
  programs: string,
  origin: string,
): readonly Warmth[] {
  const argv = pytestCommand(command, "kai_worker");
  if (argv === null) return [];
  return (["collected", "fresh"] as const).map((mode) => ({
    name: mode === "collected" ? "pytest forked after collecting" : "pytest forked",
    isShared: true,
    isQueued: true,
    isCovering: mode === "collected",
    mends: "written",
    namesTests: true,
    start: (slot) => {
      const start = slot.start({ argv, cwd: command.cwd }, "pipe");
      const path = [programs, start.env.PYTHONPATH].filter((part) => part).join(":");
      const mine = { KAI_MODE: mode, KAI_ROOT: slot.copy.dir, KAI_ORIGIN: origin };
      return { ...start, env: { ...start.env, ...mine, PYTHONPATH: path } };
    },
  }));
}

/** A pytest command with a plugin of ours; whatever starts pytest starts it still. Null for other commands. */
export function pytestCommand(command: Command, plugin: string): readonly string[] | null {
  const argv = unwrapped(command.argv);
  const at = argv.findIndex((word) => /^(.*\/)?(pytest|py\.test)$/.test(word));
  if (at < 0) return null;
  const rest = argv.slice(at + 1);
  if (rest.some((word) => UNFIT.test(word))) return null;
  const plugins = ["-p", plugin, "-p", "no:cacheprovider"];
  return [...argv.slice(0, at + 1), ...plugins, ...rest];
}
