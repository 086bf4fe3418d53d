import { posix } from "node:path";
import type { Tree } from "../copy.ts";
import type { Command } from "../report/report.ts";
import type { Warmth } from "./warm.ts";
import { unwrapped } from "./words.ts";

/** Options of node's that change nothing about which tests pass. */
const HARMLESS =
  /^(--test-reporter|--test-reporter-destination|--test-concurrency)=|^(--no-warnings|--enable-source-maps|--trace-uncaught)$/;
const PATTERN = /^--test-name-pattern=/;
const SCRIPT = /\.[cm]?js$/;
const TEST_NAME = /^(test|test-.+|.+[.\-_]test)\.[cm]?js$/;

/** The ways to run a command of node's warm: its own tests, or a program that asserts. */
export function nodeWarmths(command: Command, programs: string, tree: Tree): readonly Warmth[] {
  const plan = planOf(command, tree);
  if (plan === null) return [];
  const start: Warmth["start"] = (slot) => {
    const at = (path: string) => posix.join(slot.copy.dir, path);
    const here = {
      ...plan,
      root: slot.copy.dir,
      cwd: at(command.cwd),
      entries: plan.entries.map(at),
    };
    const flags = [
      "--experimental-vm-modules",
      "--experimental-import-meta-resolve",
      "--no-warnings",
    ];
    const argv = [plan.node, ...flags, `${programs}/node_worker.mjs`, JSON.stringify(here)];
    return slot.start({ argv, cwd: command.cwd }, "pipe");
  };
  const name = "node in realms";
  return [
    {
      name,
      isShared: false,
      isQueued: false,
      isCovering: false,
      mends: "written",
      namesTests: plan.isTest,
      start,
    },
  ];
}

type Plan = {
  readonly node: string;
  readonly isTest: boolean;
  readonly patterns: readonly string[];
  readonly entries: readonly string[];
};

function planOf(command: Command, tree: Tree): Plan | null {
  const [node = "", ...rest] = unwrapped(command.argv);
  if (!/^(.*\/)?node(js)?$/.test(node)) return null;
  const options = rest.filter((word) => word.startsWith("-"));
  const isTest = options.includes("--test");
  const patterns: string[] = [];
  for (const option of options) {
    if (PATTERN.test(option)) patterns.push(option.replace(PATTERN, ""));
    else if (option !== "--test" && !HARMLESS.test(option)) return null;
  }
  const named = rest.filter((word) => !word.startsWith("-"));
  const paths = named.map((word) => posix.join(command.cwd, word).replace(/\/$/, ""));
  if (!isTest) {
    // What follows the program is its own.
    const [entry] = paths;
    if (entry === undefined || rest.at(-1) !== named[0] || !isScript(tree, entry)) return null;
    return { node, isTest, patterns, entries: [entry] };
  }
  const given = paths.length === 0 ? [posix.join(command.cwd)] : paths;
  const entries = [...new Set(given.flatMap((path) => testFiles(tree, path)))].sort();
  return entries.length === 0 ? null : { node, isTest, patterns, entries };
}

function isScript(tree: Tree, path: string): boolean {
  return tree.entries.get(path)?.kind === "file" && SCRIPT.test(path);
}

/** A file as it is named; of a directory, what node takes for tests. */
function testFiles(tree: Tree, path: string): readonly string[] {
  if (isScript(tree, path)) return [path];
  if (path !== "." && tree.entries.get(path)?.kind !== "directory") return [];
  const inside = path === "." ? "" : `${path}/`;
  return [...tree.entries.keys()].filter((file) => {
    if (!file.startsWith(inside) || !isScript(tree, file)) return false;
    const directories = posix.dirname(file).split("/");
    if (directories.includes("node_modules")) return false;
    return directories.includes("test") || TEST_NAME.test(posix.basename(file));
  });
}
