import * as v from "valibot";
import { defineTool, type Tool, unless } from "./tool.ts";

/** A day: a command that must outlive it is run in the background. */
const TIMEOUT_LIMIT_MS = 86_400_000;
/** Words of one command line. */
const ARGV_LIMIT = 4096;
const SHELL: readonly string[] = ["/bin/sh", "-c"];
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The words of a command. */
export const argv = (what: string): v.GenericSchema<string[]> =>
  v.pipe(
    v.array(v.string()),
    v.minLength(1, "expected at least one word"),
    v.maxLength(ARGV_LIMIT, `expected at most ${ARGV_LIMIT} words`),
    v.description(what),
  );

const flag = (what: string) => v.optional(v.pipe(v.boolean(), v.description(what)), false);

export const EXEC: Tool = defineTool({
  name: "exec",
  description:
    "Runs a program in the workspace and waits for it. Give either argv, which no shell reads, or command, which /bin/sh reads. Answers with the exit code or signal, stdout and stderr; the middle of long output is cut, and a path to the whole is given. An exit code other than 0 is an answer, not a failure. Fails if the program cannot be started; killed at its timeout.",
  schema: v.strictObject({
    argv: v.optional(argv('The program and its arguments, such as ["npm", "test"].')),
    command: v.optional(
      v.pipe(
        v.string(),
        v.nonEmpty("expected a command that is not empty"),
        v.description("A command line for /bin/sh -c, such as npm test | tail -20."),
      ),
    ),
    cwd: v.optional(v.pipe(v.string(), v.description("Relative to the workspace.")), "."),
    env: v.optional(
      v.pipe(
        v.record(v.string(), v.string()),
        v.description("Variables to add, as an object of names and texts."),
      ),
      {},
    ),
    stdin: v.optional(
      v.pipe(v.string(), v.description("Its standard input; empty is a closed one.")),
      "",
    ),
    timeoutMs: v.optional(
      v.pipe(
        v.number(),
        v.integer("expected a whole number of milliseconds"),
        v.minValue(0, "expected 0 or more"),
        v.maxValue(TIMEOUT_LIMIT_MS, `expected at most ${TIMEOUT_LIMIT_MS}`),
        v.description("When to kill it, in milliseconds; 0 is the usual limit."),
      ),
      0,
    ),
    background: flag("Answer at once and let it run on, for a server or a watcher."),
  }),
  toOp: ({ argv, command, env, ...rest }) => {
    const names = Object.keys(env);
    const bad = names.find((name) => !VARIABLE.test(name));
    if (bad !== undefined) return `env: expected names of variables, got ${JSON.stringify(bad)}`;
    const words = command === undefined ? argv : [...SHELL, command];
    if (argv !== undefined && command !== undefined) return "argv, command: expected one, got both";
    if (words === undefined) return "argv: missing; expected argv, a list of words, or command";
    const variables = names.map((name) => ({ name, value: env[name] ?? "" }));
    return { kind: "exec", argv: words, env: variables, ...rest };
  },
  toArguments: (op) => ({
    ...commandLine(op.argv),
    cwd: unless(op.cwd, "."),
    env:
      op.env.length === 0
        ? undefined
        : Object.fromEntries(op.env.map(({ name, value }) => [name, value])),
    stdin: unless(op.stdin, ""),
    timeoutMs: unless(op.timeoutMs, 0),
    background: unless(op.background, false),
  }),
});

export const GIT: Tool = defineTool({
  name: "git",
  description:
    "Runs git in the workspace. Answers like exec: exit code, stdout and stderr. Fails if git cannot be started.",
  schema: v.strictObject({
    argv: argv('Its arguments without the leading git, such as ["diff", "--stat"].'),
  }),
  // Models often repeat the program's name, and git has no command of that name.
  toOp: ({ argv }) => {
    const words = argv[0] === "git" ? argv.slice(1) : argv;
    return words.length === 0
      ? "argv: expected a command of git after its name"
      : { kind: "git", argv: words };
  },
  toArguments: (op) => ({ argv: [...op.argv] }),
});

/** A shell's command line as a model gives it: it imitates what it reads of itself. */
function commandLine(argv: readonly string[]): { argv: string[] } | { command: string } {
  const [shell, option, command, ...more] = argv;
  return shell === SHELL[0] && option === SHELL[1] && command && more.length === 0
    ? { command }
    : { argv: [...argv] };
}
