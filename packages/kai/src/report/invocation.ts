import { existsSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";
import type { Command, Runner } from "./report.ts";
import { wordsOf } from "./shell-words.ts";

/** A command taken apart down to the call of a test runner. */
export type Invocation = {
  readonly runner: Runner;
  /** What starts the runner, such as `python3 -m pytest`, with what was before it, such as `env A=1`. */
  readonly head: readonly string[];
  readonly args: readonly string[];
  /** Relative to the workspace. */
  readonly cwd: string;
};

/** The runner that a command's words name, through shells, scripts and makefiles; `directory` is the workspace. */
export function runnerOf(command: Command, directory: string): Runner {
  return look(command, start(directory)).runner;
}

/** The call of a runner that is all that a command does; null where there is more to it, or it is not known. */
export function invocationOf(command: Command, directory: string): Invocation | null {
  return look(command, start(directory)).call;
}

/** `call` is null where the command does more than to call the runner. */
type Look = { readonly runner: Runner; readonly call: Invocation | null };

const nothing: Look = { runner: "unknown", call: null };
const depthLimit = 8;
const sizeLimit = 1_000_000;

/** What is being looked into: `bound` where the programs of installed packages are called by their names. */
type Where = {
  readonly cwd: string;
  readonly directory: string;
  readonly depth: number;
  readonly bound: boolean;
};

const start = (directory: string): Where => ({ cwd: ".", directory, depth: 0, bound: false });

function look(command: Command, around: Where): Look {
  const where = { ...around, cwd: command.cwd, depth: around.depth + 1 };
  const [before, argv] = prefixed(command.argv);
  const [name, ...args] = argv;
  if (name === undefined || where.depth > depthLimit) return nothing;
  const found = lookIn(posix.basename(name), args, where);
  if (found !== null) {
    if (found.call === null) return found;
    return { ...found, call: { ...found.call, head: [...before, ...found.call.head] } };
  }
  const direct = directly(argv);
  if (direct === null) return nothing;
  const [runner, count] = direct;
  const own = where.bound && /^(?:vitest|jest|_?mocha)$/.test(name);
  const program = own ? programOf(name, where) : [name];
  const head = [...before, ...program, ...argv.slice(1, count)];
  return { runner, call: { runner, head, args: argv.slice(count), cwd: where.cwd } };
}

/** What a shell, a package manager or `make` goes on to run; null where the command is none of them. */
function lookIn(name: string, args: readonly string[], where: Where): Look | null {
  if (/^(?:sh|bash|dash|zsh|ash)$/.test(name)) return inShell(args, where);
  if (name === "npx" || name === "bunx" || name === "pnpx") return inPackage(args, where);
  if (/^(?:npm|pnpm|yarn|bun)$/.test(name)) return inManager(name, args, where);
  if (name === "make" || name === "gmake") return inMake(args, where);
  return null;
}

/** Words before a command that only set how it is run. */
function prefixed(argv: readonly string[]): readonly [readonly string[], readonly string[]] {
  let at = 0;
  const next = (): string => posix.basename(argv[at] ?? "");
  for (let count = 0; count < depthLimit; count += 1) {
    const assigned = at;
    while (/^[A-Za-z_]\w*=/.test(argv[at] ?? "")) at += 1;
    if (next() === "env" || next() === "cross-env" || next() === "time" || next() === "nice")
      at += 1;
    else if (next() === "timeout" && /^\d/.test(argv[at + 1] ?? "")) at += 2;
    else if (/^(?:uv|poetry|pipenv|pdm|hatch|rye)$/.test(next()) && argv[at + 1] === "run") at += 2;
    else if (/^(?:c8|nyc)$/.test(next()) && !(argv[at + 1] ?? "-").startsWith("-")) at += 1;
    else if (at === assigned) break;
  }
  const before = argv.slice(0, at);
  // Without a shell, what sets a variable has to be a command.
  const set = /^[A-Za-z_]\w*=/.test(before[0] ?? "") ? ["env", ...before] : before;
  return [set, argv.slice(at)];
}

const scripts = /\.(?:[cm]?[jt]s|py)$/;

/** The runner that a command calls itself, and how many of its words are the call. */
function directly(argv: readonly string[]): readonly [Runner, number] | null {
  const name = posix.basename(argv[0] ?? "");
  const named = (pattern: RegExp): boolean => pattern.test(name);
  if (named(/^(?:pytest|py\.test)$/)) return ["pytest", 1];
  if (named(/^(?:python[\d.]*|pypy[\d.]*)$/)) {
    const at = argv.indexOf("-m");
    const script = argv.findIndex((word) => scripts.test(word));
    if (at < 0 || (script >= 0 && script < at)) return null;
    const module = argv[at + 1];
    if (module === "pytest" || module === "unittest") return [module, at + 2];
    return null;
  }
  if (named(/^(?:vitest|jest|mocha)(?:\.[cm]?js)?$/) || named(/^_mocha$/)) {
    return [name.startsWith("vitest") ? "vitest" : name.startsWith("jest") ? "jest" : "mocha", 1];
  }
  if (named(/^(?:node|nodejs)$/)) {
    const script = argv.findIndex(
      (word, at) => at > 0 && /(?:vitest|jest|mocha)(?:\.[cm]?js)?$/.test(word),
    );
    const first = argv.slice(1).findIndex((word) => !word.startsWith("-")) + 1;
    if (script > 0 && script === first) {
      const [runner = "unknown"] = directly(argv.slice(script)) ?? [];
      return [runner, script + 1];
    }
    return argv.includes("--test") ? ["node-test", 1] : null;
  }
  if (name === "go" && argv[1] === "test") return ["go", 2];
  if (name === "cargo" && (argv[1] === "test" || argv[1] === "t")) return ["cargo", 2];
  if (named(/^(?:mvnw?|gradlew?)$/)) return ["junit", 1];
  return null;
}

function inShell(args: readonly string[], where: Where): Look {
  const at = args.findIndex((word) => /^-[a-z]*c$/.test(word));
  const line = args[at + 1];
  return at < 0 || line === undefined ? nothing : inLine(line, where);
}

/** A line of shell: the last runner in it counts, and is the whole of it if all else only changes directory. */
function inLine(line: string, where: Where): Look {
  let last: Look = nothing;
  let at = where.cwd;
  let more = false;
  for (const { words, plain } of wordsOf(line)) {
    const [first = "", ...rest] = words;
    if (first === "cd" && rest.length === 1 && plain) {
      at = posix.join(at, rest[0] ?? "");
      continue;
    }
    if (first === "set") continue;
    const own = first === "exec" ? rest : words;
    const found = look({ argv: own, cwd: at }, where);
    more = more || last.runner !== "unknown" || found.call === null || !plain;
    if (found.runner !== "unknown") last = found;
  }
  const within = at !== ".." && !at.startsWith("../");
  return { runner: last.runner, call: more || !within ? null : last.call };
}

function inPackage(args: readonly string[], where: Where): Look {
  const at = args.findIndex((word) => !word.startsWith("-"));
  if (at < 0 || args.slice(0, at).some((word) => /^(?:-p|-c|--package|--call)$/.test(word)))
    return nothing;
  return bound(args.slice(at), where);
}

function inManager(name: string, args: readonly string[], where: Where): Look {
  const words = args.filter((word) => !/^(?:-s|--silent|-q|--quiet)$/.test(word));
  const [verb = "", ...rest] = words;
  if (verb === "exec" || verb === "dlx" || verb === "x") {
    return inPackage(rest[0] === "--" ? rest.slice(1) : rest, where);
  }
  const runs = verb === "run" || verb === "run-script";
  const script = runs ? (rest[0] ?? "") : /^(?:t|tst)$/.test(verb) ? "test" : verb;
  if (script.startsWith("-") || script === "") return nothing;
  const after = runs ? rest.slice(1) : rest;
  const more =
    name === "npm" && after.length > 0 && after[0] !== "--"
      ? null
      : after.filter((it, at) => at > 0 || it !== "--");
  const found = scriptOf(script, where);
  // Yarn and pnpm run a package's program by its name alone.
  if (found === null)
    return name === "yarn" || name === "pnpm" ? bound([verb, ...rest], where) : nothing;
  const look = inLine(found.line, { ...where, bound: true });
  if (look.call === null || more === null || found.around)
    return { runner: look.runner, call: null };
  return { runner: look.runner, call: { ...look.call, args: [...look.call.args, ...more] } };
}

/** A script of the package, and whether others run before or after it. */
function scriptOf(
  name: string,
  { cwd, directory }: Where,
): { readonly line: string; readonly around: boolean } | null {
  const text = textOf(posix.join(directory, cwd, "package.json"));
  if (text === null) return null;
  try {
    const { scripts = {} } = JSON.parse(text) as { scripts?: Record<string, unknown> };
    const line = Object.hasOwn(scripts, name) ? scripts[name] : undefined;
    if (typeof line !== "string") return null;
    return { line, around: `pre${name}` in scripts || `post${name}` in scripts };
  } catch {
    // A package.json that does not read has no scripts.
    return null;
  }
}

/** A program of a package, called by its name alone. */
function bound(argv: readonly string[], where: Where): Look {
  return look({ argv, cwd: where.cwd }, { ...where, bound: true });
}

/** How to call a program of a package: where it lies, if it is installed in the workspace. */
function programOf(name: string, { cwd, directory }: Where): readonly string[] {
  for (let at = cwd; ; at = posix.dirname(at)) {
    const bin = posix.join(at, "node_modules/.bin", name);
    if (existsSync(posix.join(directory, bin))) {
      const path = posix.relative(cwd, bin);
      return [path.startsWith("../") ? path : `./${path}`];
    }
    if (at === "." || at === "/" || at === "..") return ["npx", "--no-install", name];
  }
}

/** A rule of a makefile whose recipe is plain. */
function inMake(args: readonly string[], where: Where): Look {
  const to = args.indexOf("-C");
  const cwd = to < 0 ? where.cwd : posix.join(where.cwd, args[to + 1] ?? "");
  const words = to < 0 ? args : args.toSpliced(to, 2);
  const targets = words.filter((word) => !word.startsWith("-") && !word.includes("="));
  const named = ["GNUmakefile", "makefile", "Makefile"].map((it) =>
    posix.join(where.directory, cwd, it),
  );
  const text = named.map(textOf).find((it) => it !== null);
  if (text === undefined || text === null || targets.length > 1 || words.length > targets.length)
    return nothing;
  const lines = text.replaceAll("\\\n", " ").split("\n");
  const target =
    targets[0] ??
    lines.map((line) => /^(\w[\w.-]*)\s*:(?!=)/.exec(line)?.[1]).find((it) => it !== undefined);
  const at = lines.findIndex((line) => line.startsWith(`${target}:`));
  if (target === undefined || at < 0) return nothing;
  const rest = lines.slice(at + 1);
  const end = rest.findIndex((line) => !line.startsWith("\t"));
  const recipe = (end < 0 ? rest : rest.slice(0, end)).map((line) => line.replace(/^\t[@-]*/, ""));
  const looks = recipe.map((line) => inLine(line, { ...where, cwd }));
  const runner = looks.findLast((it) => it.runner !== "unknown")?.runner ?? "unknown";
  const needs = (lines[at] ?? "").slice(target.length + 1).trim() !== "";
  return { runner, call: looks.length === 1 && !needs ? (looks[0]?.call ?? null) : null };
}

function textOf(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size <= sizeLimit ? readFileSync(path, "utf8") : null;
}
