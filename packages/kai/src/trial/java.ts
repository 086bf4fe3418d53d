import { posix } from "node:path";
import type { Tree } from "../copy.ts";
import type { Command } from "../report/report.ts";
import type { Warmth } from "./warm.ts";
import { simpleCommands } from "./words.ts";

/** A machine that starts fast, keeps no file of its own, and takes no more than a test should. */
const MACHINE: readonly string[] = [
  "-Xshare:auto",
  "-XX:+UseSerialGC",
  "-XX:TieredStopAtLevel=1",
  "-XX:-UsePerfData",
  "-Xmx1g",
];

/** The ways to run warm what compiles some files and runs a class of them; none for other commands. */
export function javaWarmths(command: Command, programs: string, tree: Tree): readonly Warmth[] {
  const plan = planOf(command, tree);
  if (plan === null) return [];
  const start: Warmth["start"] = (slot) => {
    const cwd = posix.join(slot.copy.dir, command.cwd);
    const at = (path: string) => posix.resolve(cwd, path);
    const { program, machine, ...rest } = plan;
    const here = {
      ...rest,
      root: slot.copy.dir,
      sources: plan.sources.map(at),
      classpath: plan.classpath.map(at),
    };
    const argv = [
      program,
      ...MACHINE,
      ...machine,
      `${programs}/KaiWorker.java`,
      JSON.stringify(here),
    ];
    return slot.start({ argv, cwd: command.cwd }, "pipe");
  };
  return [
    {
      name: "java in one machine",
      isShared: false,
      isQueued: false,
      isCovering: false,
      mends: "written",
      namesTests: false,
      start,
    },
  ];
}

type Plan = {
  readonly program: string;
  readonly machine: readonly string[];
  readonly options: readonly string[];
  readonly sources: readonly string[];
  readonly main: string;
  readonly arguments: readonly string[];
  readonly classpath: readonly string[];
  readonly asserts: boolean;
  readonly properties: Readonly<Record<string, string>>;
};

/** `rm -rf OUT && mkdir -p OUT && javac -d OUT … && java -cp OUT MAIN`, of which the first two may lack. */
function planOf({ argv, cwd }: Command, tree: Tree): Plan | null {
  const [shell = "", flag, line] = argv;
  if (!/^(.*\/)?(ba|da)?sh$/.test(shell) || !/^-e?c$/.test(flag ?? "") || argv.length !== 3)
    return null;
  const commands = simpleCommands(line ?? "") ?? [];
  const before = commands.slice(0, -2);
  const [compile, run] = commands.slice(-2);
  if (compile === undefined || run === undefined) return null;
  const compiled = compileOf(compile, cwd, tree);
  const ran = runOf(run);
  if (compiled === null || ran === null) return null;
  const removed: string[] = [];
  for (const words of before) {
    const [program, option, ...paths] = words;
    if (program === "rm" && /^-(rf|fr|r)$/.test(option ?? "")) removed.push(...paths);
    else if (program !== "mkdir" || option !== "-p") return null;
  }
  const { out, ...rest } = compiled;
  // What lies there from before would be found, and is in no memory.
  const isNew = removed.includes(out) || !tree.entries.has(posix.join(cwd, out));
  const entries = ran.classpath.map((path) => posix.normalize(path).replace(/\/$/, ""));
  if (!isNew || !entries.includes(out)) return null;
  return { ...ran, ...rest, classpath: ran.classpath.filter((_, at) => entries[at] !== out) };
}

type Compiled = Pick<Plan, "options" | "sources"> & { readonly out: string };

const WITH_VALUE = /^(-encoding|-source|-target|--release|--source|--target)$/;
const ALONE = /^(-g(:.*)?|-Xlint.*|-nowarn|-parameters|-proc:none|-XDignore.*|-Xdiags:.*)$/;
const PATH = /^(-cp|-classpath|--class-path)$/;

function compileOf(words: readonly string[], cwd: string, tree: Tree): Compiled | null {
  if (!/^(.*\/)?javac$/.test(words[0] ?? "")) return null;
  const options: string[] = [];
  const sources: string[] = [];
  let out: string | null = null;
  for (let at = 1; at < words.length; at += 1) {
    const word = words[at] ?? "";
    const value = words[at + 1] ?? "";
    if (word === "-d") out = posix.normalize(value).replace(/\/$/, "");
    else if (WITH_VALUE.test(word) || PATH.test(word)) options.push(word, value);
    else if (ALONE.test(word)) options.push(word);
    else if (word.endsWith(".java") && !word.startsWith("-"))
      sources.push(...found(word, cwd, tree));
    else return null;
    if (word === "-d" || WITH_VALUE.test(word) || PATH.test(word)) at += 1;
  }
  if (out === null || out === "." || out.startsWith("..") || sources.length === 0) return null;
  const hasPath = options.some((option) => PATH.test(option));
  // No processor can be found, so none is looked for.
  return { options: hasPath ? options : [...options, "-proc:none"], sources, out };
}

/** A file as it is named, or those that a `*` stands for, in the order of a shell's. */
function found(word: string, cwd: string, tree: Tree): readonly string[] {
  if (!/[*?[]/.test(word)) return [word];
  const directory = posix.join(cwd, posix.dirname(word));
  if (posix.basename(word) !== "*.java" || /[*?[]/.test(directory)) return [];
  const names = [...tree.entries]
    .filter(([path, { kind }]) => kind === "file" && posix.dirname(path) === directory)
    .map(([path]) => posix.basename(path))
    .filter((name) => name.endsWith(".java") && !name.startsWith("."));
  return names.sort().map((name) => posix.join(posix.dirname(word), name));
}

type Ran = Omit<Plan, "options" | "sources">;

function runOf(words: readonly string[]): Ran | null {
  const program = words[0] ?? "";
  if (!/^(.*\/)?java$/.test(program)) return null;
  const machine: string[] = [];
  const properties: Record<string, string> = {};
  let classpath: readonly string[] = ["."];
  let asserts = false;
  let at = 1;
  for (; words[at]?.startsWith("-"); at += 1) {
    const word = words[at] ?? "";
    const [, name, value] = /^-D([^=]+)=(.*)$/.exec(word) ?? [];
    if (/^-(ea|enableassertions)$/.test(word)) asserts = true;
    else if (name !== undefined && value !== undefined) properties[name] = value;
    else if (/^-(Xss|Xmx)\w+$/.test(word)) machine.push(word);
    else if (PATH.test(word)) {
      at += 1;
      classpath = (words[at] ?? "").split(":").filter((path) => path !== "");
    } else return null;
  }
  const main = words[at];
  if (main === undefined || /[/*?[\]]/.test(words.slice(at).join(" "))) return null;
  return { program, machine, properties, classpath, asserts, main, arguments: words.slice(at + 1) };
}
