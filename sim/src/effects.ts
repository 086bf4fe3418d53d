import { createHash } from "node:crypto";
import type { Effects, OnText, Plan, Recovery } from "@dev/cell/parts";
import type {
  Action,
  ActionId,
  Digest,
  ExecEnd,
  ExecOp,
  Outcome,
  PatchOp,
  ReadOp,
  WriteOp,
  WriteResult,
} from "@dev/protocol";
import { fault } from "@dev/protocol";
import type { Party, Steps } from "./steps.ts";
import type { World } from "./world.ts";

/** How long one piece of a command's work takes. */
const WORK_MS = 40;

/** Effects on the simulated world, as one agent performs them. */
export function simulatedEffects(world: World, steps: Steps, agent: Party): Effects {
  const site: Site = { world, steps, agent };
  return {
    plan: async (action) => {
      await steps.pass(agent, `plans ${action.id}`);
      return planned(site, action);
    },
    recover: async (id, evidence) => {
      await steps.pass(agent, `recovers ${id}`);
      if (evidence.kind !== "file") return ended({ kind: "unknown", known: "its agent died" });
      return recovered(site, id, evidence.path, evidence.result);
    },
    settled: () => undefined,
    killAll: async () => undefined,
  };
}

type Site = { readonly world: World; readonly steps: Steps; readonly agent: Party };

function planned(site: Site, action: Action): Plan {
  const { op } = action;
  switch (op.kind) {
    case "read":
      return { kind: "done", outcome: read(site.world, op) };
    case "write":
    case "patch":
      return planWrite(site, action.id, op);
    case "exec":
      return {
        kind: "effect",
        evidence: { kind: "exec", program: op.argv[0] ?? "", startedMs: 0 },
        run: (onText, signal) => runCommand(site, action.id, op, onText, signal),
      };
    default:
      throw new Error(`the simulated cell performs no ${op.kind}`);
  }
}

function read(world: World, { path }: ReadOp): Outcome {
  const text = world.files.get(path);
  if (text === undefined) return { kind: "failed", fault: fault("not_found", "no file", path) };
  return {
    kind: "ok",
    result: {
      kind: "read",
      text,
      lossy: false,
      sizeBytes: text.length,
      lineCount: text.split("\n").length,
      digest: digestOf(text),
      cut: false,
    },
  };
}

function planWrite(site: Site, id: ActionId, op: WriteOp | PatchOp): Plan {
  const { world, steps, agent } = site;
  const before = world.files.get(op.path);
  const after = op.kind === "write" ? op.text : patched(before ?? "", op);
  if (after === null) {
    return { kind: "done", outcome: { kind: "failed", fault: fault("no_match", "no", op.path) } };
  }
  const result: WriteResult = {
    kind: "write",
    before: before === undefined ? "absent" : digestOf(before),
    after: digestOf(after),
    sizeBytes: after.length,
    addedLines: 1,
    removedLines: 0,
  };
  const run = async (): Promise<Outcome> => {
    world.begin(id, true);
    await steps.pass(agent, `write ${id} begins`, WORK_MS);
    world.files.set(op.path, after);
    world.happen(id);
    world.outcomes.set(id, { kind: "ok", result });
    await steps.pass(agent, `write ${id} is done`);
    return { kind: "ok", result };
  };
  return { kind: "effect", evidence: { kind: "file", path: op.path, result }, run };
}

function patched(text: string, { change }: PatchOp): string | null {
  if (change.kind !== "edits") throw new Error("the simulated cell reads no diffs");
  let after = text;
  for (const edit of change.edits) {
    if (after.split(edit.old).length !== 2) return null;
    after = after.replace(edit.old, edit.new);
  }
  return after;
}

/** The file tells whether a write that had begun was done. */
function recovered({ world }: Site, id: ActionId, path: string, result: WriteResult): Recovery {
  const text = world.files.get(path);
  const now = text === undefined ? "absent" : digestOf(text);
  if (now === result.after) return ended({ kind: "ok", result });
  if (now === result.before) return { kind: "never" };
  return ended({ kind: "unknown", known: `${id}: the file has changed since` });
}

/**
 * Runs a command: `say WORD`, `fail CODE`, `build COUNT` (output in so many pieces), `crash` (killed
 * by a signal of its own). What it does to the world it does once, after its first piece.
 */
async function runCommand(
  { world, steps, agent }: Site,
  id: ActionId,
  { argv }: ExecOp,
  onText: OnText,
  signal: AbortSignal,
): Promise<Outcome> {
  const [program = "", word = ""] = argv;
  world.begin(id, false);
  const pieces = program === "build" ? Number(word) : 1;
  let stdout = "";
  for (let piece = 1; piece <= pieces; piece++) {
    await steps.pass(agent, `command ${id} runs, ${piece} of ${pieces}`, WORK_MS);
    if (signal.aborted) return { kind: "cancelled", known: `stopped at ${piece} of ${pieces}` };
    if (piece === 1) world.happen(id);
    const text = `${word} ${piece}\n`;
    stdout += text;
    onText("stdout", text);
  }
  const end: ExecEnd =
    program === "crash"
      ? { kind: "signal", signal: "SIGSEGV" }
      : { kind: "exit", code: program === "fail" ? Number(word) : 0 };
  const outcome: Outcome = { kind: "ok", result: { ...QUIET, end, stdout } };
  world.outcomes.set(id, outcome);
  await steps.pass(agent, `command ${id} has ended`);
  return outcome;
}

const QUIET = {
  kind: "exec",
  stderr: "",
  stdoutCutBytes: 0,
  stderrCutBytes: 0,
  durationMs: 1,
  outputPath: "",
} as const;

function ended(outcome: Outcome): Recovery {
  return { kind: "ended", outcome };
}

function digestOf(text: string): Digest {
  return createHash("sha256").update(text).digest("hex") as Digest;
}
