import {
  type Action,
  type ActionId,
  type ExecOp,
  type Fault,
  fault,
  never,
  type PatchOp,
  type WriteOp,
} from "@dev/protocol";
import type { Effects, Plan, Recovery } from "./agent.ts";
import type { Clock } from "./clock.ts";
import type { Commands } from "./exec.ts";
import { commit, judge, prepare, readLines } from "./files.ts";
import { gitCommand } from "./git.ts";
import type { Evidence } from "./log.ts";
import { search } from "./search.ts";
import type { Tree } from "./tree.ts";

export type EffectsOptions = {
  readonly tree: Tree;
  readonly commands: Commands;
  readonly rg: string;
  readonly clock: Clock;
  /** The spool's identity: of cells that share a directory, each knows its own files aside by it. */
  readonly identity: string;
};

/** The effects of a real cell: files, processes, ripgrep and git. */
export function cellEffects(options: EffectsOptions): Effects {
  const { commands } = options;
  return {
    plan: (action, signal) => planAction(options, action, signal),
    recover: (id, evidence) => recoverAction(options, id, evidence),
    settled: (id) => commands.settled(id),
    killAll: async () => commands.killAll(),
  };
}

async function planAction(
  options: EffectsOptions,
  action: Action,
  signal: AbortSignal,
): Promise<Plan> {
  const { op, id } = action;
  switch (op.kind) {
    case "read":
      return { kind: "done", outcome: await readLines(options.tree, op) };
    case "search":
      return { kind: "done", outcome: await search(options, op, signal) };
    case "write":
    case "patch":
      return planWrite(options, id, op);
    case "exec":
      return planCommand(options, id, op, "exec");
    case "git": {
      const command = gitCommand(op);
      return command.ok ? planCommand(options, id, command.value, "git") : failed(command.fault);
    }
    case "browse":
    case "tool":
      return failed(fault("unsupported", `a cell performs no ${op.kind}`, `action ${id}`));
    case "model":
    case "question":
    case "emit":
    case "save":
    case "done":
      throw new Error(`no effect: ${op.kind}`);
    default:
      return never(op);
  }
}

async function planWrite(
  options: EffectsOptions,
  id: ActionId,
  op: WriteOp | PatchOp,
): Promise<Plan> {
  const prepared = await prepare(options.tree, op);
  if (!prepared.ok) return failed(prepared.fault);
  const { before, result } = prepared.value;
  return {
    kind: "effect",
    evidence: { kind: "file", path: before.path, result },
    run: async () => {
      const written = await commit(options.tree, prepared.value, tagOf(options, id));
      return written.ok ? { kind: "ok", result } : { kind: "failed", fault: written.fault };
    },
  };
}

function planCommand(
  options: EffectsOptions,
  id: ActionId,
  op: ExecOp,
  family: "exec" | "git",
): Plan {
  const { commands, tree, clock } = options;
  const checked = commands.check(op);
  if (!checked.ok) return failed(checked.fault);
  const cwd = tree.directory(op.cwd);
  if (!cwd.ok) return failed(cwd.fault);
  return {
    kind: "effect",
    evidence: { kind: family, program: op.argv[0] ?? "", startedMs: clock.wallMs() },
    run: (onText, signal) => commands.run({ ...op, cwd: cwd.value, id }, onText, signal),
  };
}

async function recoverAction(
  options: EffectsOptions,
  id: ActionId,
  evidence: Evidence,
): Promise<Recovery> {
  if (evidence.kind !== "file") {
    const known = await options.commands.evidence(id, evidence);
    return { kind: "ended", outcome: { kind: "unknown", known } };
  }
  const judged = await judge(options.tree, evidence, tagOf(options, id));
  switch (judged.kind) {
    case "done":
      return { kind: "ended", outcome: { kind: "ok", result: evidence.result } };
    case "never":
      return { kind: "never" };
    case "unknown":
      return { kind: "ended", outcome: { kind: "unknown", known: judged.known } };
    default:
      return never(judged);
  }
}

function tagOf({ identity }: EffectsOptions, id: ActionId): string {
  return `${identity.slice(0, TAG_LENGTH)}-${id}`;
}

const TAG_LENGTH = 8;

function failed(fault: Fault): Plan {
  return { kind: "done", outcome: { kind: "failed", fault } };
}
