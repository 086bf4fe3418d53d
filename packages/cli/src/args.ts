import { parseArgs } from "node:util";
import type { Mode } from "@dev/protocol";
import { fail, fault, MODES, ok, type Result } from "@dev/protocol";
import { COMMANDS, type Shape } from "./commands.ts";
import { type ConnectCommand, connectCommand } from "./connect-args.ts";
import { type FixCommand, fixCommand } from "./fix-args.ts";
import { FLAG_TEXTS, type Flag, NOTES } from "./flag.ts";

export { COMMANDS };

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
      /** Paths of images that go with the prompt. */
      readonly images: readonly string[];
    }
  | {
      readonly kind: "resume";
      readonly id: string;
      readonly prompt: string | null;
      readonly images: readonly string[];
      readonly mode: Mode | null;
      readonly json: boolean;
    }
  | { readonly kind: "shell"; readonly id: string; readonly argv: readonly string[] }
  | { readonly kind: "sessions"; readonly json: boolean }
  | { readonly kind: "ledger"; readonly id: string; readonly json: boolean }
  | { readonly kind: "apply"; readonly id: string; readonly json: boolean }
  | {
      readonly kind: "diff";
      readonly id: string;
      /** Checkpoints, as a person names them; null: as the workspace was taken, and as it is now. */
      readonly from: string | null;
      readonly to: string | null;
      readonly json: boolean;
    }
  /** `to`: null to list what there is. */
  | {
      readonly kind: "rewind";
      readonly id: string;
      readonly to: string | null;
      readonly json: boolean;
    }
  | {
      readonly kind: "fork";
      readonly id: string;
      readonly at: string | null;
      readonly json: boolean;
    }
  | ExportCommand
  | ImportCommand
  | { readonly kind: "gc"; readonly json: boolean }
  | FixCommand
  | ConnectCommand
  | { readonly kind: "doctor"; readonly directory: string; readonly json: boolean }
  | { readonly kind: "version" }
  | { readonly kind: "help"; readonly topic: string | null };

/** `dev export`: a workspace, as it is or was at a checkpoint, as a tar. */
export type ExportCommand = {
  readonly kind: "export";
  readonly id: string;
  readonly file: string;
  readonly at: string | null;
  readonly json: boolean;
};

/** `dev import`: a tar as the workspace of a new session. */
export type ImportCommand = {
  readonly kind: "import";
  readonly file: string;
  readonly directory: string;
  readonly model: string | null;
  readonly json: boolean;
};

/** The kinds of cell that `--cell` takes. */
export const CELLS = ["local", "bubblewrap", "gvisor", "container", "runc"] as const;

const OPTIONS = {
  directory: { type: "string", short: "C" },
  model: { type: "string", short: "m" },
  mode: { type: "string" },
  cell: { type: "string" },
  image: { type: "string", multiple: true },
  json: { type: "boolean" },
  max: { type: "string" },
  budget: { type: "string" },
  timeout: { type: "string" },
  "no-model": { type: "boolean" },
  list: { type: "boolean" },
  server: { type: "string" },
  workspace: { type: "string", multiple: true },
  name: { type: "string" },
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
  if (shape.isCommand === true && !isAfterDashes(rest, parsed.positionals.length)) {
    return misused(name, `it needs ${shape.words}`);
  }
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

/** Whether the positional words, so many, are all of those after `--`. */
function isAfterDashes(words: readonly string[], count: number): boolean {
  const dashes = words.indexOf("--");
  return dashes >= 0 && words.length - dashes - 1 === count;
}

function build(name: string, parsed: ReturnType<typeof parseWords>): Result<Command> {
  const { values, positionals } = parsed;
  const [first = "", second = null, third = null] = positionals;
  const json = values.json ?? false;
  const directory = values.directory ?? ".";
  if (name === "fix") return built(name, fixCommand(values, positionals));
  if (name === "connect") return built(name, connectCommand(values));
  const images = values.image ?? [];
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
      return ok({ kind: "exec", directory, model, mode, cell, json, prompt: first, images });
    }
    case "resume":
      if (images.length > 0 && second === null) {
        return misused(name, "--image goes with a prompt, and there is none");
      }
      return ok({ kind: "resume", id: first, prompt: second, images, mode, json });
    case "shell":
      return ok({ kind: "shell", id: first, argv: positionals.slice(1) });
    case "sessions":
      return ok({ kind: "sessions", json });
    case "ledger":
    case "apply":
      return ok({ kind: name, id: first, json });
    case "diff":
      return ok({ kind: name, id: first, from: second, to: third, json });
    case "rewind":
      return ok({ kind: name, id: first, to: values.list === true ? null : second, json });
    case "fork":
      return ok({ kind: name, id: first, at: second, json });
    case "export":
      return ok({ kind: name, id: first, file: second ?? "", at: third, json });
    case "import":
      return ok({ kind: name, file: first, directory, model: values.model ?? null, json });
    case "gc":
      return ok({ kind: name, json });
    case "doctor":
      return ok({ kind: "doctor", directory, json });
    default:
      return ok({ kind: "help", topic: first === "" ? null : first });
  }
}

/** A command, or what was wrong with its words. */
function built(name: string, command: Command | string): Result<Command> {
  return typeof command === "string" ? misused(name, command) : ok(command);
}

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
4 a limit was reached, 130 interrupted; \`dev help fix\` has those of \`fix\`.`);
  }
  const shape = Object.hasOwn(COMMANDS, topic) ? COMMANDS[topic] : undefined;
  if (shape === undefined) return noCommand(topic);
  const flags = shape.flags.map((flag) => textOf(shape, flag));
  const width = Math.max(0, ...flags.map(([written]) => written.length));
  const lines = flags.flatMap(([written, text]) => columns(written, width, text));
  const note = Object.hasOwn(NOTES, topic) ? ["", NOTES[topic]] : [];
  const text = [usageLine(topic, shape), `  ${shape.summary}`, "", ...lines, ...note];
  return ok(text.join("\n").trimEnd());
}

function textOf(shape: Shape, flag: Flag): readonly [string, string] {
  return shape.own?.[flag] ?? FLAG_TEXTS[flag];
}

/** A flag, and beside it what it does, a line for each of its values. */
function columns(written: string, width: number, text: string): readonly string[] {
  const lines = text.split("\n");
  return lines.map((line, at) => `  ${(at === 0 ? written : "").padEnd(width)}  ${line}`);
}

function usageLine(name: string, shape: Shape): string {
  const flags = shape.flags.map((flag) => `[${textOf(shape, flag)[0]}]`);
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
