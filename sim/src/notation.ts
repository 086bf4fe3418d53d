import type { CallOp, EffectOp, PlanItem, SpawnOp } from "@dev/protocol";
import type { Hitch, Line } from "./model.ts";
import type { Part } from "./scenario.ts";

/** What the session's own model says: line by line, over all its turns. */
export function root(...lines: readonly Line[]): Part {
  return { name: "", cue: "", lines };
}

/** What a sub-agent's model says, whose prompt is `be NAME`. */
export function part(name: string, ...lines: readonly Line[]): Part {
  return { name, cue: `be ${name}`, lines };
}

/** What goes wrong with a model, once. */
export function hitch(kind: Hitch["kind"], at: Hitch["at"], of = ""): Hitch {
  return { part: of, at, kind, isLasting: false };
}

export function line(text: string, ...calls: readonly CallOp[]): Line {
  return { text, calls };
}

export function said(text: string): Line {
  return { text, calls: [] };
}

export function exec(...argv: readonly string[]): EffectOp {
  const op = {
    kind: "exec",
    cwd: ".",
    env: [],
    stdin: "",
    timeoutMs: 0,
    background: false,
  } as const;
  return { ...op, argv };
}

export function read(path: string): EffectOp {
  return { kind: "read", path, from: 0, to: 0 };
}

export function write(path: string, text: string): EffectOp {
  return { kind: "write", path, text, expect: "any" };
}

export function patch(path: string, old: string, fresh: string): EffectOp {
  const change = { kind: "edits", edits: [{ old, new: fresh }] } as const;
  return { kind: "patch", path, change, expect: "any" };
}

export function question(text: string): CallOp {
  return { kind: "question", text, choices: ["a", "b"], many: false };
}

/** Has a sub-agent play a part, with these tools; none: all that its parent has. */
export function spawn(name: string, ...tools: readonly string[]): SpawnOp {
  return { kind: "spawn", prompt: `be ${name}`, agent: "", tools };
}

export function plan(...texts: readonly string[]): CallOp {
  return { kind: "plan", items: texts.map((text): PlanItem => ({ text, status: "pending" })) };
}
