import { existsSync } from "node:fs";
import { posix } from "node:path";
import { type Invocation, invocationOf } from "./invocation.ts";
import type { Command, Failure, Report, Runner } from "./report.ts";
import { siblings } from "./sibling.ts";
import type { Workspace } from "./workspace.ts";

/** More failing tests than this are not named one by one. */
export const narrowedLimit = 50;

/** A command that runs just the tests that failed, or null where it cannot be said; `directory` is the workspace. */
export function narrowed(command: Command, report: Report, directory: string): Command | null {
  const { failures } = report;
  if (failures.length === 0 || failures.length > narrowedLimit) return null;
  if (failures.some((it) => it.test === "")) return null;
  const call = callOf(command, report.runner, directory);
  if (call === null) return null;
  const aimed = aimAt(call, failures, directory);
  return aimed === null ? null : { argv: aimed, cwd: call.cwd };
}

/** The command with its runner's own flag to end at the first failure; as it is where there is none. */
export function early(command: Command, runner: Runner, directory: string): Command {
  const call = callOf(command, runner, directory);
  if (call === null) return command;
  const args = stopped(call);
  return args === null ? command : { argv: [...call.head, ...args], cwd: call.cwd };
}

/**
 * The tests around the failing ones: the whole files that hold them, and then the test files named
 * after the files that were touched. Empty where it cannot be said.
 */
export function around(
  command: Command,
  report: Report,
  touched: readonly string[],
  workspace: Workspace,
): readonly Command[] {
  const call = callOf(command, report.runner, workspace.directory);
  if (call === null) return [];
  const held = [...new Set(report.failures.flatMap((it) => (it.file === null ? [] : [it.file])))];
  const near = siblings(touched, workspace).filter((file) => !held.includes(file));
  const commands: Command[] = [];
  for (const files of [held, near]) {
    const aimed = files.length === 0 ? null : aimAtFiles(call, files, workspace.directory);
    if (aimed !== null) commands.push({ argv: aimed, cwd: call.cwd });
  }
  return commands;
}

/** The call of the runner; a plain script of tests calls the runner that its output is of. */
function callOf(command: Command, runner: Runner, directory: string): Invocation | null {
  const call = invocationOf(command, directory);
  if (call !== null) return call.runner === runner ? call : null;
  const [program = "", script, ...args] = command.argv;
  if (script === undefined || script.startsWith("-")) return null;
  const name = posix.basename(program);
  const own =
    (runner === "unittest" && /^python[\d.]*$/.test(name) && script.endsWith(".py")) ||
    (runner === "node-test" && name === "node");
  if (!own) return null;
  return { runner, head: [program, script], args, cwd: command.cwd };
}

/** Flags that take the next word as their value, when it may look like a file or a name of tests. */
const valued: Readonly<Record<Runner, RegExp>> = {
  pytest:
    /^(?:-[cpkmnorW]|--(?:config-file|rootdir|confcutdir|ignore|ignore-glob|deselect|cov-config|junitxml|junit-xml|basetemp|maxfail|tb|durations|timeout|import-mode|numprocesses|dist|log-level|override-ini|capture|color))$/,
  unittest: /^(?:-[kspt]|--(?:start-directory|pattern|top-level-directory|durations))$/,
  "node-test":
    /^(?:-[rC]|--(?:require|import|loader|experimental-loader|test-reporter|test-reporter-destination|env-file|conditions|test-name-pattern|test-skip-pattern|test-timeout|test-concurrency))$/,
  vitest:
    /^(?:-[crt]|--(?:config|root|dir|reporter|outputFile|testNamePattern|project|environment|pool|testTimeout|maxWorkers|bail|mode|shard|retry))$/,
  jest: /^(?:-[ctw]|--(?:config|rootDir|roots|testNamePattern|reporters|maxWorkers|env|testEnvironment|setupFiles|testTimeout|selectProjects|coverageDirectory|shard))$/,
  mocha:
    /^(?:-[rRtgfuno]|--(?:require|reporter|timeout|grep|fgrep|ui|config|package|extension|spec|ignore|file|node-option|import|loader|reporter-option|reporter-options|jobs|retries|slow))$/,
  go: /^-{1,2}(?:run|skip|bench|count|timeout|tags|parallel|p|cpu|coverprofile|covermode|coverpkg|mod|modfile|ldflags|gcflags|exec|vet|shuffle|C|o|fuzz|fuzztime|benchtime)$/,
  cargo:
    /^(?:-[pjFZC]|--(?:package|exclude|test|bin|example|bench|jobs|features|target|target-dir|manifest-path|profile|color|config|message-format))$/,
  junit: /^(?:-[PpfDsl]|--(?:projects|file|settings|activate-profiles))$/,
  tap: /^$/,
  unknown: /^$/,
};

/** Flags that say which tests to run, which a narrower choice replaces. */
const choosing: Readonly<Record<Runner, RegExp>> = {
  pytest:
    /^(?:--(?:lf|last-failed|ff|failed-first|nf|new-first|sw|stepwise)|--(?:deselect)(?:=.*)?)$/,
  unittest: /^-k.*$/,
  "node-test": /^--test-name-pattern(?:=.*)?$/,
  vitest: /^(?:-t|--testNamePattern)(?:=.*)?$/,
  jest: /^(?:-t|-o|--onlyChanged|--onlyFailures|--findRelatedTests|--runTestsByPath|--testNamePattern)(?:=.*)?$/,
  mocha: /^(?:-[gf]|--(?:grep|fgrep|spec))(?:=.*)?$/,
  go: /^-{1,2}run(?:=.*)?$/,
  cargo: /^$/,
  junit: /^-Dtest=.*$/,
  tap: /^$/,
  unknown: /^$/,
};

type Parted = { readonly flags: readonly string[]; readonly plain: readonly string[] };

/** A call's flags, and what it names to run; null where a word may be either. */
function parted(call: Invocation, args: readonly string[], directory: string): Parted | null {
  const flags: string[] = [];
  const plain: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? "";
    const takes = valued[call.runner].test(word);
    if (choosing[call.runner].test(word)) {
      if (takes) at += 1;
    } else if (word.startsWith("-")) {
      flags.push(word);
      const value = args[at + 1];
      if (takes && value !== undefined) {
        flags.push(value);
        at += 1;
      }
    } else if (names(word, call, directory) || at === 0 || !(args[at - 1] ?? "").startsWith("-")) {
      plain.push(word);
    } else return null;
  }
  return { flags, plain };
}

function names(word: string, { cwd }: Invocation, directory: string): boolean {
  const path = word.split("::", 1)[0] ?? "";
  return existsSync(posix.join(directory, cwd, path.replace(/\/\.\.\.$/, ""))) || /[*]/.test(path);
}

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");

function aimAt(
  call: Invocation,
  failures: readonly Failure[],
  directory: string,
): readonly string[] | null {
  const files = filesOf(failures, call);
  const whole = failures.some((it) => it.kind === "load" && it.test === it.file);
  if (whole) return files === null ? null : aimAtFiles(call, heldBy(failures), directory);
  const tests = failures.map((it) => it.test);
  switch (call.runner) {
    case "pytest":
      return aimPytest(call, failures, directory);
    case "unittest":
      return aimUnittest(call, tests, directory);
    case "node-test": {
      const at = parted(call, call.args, directory);
      if (at === null) return null;
      // Node 20 matches a test's own name, later ones that of its suites before it as well.
      const own = tests.map((it) => it.split(" > ").at(-1) ?? it);
      const patterns = [...new Set(own)].map((it) => `--test-name-pattern=(^| )${escaped(it)}$`);
      const [program = "", ...script] = call.head.slice(-headCount(call));
      const before = call.head.slice(0, -headCount(call));
      return [...before, program, ...at.flags, ...patterns, ...script, ...(files ?? at.plain)];
    }
    case "vitest":
    case "jest":
    case "mocha":
      return aimByPattern(call, tests, files, directory);
    case "go":
      return aimGo(call, tests, directory);
    case "cargo":
      return aimCargo(call, tests, directory);
    case "junit":
      return aimMaven(call, tests);
    case "tap":
    case "unknown":
      return null;
  }
}

/** With a script of its own, `node` is two words of the call. */
function headCount(call: Invocation): number {
  return /\.[cm]?[jt]s$/.test(call.head.at(-1) ?? "") ? 2 : 1;
}

const heldBy = (failures: readonly Failure[]): readonly string[] => [
  ...new Set(failures.flatMap((it) => (it.file === null ? [] : [it.file]))),
];

/** The test files of all failures, as the runner's directory names them; null where one is not known. */
function filesOf(failures: readonly Failure[], call: Invocation): readonly string[] | null {
  if (headCount(call) === 2 && call.runner === "node-test") return [];
  if (failures.some((it) => it.file === null)) return null;
  return heldBy(failures).map((file) => posix.relative(call.cwd, file));
}

function aimPytest(
  call: Invocation,
  failures: readonly Failure[],
  directory: string,
): readonly string[] | null {
  const at = parted(call, call.args, directory);
  if (at === null || failures.some((it) => it.file === null)) return null;
  const ids = failures.map(({ test, file }) => {
    const inner = test.indexOf("::");
    const path = posix.relative(call.cwd, file ?? "");
    return inner < 0 ? path : path + test.slice(inner);
  });
  return [...call.head, ...at.flags, ...new Set(ids)];
}

function aimUnittest(
  call: Invocation,
  tests: readonly string[],
  directory: string,
): readonly string[] | null {
  const at = parted(call, call.args, directory);
  if (at === null || at.plain[0] === "discover") {
    // What `discover` finds elsewhere is not named as it can be asked for.
    if (at === null || at.plain.length > 1 || at.flags.some((it) => /^-[stp]/.test(it)))
      return null;
  }
  const own = tests.map((it) => it.replace(/^__main__\./, ""));
  return [...call.head, ...at.flags, ...new Set(own)];
}

function aimByPattern(
  call: Invocation,
  tests: readonly string[],
  files: readonly string[] | null,
  directory: string,
): readonly string[] | null {
  const at = parted(call, call.args, directory);
  if (at === null) return null;
  const separator = call.runner === "vitest" ? " > " : " › ";
  // A title may hold what parts titles in the report, so either is let through.
  const one = (name: string): string =>
    escaped(name).replaceAll(separator, ` (?:${separator.trim()} )?`);
  const pattern = `^(?:${[...new Set(tests)].map(one).join("|")})$`;
  const named = files ?? at.plain;
  const verb =
    call.runner === "vitest" && /^(?:run|watch|dev)$/.test(at.plain[0] ?? "") ? ["run"] : [];
  const rest = files === null && verb.length > 0 ? named.slice(1) : named;
  if (call.runner === "vitest") return [...call.head, ...verb, ...at.flags, "-t", pattern, ...rest];
  if (call.runner === "mocha") return [...call.head, ...at.flags, "--grep", pattern, ...rest];
  const paths = files === null ? rest : ["--runTestsByPath", ...rest];
  return [...call.head, ...at.flags, "-t", pattern, ...paths];
}

function aimGo(
  call: Invocation,
  tests: readonly string[],
  directory: string,
): readonly string[] | null {
  const at = parted(call, call.args, directory);
  if (at === null || call.args.includes("-args")) return null;
  const packages = new Set<string>();
  const names = new Set<string>();
  for (const test of tests) {
    const match = /^(.*?)\.(Test\w*|Example\w*|Fuzz\w*)((?:\/.*)?)$/.exec(test);
    packages.add(match?.[1] ?? test);
    if (match !== null) names.add(`${match[2]}${match[3]}`);
  }
  const [only = ""] = names;
  const levels = (name: string): string =>
    name
      .split("/")
      .map((it) => `^${escaped(it)}$`)
      .join("/");
  // Each level of a name is matched by itself, so several tests are named by their first alone.
  const firsts = [...new Set([...names].map((it) => it.split("/", 1)[0] ?? ""))];
  const pattern = names.size === 1 ? levels(only) : `^(?:${firsts.map(escaped).join("|")})$`;
  const run = names.size === 0 || tests.some((it) => packages.has(it)) ? [] : ["-run", pattern];
  return [...call.head, ...at.flags, ...run, ...packages];
}

function aimCargo(
  call: Invocation,
  tests: readonly string[],
  directory: string,
): readonly string[] | null {
  const dashes = call.args.indexOf("--");
  const own = dashes < 0 ? call.args : call.args.slice(0, dashes);
  const at = parted(call, own, directory);
  const after = dashes < 0 ? [] : call.args.slice(dashes + 1);
  if (at === null || after.some((it) => !it.startsWith("-")) || tests.some((it) => / /.test(it))) {
    return null;
  }
  const exact = after.filter((it) => it !== "--exact");
  return [...call.head, ...at.flags, "--", ...exact, "--exact", ...new Set(tests)];
}

function aimMaven(call: Invocation, tests: readonly string[]): readonly string[] | null {
  if (!/^mvnw?$/.test(posix.basename(call.head.at(-1) ?? ""))) return null;
  const methods = new Map<string, string[]>();
  for (const test of tests) {
    const dot = test.lastIndexOf(".");
    const [of, name] = [test.slice(0, dot), test.slice(dot + 1)];
    if (dot < 0 || !/^\w+$/.test(name)) return null;
    methods.set(of, [...(methods.get(of) ?? []), name]);
  }
  const chosen = [...methods].map(([of, names]) => `${of}#${names.join("+")}`).join(",");
  const args = call.args.filter((it) => !choosing.junit.test(it));
  const none = "-Dsurefire.failIfNoSpecifiedTests=false";
  return [...call.head, ...args, `-Dtest=${chosen}`, none];
}

function aimAtFiles(
  call: Invocation,
  files: readonly string[],
  directory: string,
): readonly string[] | null {
  const paths = files.map((file) => posix.relative(call.cwd, file));
  if (paths.some((path) => path.startsWith("../"))) return null;
  if (call.runner === "node-test" && headCount(call) === 2) return null;
  const at = parted(call, call.args, directory);
  if (at === null) return null;
  switch (call.runner) {
    case "pytest":
    case "node-test":
    case "mocha":
      return [...call.head, ...at.flags, ...paths];
    case "jest":
      return [...call.head, ...at.flags, "--runTestsByPath", ...paths];
    case "vitest": {
      const verb = /^(?:run|watch|dev)$/.test(at.plain[0] ?? "") ? ["run"] : [];
      return [...call.head, ...verb, ...at.flags, ...paths];
    }
    case "unittest": {
      if (at.flags.some((it) => /^-[stp]/.test(it))) return null;
      if (!/^unittest$/.test(call.head.at(-1) ?? "")) return null;
      const modules = paths.map((path) => path.replace(/\.py$/, "").replaceAll("/", "."));
      return [...call.head, ...at.flags, ...modules];
    }
    case "go": {
      const folders = new Set(paths.map((path) => `./${posix.dirname(path)}`.replace(/\/\.$/, "")));
      return [...call.head, ...at.flags, ...folders];
    }
    case "junit":
      return aimMavenFiles(call, files);
    case "cargo":
    case "tap":
    case "unknown":
      return null;
  }
}

function aimMavenFiles(call: Invocation, files: readonly string[]): readonly string[] | null {
  const classes = files.map((file) => posix.basename(file).replace(/\.\w+$/, ""));
  if (!/^mvnw?$/.test(posix.basename(call.head.at(-1) ?? ""))) return null;
  const args = call.args.filter((it) => !choosing.junit.test(it));
  return [
    ...call.head,
    ...args,
    `-Dtest=${classes.join(",")}`,
    "-Dsurefire.failIfNoSpecifiedTests=false",
  ];
}

function stopped(call: Invocation): readonly string[] | null {
  const { args } = call;
  const has = (pattern: RegExp): boolean => args.some((it) => pattern.test(it));
  switch (call.runner) {
    case "pytest":
      return has(/^(?:-[a-zA-Z]*x[a-zA-Z]*|--exitfirst|--maxfail(?:=.*)?)$/)
        ? null
        : ["-x", ...args];
    case "unittest":
      if (has(/^(?:-f|--failfast)$/)) return null;
      return args[0] === "discover" ? ["discover", "-f", ...args.slice(1)] : ["-f", ...args];
    case "vitest":
      return has(/^--bail(?:=.*)?$/) ? null : [...args, "--bail=1"];
    case "jest":
      return has(/^(?:-b|--bail(?:=.*)?)$/) ? null : [...args, "--bail"];
    case "mocha":
      return has(/^(?:-b|--bail)$/) ? null : ["--bail", ...args];
    case "go":
      return has(/^-{1,2}failfast$/) ? null : ["-failfast", ...args];
    case "cargo":
      return has(/^--no-fail-fast$/) ? args.filter((it) => it !== "--no-fail-fast") : null;
    case "junit":
      if (!/^mvnw?$/.test(posix.basename(call.head.at(-1) ?? ""))) return null;
      return [...args, "-Dsurefire.skipAfterFailureCount=1"];
    case "node-test":
    case "tap":
    case "unknown":
      return null;
  }
}
