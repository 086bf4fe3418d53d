import { fixCall } from "@dev/model";
import { type EffectOp, type Op, OWN_SERVER } from "@dev/protocol";

/** An op's command as it is written, `git` first for a git op; null when it runs none. */
export function argvOf(op: EffectOp): readonly string[] | null {
  if (op.kind === "git") return ["git", ...op.argv];
  return op.kind === "exec" ? op.argv : (fixCall(op)?.argv ?? null);
}

/** Whether an op is one of Dev's own, which is performed beside the cell. */
export function isOperation(op: Op): boolean {
  return op.kind === "tool" && op.server === OWN_SERVER;
}

/** Whether an op runs git itself, as a git op or as a command. */
export function runsGit(op: EffectOp): boolean {
  return programOf(argvOf(op)?.[0] ?? "") === "git";
}

/**
 * The ways to say one command that a rule against it holds for: as written, without the program's
 * directory, and without git's global options. What another program runs (`env git push`, `sh -c`, an
 * alias of git's) is the cell's to confine.
 */
export function spellings(argv: readonly string[]): readonly (readonly string[])[] {
  const [first, ...rest] = argv;
  if (first === undefined) return [argv];
  const program = programOf(first);
  const plain = [program, ...rest];
  return program === "git" ? [argv, plain, [program, ...withoutGlobals(rest)]] : [argv, plain];
}

/** Git's global options that take the word after them, where no `=` gives their value. */
const VALUED: ReadonlySet<string> = new Set([
  "-C",
  "-c",
  "--attr-source",
  "--config-env",
  "--git-dir",
  "--namespace",
  "--shallow-file",
  "--super-prefix",
  "--work-tree",
]);

function withoutGlobals(words: readonly string[]): readonly string[] {
  let at = 0;
  for (let word = words[at]; word?.startsWith("-"); word = words[at]) {
    at += VALUED.has(word) ? 2 : 1;
  }
  return words.slice(at);
}

function programOf(word: string): string {
  return word.slice(word.lastIndexOf("/") + 1);
}
