import { dirname, join, relative, sep } from "node:path";
import { credentialsOf, passedOn } from "@dev/cell";
import { type FileText, recoverFiles } from "@dev/kai";
import { type FixCall, fixCall } from "@dev/model";
import { type Fault, fail, fault, type Outcome, ok, type Result } from "@dev/protocol";
import type { Operation, Operations } from "@dev/session";
import { markOf, removeMark, writeMark, writtenSince } from "./fix-mark.ts";
import { fixModel } from "./fix-model.ts";
import { placeOf, runFix } from "./fix-run.ts";
import { type FoundTree, findTree } from "./fix-tree.ts";
import { accountText, outcomeText, ranText } from "./fix-watch.ts";
import { isHolderAlive } from "./holder.ts";
import type { Home } from "./home.ts";
import type { Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { randomBytes } from "./world.ts";

/** Of what a model is told of a run. */
const TOLD_CHARS = 16_000;

export type FixOperationOptions = {
  readonly home: Home;
  readonly settings: Settings;
  readonly terminal: Terminal;
  /** `local`: the workspace is the person's own directory, and may be part of a repository. */
  readonly vendor: string;
};

/** The operations that a session's agent can call: `fix`, which is `dev fix` on its workspace. */
export function fixOperations(options: FixOperationOptions): Operations {
  const { home } = options;
  return {
    async perform(operation, signal) {
      try {
        return await performed(operation, options, signal);
      } catch (error) {
        if (!signal.aborted) throw error;
        return { kind: "cancelled", known: "It was stopped while it looked: nothing was changed." };
      }
    },
    async settled({ session, action }) {
      // A change of which a part is there is taken back; what was written whole stays.
      await recoverFiles(join(home.state, "kai", "journal"), isHolderAlive);
      const files = writtenSince(markOf(home, session, action.id));
      if (files.length === 0) return null;
      const known = `It had a change that was verified, and was writing it: ${files.join(", ")}.`;
      return { kind: "unknown", known: `${known} Look at them, and run the command.` };
    },
    forget: (session, action) => removeMark(markOf(home, session, action)),
  };
}

async function performed(
  operation: Operation,
  options: FixOperationOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const { action, workspace, session, withheld, onOutput } = operation;
  const { home, terminal, settings, vendor } = options;
  const call = action.op.kind === "tool" ? fixCall(action.op) : null;
  if (call === null) return failed(fault("usage", "the call cannot be read"));
  const tree = treeOf(call, workspace, vendor);
  if (!tree.ok) return failed(tree.fault);
  const model = modelFor(call, options);
  if (!model.ok) return failed(model.fault);
  const chance = Buffer.from(randomBytes(terminal)).toString("hex");
  const place = placeOf(home, chance);
  if (!place.ok) return failed(place.fault);
  const say = (text: string): void => onOutput(`${text}\n`);
  const restored = await recoverFiles(place.value.journal, isHolderAlive);
  for (const path of restored) say(`put back what a run that was killed had begun: ${path}`);
  const { directory } = tree.value;
  const outcome = await runFix(
    {
      argv: call.argv,
      env: passedOn(terminal.env),
      timeoutMs: call.timeoutSeconds * 1_000,
      helpCount: call.modelCalls,
      decisions: "rule",
      place: place.value,
      chance,
      masked: [...credentialsOf(terminal.env.HOME), home.state, dirname(home.config)],
      settings,
      model: model.value,
      terminal,
      onBegan: () => undefined,
      onNote: say,
      onProgress: (progress) => {
        if (progress.kind === "ran") say(ranText(progress));
        if (progress.kind === "note") say(progress.text);
      },
      onApply: (files) => {
        const refusal = refusalOf(files, directory, workspace, withheld);
        if (refusal !== null) return fail(fault("unsupported", refusal));
        writeMark(markOf(home, session, action.id), directory, files);
        return ok(undefined);
      },
    },
    tree.value,
    signal,
  );
  if (!outcome.ok) return failed(outcome.fault);
  const { diffs, lines } = outcomeText(outcome.value);
  const text = [...lines, accountText(outcome.value), diffs].join("\n");
  const isDone = outcome.value.kind === "verified" || outcome.value.kind === "passes";
  return { kind: "ok", result: { kind: "tool", text: shortened(text), failed: !isDone } };
}

/** The tree of a call; of a cell with a copy of its own, nothing above that. */
function treeOf({ cwd }: FixCall, workspace: string, vendor: string): Result<FoundTree> {
  const own = join(workspace, cwd);
  const found = findTree(own, vendor === "local" ? null : workspace);
  if (!found.ok || isInside(relative(workspace, found.value.given))) return found;
  return fail(fault("usage", "the directory is outside the workspace", cwd));
}

/** A session with a limit in money counts what it costs itself: what it cannot count is not spent. */
function modelFor({ modelCalls }: FixCall, { settings, terminal }: FixOperationOptions) {
  const isLimited = (settings.limits.costMicroUsdPerSession ?? 0) > 0;
  const isModelAllowed = modelCalls > 0 && !isLimited;
  return fixModel({ isModelAllowed, budget: null }, settings, terminal.env);
}

/** Why a change may not be written by this session; null if it may. */
function refusalOf(
  files: readonly FileText[],
  directory: string,
  workspace: string,
  withheld: Operation["withheld"],
): string | null {
  for (const { file } of files) {
    const path = relative(workspace, join(directory, file));
    const why = isInside(path) ? withheld(path) : "it is outside the workspace";
    if (why !== null) return `a change of ${path} passes, and may not be written: ${why}`;
  }
  return null;
}

function isInside(path: string): boolean {
  return path !== ".." && !path.startsWith(`..${sep}`) && !path.startsWith("/");
}

function failed(fault: Fault): Outcome {
  return { kind: "failed", fault };
}

function shortened(text: string): string {
  return text.length > TOLD_CHARS ? `${text.slice(0, TOLD_CHARS)}\n(cut here)` : text;
}
