import type { CallOp, DoneOp, EffectOp, Mode } from "@dev/protocol";
import type { LayeredRule } from "@dev/session";
import type { Hitch, Line } from "./model.ts";

/** What a person and a model do in a session, and how it ends when nothing goes wrong. */
export type Scenario = {
  readonly name: string;
  readonly prompts: readonly string[];
  readonly mode: Mode;
  readonly lines: readonly Line[];
  readonly hitches: readonly Hitch[];
  readonly rules: readonly LayeredRule[];
  readonly files: Readonly<Record<string, string>>;
  /** The person stops the turn when something comes to a point whose name begins so. */
  readonly stopAt: string | null;
  /** The link breaks, whatever else does, at such a point. */
  readonly cutAt: string | null;
  /** What the person says to whatever is asked. */
  readonly permits: "once" | "no";
  /** How its turns end. */
  readonly ends: readonly DoneOp["outcome"][];
};

const PLAIN: Omit<Scenario, "name" | "lines"> = {
  prompts: ["do it"],
  mode: "full",
  hitches: [],
  rules: [],
  files: {},
  stopAt: null,
  cutAt: null,
  permits: "once",
  ends: ["complete"],
};

export const SCENARIOS: readonly Scenario[] = [
  { ...PLAIN, name: "exec", lines: [line("I run it", exec("say", "hello")), said("done")] },
  {
    ...PLAIN,
    name: "batch",
    files: { "a.txt": "one" },
    lines: [
      line("all at once", read("a.txt"), write("b.txt", "two"), exec("say", "three")),
      said("done"),
    ],
  },
  {
    ...PLAIN,
    name: "patch",
    files: { "a.txt": "one two" },
    lines: [
      line("first", patch("a.txt", "one", "1")),
      line("then", patch("a.txt", "two", "2"), patch("a.txt", "absent", "3")),
      line("and", exec("fail", "3")),
      said("done"),
    ],
  },
  { ...PLAIN, name: "long", lines: [line("it takes a while", exec("build", "5")), said("done")] },
  {
    ...PLAIN,
    name: "turns",
    prompts: ["first", "second"],
    lines: [line("", exec("say", "1")), said("one"), line("", exec("say", "2")), said("two")],
    ends: ["complete", "complete"],
  },
  {
    ...PLAIN,
    name: "stop-exec",
    prompts: ["first", "second"],
    lines: [line("", exec("build", "9"), exec("build", "8")), said("done")],
    stopAt: "command 2 runs, 3",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "stop-model",
    prompts: ["first", "second"],
    lines: [line("", exec("say", "1")), said("I was about to say"), said("done")],
    stopAt: "hears some of line 1",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "refused",
    rules: [{ layer: "user", decision: "deny", ops: ["exec"], reason: "no commands" }],
    lines: [line("", exec("say", "1"), write("a.txt", "1")), said("done")],
  },
  {
    ...PLAIN,
    name: "stop-refused",
    prompts: ["first", "second"],
    rules: [{ layer: "user", decision: "deny", ops: ["exec"] }],
    lines: [line("", exec("say", "1"), exec("say", "2"), write("a.txt", "1")), said("done")],
    stopAt: "store append exec 3",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "permitted",
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    lines: [line("", exec("say", "1"), exec("say", "2"), write("a.txt", "1")), said("done")],
  },
  {
    ...PLAIN,
    name: "denied",
    permits: "no",
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    lines: [line("", exec("say", "1"), write("a.txt", "1")), said("done")],
  },
  {
    ...PLAIN,
    name: "stop-permit",
    prompts: ["first", "second"],
    rules: [{ layer: "user", decision: "ask", ops: ["exec"] }],
    lines: [line("", exec("say", "1"), write("a.txt", "1")), said("done")],
    stopAt: "is asked to permit",
    ends: ["cancelled", "complete"],
  },
  {
    ...PLAIN,
    name: "question",
    lines: [line("", question("which?"), exec("say", "1")), said("done")],
  },
  {
    ...PLAIN,
    name: "hitch",
    prompts: ["first", ""],
    lines: [line("", exec("say", "1")), said("done")],
    hitches: [
      { at: 0, kind: "retried" },
      { at: 1, kind: "cut" },
    ],
    ends: ["failed", "complete"],
  },
  {
    ...PLAIN,
    name: "relink",
    lines: [line("", exec("build", "6"), exec("build", "2")), said("done")],
    cutAt: "command 2 runs, 2",
  },
  { ...PLAIN, name: "killed", lines: [line("", exec("crash", "now")), said("done")] },
];

export function scenarioNamed(name: string): Scenario {
  const found = SCENARIOS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no scenario is called ${name}`);
  return found;
}

function line(text: string, ...calls: readonly CallOp[]): Line {
  return { text, calls };
}

function said(text: string): Line {
  return { text, calls: [] };
}

function exec(...argv: readonly string[]): EffectOp {
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

function read(path: string): EffectOp {
  return { kind: "read", path, from: 0, to: 0 };
}

function write(path: string, text: string): EffectOp {
  return { kind: "write", path, text, expect: "any" };
}

function patch(path: string, old: string, fresh: string): EffectOp {
  const change = { kind: "edits", edits: [{ old, new: fresh }] } as const;
  return { kind: "patch", path, change, expect: "any" };
}

function question(text: string): CallOp {
  return { kind: "question", text, choices: ["a", "b"], many: false };
}
