import { parseArgs } from "node:util";
import type { Mode } from "@dev/protocol";
import { fail, fault, MODES, ok, type Result } from "@dev/protocol";

/** What a person asked for on the command line. */
export type Command =
  | {
      readonly kind: "exec";
      readonly directory: string;
      readonly model: string | null;
      readonly mode: Mode | null;
      readonly cell: string;
      readonly json: boolean;
      readonly prompt: string;
    }
  | {
      readonly kind: "resume";
      readonly id: string;
      readonly prompt: string | null;
      readonly mode: Mode | null;
      readonly json: boolean;
    }
  | { readonly kind: "sessions"; readonly json: boolean }
  | { readonly kind: "ledger"; readonly id: string; readonly json: boolean }
  | { readonly kind: "diff" | "apply"; readonly id: string; readonly json: boolean }
  | { readonly kind: "doctor"; readonly directory: string; readonly json: boolean }
  | { readonly kind: "version" }
  | { readonly kind: "help"; readonly topic: string | null };

/** The kinds of cell that `--cell` takes. */
export const CELLS = ["local", "bubblewrap"] as const;

type Flag = "directory" | "model" | "mode" | "cell" | "json";

type Shape = {
  readonly flags: readonly Flag[];
  /** What the words after the flags are, for the usage line. */
  readonly words: string;
  readonly wordCount: { readonly least: number; readonly most: number };
  readonly summary: string;
};

/** Every command, as `dev help` shows it. */
export const COMMANDS: Readonly<Record<string, Shape>> = {
  exec: {
    flags: ["directory", "model", "mode", "cell", "json"],
    words: "PROMPT",
    wordCount: { least: 1, most: 1 },
    summary: "do a task and say how it went; `-` reads the prompt from stdin",
  },
  resume: {
    flags: ["mode", "json"],
    words: "ID [PROMPT]",
    wordCount: { least: 1, most: 2 },
    summary: "go on where a session stopped, or give it another prompt",
  },
  sessions: { flags: ["json"], words: "", wordCount: none(), summary: "list sessions" },
  ledger: {
    flags: ["json"],
    words: "ID",
    wordCount: one(),
    summary: "show every action of a session, with its life",
  },
  diff: {
    flags: ["json"],
    words: "ID",
    wordCount: one(),
    summary: "show what a session changed in a workspace of its own",
  },
  apply: {
    flags: ["json"],
    words: "ID",
    wordCount: one(),
    summary: "bring those changes into the directory that they were made for",
  },
  doctor: {
    flags: ["directory", "json"],
    words: "",
    wordCount: none(),
    summary: "check this machine and the settings, and say what to mend",
  },
  help: {
    flags: [],
    words: "[COMMAND]",
    wordCount: { least: 0, most: 1 },
    summary: "show this, or one command's own",
  },
};

function none(): Shape["wordCount"] {
  return { least: 0, most: 0 };
}

function one(): Shape["wordCount"] {
  return { least: 1, most: 1 };
}

const OPTIONS = {
  directory: { type: "string", short: "C" },
  model: { type: "string", short: "m" },
  mode: { type: "string" },
  cell: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

/** Reads the words after `dev`. Fault `usage`: what was wrong and how it is written. */
export function readCommand(words: readonly string[]): Result<Command> {
  const [name, ...rest] = words;
  if (name === undefined || name === "--help" || name === "-h") {
    return ok({ kind: "help", topic: null });
  }
  if (name === "--version" || name === "-V") return ok({ kind: "version" });
  const shape = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (shape === undefined) return noCommand(name);
  let parsed: ReturnType<typeof parseWords>;
  try {
    parsed = parseWords(rest);
  } catch (error) {
    return misused(
      name,
      (error instanceof Error ? error.message : String(error)).split(". ")[0] ?? "",
    );
  }
  if (parsed.values.help === true) return ok({ kind: "help", topic: name });
  for (const flag of Object.keys(parsed.values)) {
    if (!(shape.flags as readonly string[]).includes(flag)) {
      return misused(name, `it takes no ${spelled(flag as Flag)}`);
    }
  }
  const { least, most } = shape.wordCount;
  if (parsed.positionals.length < least) return misused(name, `it needs ${shape.words}`);
  if (parsed.positionals.length > most) {
    return misused(
      name,
      `there is a word too many: "${parsed.positionals[most]}" (quote the prompt)`,
    );
  }
  return build(name, parsed);
}

/** Whether `--json` is among words that may be bad otherwise: then a program reads what is said of them. */
export function asksForJson(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return (end < 0 ? words : words.slice(0, end)).includes("--json");
}

function parseWords(words: readonly string[]) {
  return parseArgs({
    args: [...words],
    options: OPTIONS,
    allowPositionals: true,
    strict: true,
  });
}

function build(name: string, parsed: ReturnType<typeof parseWords>): Result<Command> {
  const { values, positionals } = parsed;
  const [first = "", second = null] = positionals;
  const json = values.json ?? false;
  const directory = values.directory ?? ".";
  const mode = MODES.find((each) => each === values.mode) ?? null;
  if (values.mode !== undefined && mode === null) {
    return misused(name, `--mode is one of ${MODES.join(", ")}, not "${values.mode}"`);
  }
  const cell = values.cell ?? "local";
  if (!(CELLS as readonly string[]).includes(cell)) {
    return misused(name, `--cell is one of ${CELLS.join(", ")}, not "${cell}"`);
  }
  switch (name) {
    case "exec": {
      const model = values.model ?? null;
      return ok({ kind: "exec", directory, model, mode, cell, json, prompt: first });
    }
    case "resume":
      return ok({ kind: "resume", id: first, prompt: second, mode, json });
    case "sessions":
      return ok({ kind: "sessions", json });
    case "ledger":
    case "diff":
    case "apply":
      return ok({ kind: name, id: first, json });
    case "doctor":
      return ok({ kind: "doctor", directory, json });
    default:
      return ok({ kind: "help", topic: first === "" ? null : first });
  }
}

const FLAG_TEXTS: Readonly<Record<Flag, readonly [string, string]>> = {
  directory: ["-C DIR", "work in this directory (default: the current one)"],
  model: ["-m PROVIDER/MODEL", "the model to use (default: `model` in the settings)"],
  mode: [
    "--mode MODE",
    `what needs no asking (on a terminal: ask; else: edits;
of \`resume\`: that of the session's last turn)
plan   only reads, and never asks
ask    reads; and commands in a cell of its own
edits  changes files; runs commands that something confines
full   anything`,
  ],
  cell: [
    "--cell KIND",
    `where it works (default: local)
local       in your directory itself
bubblewrap  in an isolated copy of it: see \`dev diff\``,
  ],
  json: ["--json", "print JSON, one object a line"],
};

/** The text of `dev help [COMMAND]`. Fault `usage`: there is no such command. */
export function helpText(topic: string | null): Result<string> {
  if (topic === null) {
    const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
    const lines = Object.entries(COMMANDS).map(
      ([name, shape]) => `  ${name.padEnd(width)}  ${shape.summary}`,
    );
    return ok(`dev: a coding agent whose effects happen exactly once

${lines.join("\n")}

\`dev help COMMAND\` has a command's flags; \`dev --version\` the version.
Exit codes: 0 complete, 1 failed, 2 bad usage or settings, 3 refused by policy,
4 a limit was reached, 130 interrupted.`);
  }
  const shape = Object.hasOwn(COMMANDS, topic) ? COMMANDS[topic] : undefined;
  if (shape === undefined) return noCommand(topic);
  const flags = shape.flags.map((flag) => FLAG_TEXTS[flag]);
  const width = Math.max(0, ...flags.map(([written]) => written.length));
  const lines = flags.flatMap(([written, text]) => columns(written, width, text));
  return ok([usageLine(topic, shape), `  ${shape.summary}`, "", ...lines].join("\n").trimEnd());
}

/** A flag, and beside it what it does, a line for each of its values. */
function columns(written: string, width: number, text: string): readonly string[] {
  const lines = text.split("\n");
  return lines.map((line, at) => `  ${(at === 0 ? written : "").padEnd(width)}  ${line}`);
}

function usageLine(name: string, shape: Shape): string {
  const flags = shape.flags.map((flag) => `[${FLAG_TEXTS[flag][0]}]`);
  return ["usage: dev", name, ...flags, shape.words].filter((part) => part !== "").join(" ");
}

function spelled(flag: Flag): string {
  return FLAG_TEXTS[flag]?.[0].split(" ")[0] ?? flag;
}

function noCommand(name: string): Result<never> {
  const known = Object.keys(COMMANDS).join(", ");
  return fail(fault("usage", `there is no command "${name}"`, "", `there are: ${known}`));
}

function misused(name: string, message: string): Result<never> {
  const shape = COMMANDS[name];
  const mend = shape === undefined ? "" : usageLine(name, shape);
  return fail(fault("usage", `${name}: ${message}`, "", mend));
}
