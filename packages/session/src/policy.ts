import type { Boundary } from "@dev/cell";
import type { EffectEvent, EffectOp, Mode, Variable } from "@dev/protocol";
import { never } from "@dev/protocol";
import picomatch from "picomatch";
import { argvOf, isOperation, runsGit, spellings } from "./argv.ts";

/** What policy says of an action, with the rule that said it. */
export type Verdict =
  | { readonly kind: "allow"; readonly rule: string }
  | { readonly kind: "ask"; readonly rule: string; readonly reason: string }
  | { readonly kind: "deny"; readonly rule: string; readonly reason: string };

/** A rule of the settings. Every field that is given must match; a rule without any matches all. */
export type Rule = {
  readonly decision: "allow" | "ask" | "deny";
  /**
   * Kinds of op: `read`, `search`, `write`, `patch`, `exec`, `git`, `browse`, `tool`. To a rule that
   * asks or denies, git is a command like others, whichever of the two ops runs it; and `fix`, a
   * `tool`, is what it does: a command, and a change of files.
   */
  readonly ops?: readonly EffectOp["kind"][];
  /** Globs on the path of a file op, below the workspace. */
  readonly paths?: readonly string[];
  /** The words that a command begins with, `*` for any one; a git command begins with `git`. */
  readonly argv?: readonly string[];
  readonly reason?: string;
};

/** Where a rule was written. A deny of any layer holds, whatever another allows. */
export type Layer = "managed" | "project" | "user" | "session";

export type LayeredRule = Rule & {
  readonly layer: Layer;
  /** Where the workspace lies below the directory that `paths` start from; absent, it is that one. */
  readonly below?: string;
};

/**
 * Decides on an action before it is dispatched, on its typed fields alone; `real` is the op's path with
 * the workspace's symbolic links resolved. Deny beats ask beats allow; where no rule matches, the mode
 * decides, and it asks about commands only where no cell confines them.
 */
export function decide(
  op: EffectOp,
  real: string | null,
  mode: Mode,
  boundary: Boundary,
  rules: readonly LayeredRule[],
): Verdict {
  const matching = rules.filter((rule) => matches(rule, op, real));
  const denial = matching.find((rule) => rule.decision === "deny");
  if (denial !== undefined) return deny(name(denial), denial.reason ?? "a rule denies it");
  const base = byMode(op, real, mode, boundary);
  if (base.kind === "deny") return base;
  const question = matching.find((rule) => rule.decision === "ask");
  if (question !== undefined) return ask(name(question), question.reason ?? "a rule asks");
  const permit = matching.find((rule) => rule.decision === "allow");
  return permit === undefined ? base : { kind: "allow", rule: name(permit) };
}

function byMode(op: EffectOp, real: string | null, mode: Mode, boundary: Boundary): Verdict {
  const rule = `mode ${mode}`;
  const reads = op.kind === "read" || op.kind === "search";
  if (reads || mode === "full") return { kind: "allow", rule };
  if (mode === "plan") return deny(rule, "this mode only reads");
  switch (op.kind) {
    case "write":
    case "patch":
      // The workspace of a cell is a copy: a person looks at it before any of it comes back.
      if (boundary === "cell") return { kind: "allow", rule };
      if (guarded(op.path)) return ask("guarded path", STEERS);
      if (guarded(real ?? "")) return ask("guarded path", `${STEERS}, as ${real}`);
      return mode === "edits" ? { kind: "allow", rule } : ask(rule, "it changes a file");
    case "tool":
      if (!isOperation(op)) return ask(rule, OUT);
      if (mode === "ask" && boundary !== "cell") return ask(rule, FIXES);
      return byBoundary(rule, boundary);
    case "exec":
    case "git":
      if (mode === "ask" && boundary !== "cell") return ask(rule, RUNS);
      return byBoundary(rule, boundary);
    case "browse":
      return ask(rule, OUT);
    default:
      return never(op);
  }
}

const RUNS = "it runs a command in your own directory";
const FIXES = "it runs a command on copies of your own directory, and writes what it finds into it";
const OUT = "it reaches out of the cell";

/** A command may run where something confines it. */
function byBoundary(rule: string, boundary: Boundary): Verdict {
  return boundary === "none"
    ? ask(rule, "nothing confines the command here (see `dev doctor`)")
    : { kind: "allow", rule };
}

const STEERS = "it steers what runs outside the cell";

/** What git and Dev themselves obey, outside any cell: as it is written, and with its dots resolved. */
function guarded(path: string): boolean {
  return [path.replaceAll("\\", "/"), normal(path)].some((each) => STEERING.test(each));
}

const STEERING = /(?:^|\/)(?:\.git|\.dev|\.agents\/+agents)(?:\/|$)/i;

/**
 * Whether a rule speaks of an op. One that asks or denies does if it matches any way to say the same:
 * the path as written or as resolved, each spelling of the command. One that allows must match all.
 */
export function matches(
  rule: Rule & Pick<LayeredRule, "below">,
  op: EffectOp,
  real: string | null,
): boolean {
  const allows = rule.decision === "allow";
  const { ops, paths, argv } = rule;
  if (ops !== undefined) {
    const kinds = allows ? [op.kind] : kindsOf(op);
    if (!kinds.some((kind) => ops.includes(kind))) return false;
  }
  // Leave to run a command is no leave to write what makes it pass.
  if (allows && argv !== undefined && isOperation(op) && ops?.includes("tool") !== true)
    return false;
  if (paths !== undefined) {
    const path = pathOf(op);
    if (path === null) return false;
    const isMatch = picomatch([...paths], { dot: true });
    const above = rule.below === undefined ? "" : `${rule.below}/`;
    const places = [normal(path), normal(real ?? path, "/")];
    const seen = places.map((place) => isMatch(`${above}${place}`.replace(/\/$/, "")));
    if (allows ? seen.includes(false) : !seen.includes(true)) return false;
  }
  if (argv !== undefined) {
    const written = argvOf(op);
    if (written === null) return false;
    const given = allows ? [written] : spellings(written);
    return given.some((words) => beginsWith(words, argv));
  }
  return true;
}

function kindsOf(op: EffectOp): readonly EffectOp["kind"][] {
  const runs: readonly EffectOp["kind"][] = runsGit(op) ? ["exec", "git"] : [op.kind];
  return isOperation(op) ? [...runs, "tool", "exec", "write", "patch"] : runs;
}

/** Why a rule keeps an operation from writing a file; null if none does. */
export function withheld(rules: readonly LayeredRule[], path: string, real: string): string | null {
  if (guarded(path) || guarded(real)) return STEERS;
  const change: EffectOp = { kind: "write", path, text: "", expect: "any" };
  const patch: EffectOp = {
    kind: "patch",
    path,
    change: { kind: "edits", edits: [] },
    expect: "any",
  };
  const denial = rules.find(
    (rule) =>
      rule.decision === "deny" && (matches(rule, change, real) || matches(rule, patch, real)),
  );
  return denial === undefined ? null : (denial.reason ?? name(denial));
}

function beginsWith(words: readonly string[], rule: readonly string[]): boolean {
  return rule.every((word, index) => {
    const given = words[index];
    return given !== undefined && (word === "*" || word === given);
  });
}

/**
 * A search's answer without the files that a rule denies to read or to search: what a rule withholds
 * must not come out by looking for it from above. Any other event stays as it is.
 */
export function visible(event: EffectEvent, rules: readonly LayeredRule[]): EffectEvent {
  const { outcome } = event;
  if (outcome.kind !== "ok" || outcome.result.kind !== "search") return event;
  const denials = rules.filter(({ decision }) => decision === "deny");
  const known = new Map<string, boolean>();
  const isShown = (path: string): boolean => {
    const shown = known.get(path) ?? !denials.some((rule) => withholds(rule, path));
    known.set(path, shown);
    return shown;
  };
  const shown = outcome.result.matches.filter(({ path }) => isShown(path));
  return { ...event, outcome: { ...outcome, result: { ...outcome.result, matches: shown } } };
}

/** Search says real paths, since it follows no link. */
function withholds(rule: LayeredRule, path: string): boolean {
  const read: EffectOp = { kind: "read", path, from: 0, to: 0 };
  const search: EffectOp = { kind: "search", path, pattern: "", glob: "", match: "text" };
  return matches(rule, read, path) || matches(rule, search, path);
}

/** Why a glob of a rule can match no path; null if nothing shows that. */
export function globFlaw(glob: string): string | null {
  if (glob === "") return "it is empty";
  if (/^\.\.?$|^!?(\/|\.\.\/)|\/\.\.?(\/|$)/.test(glob)) {
    return "paths lie below the directory, and have no `/` in front, and no `.` or `..`";
  }
  if (glob.endsWith("/")) return `a directory's files are \`${glob}**\``;
  try {
    const { source } = picomatch.makeRe(glob, { dot: true, strictBrackets: true });
    return source === NOTHING ? "it matches nothing" : null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** What picomatch makes of a pattern that is none. */
const NOTHING = "$^";

/** What a person permits with one op, for a session. */
export type Likeness =
  /** Every change of a file, but for paths that steer what runs outside the cell. */
  | { readonly kind: "files" }
  | { readonly kind: "file"; readonly path: string }
  /** The command that begins with these words, or, where it is `whole`, has just these. */
  | {
      readonly kind: "command";
      readonly argv: readonly string[];
      readonly whole: boolean;
      readonly env: readonly Variable[];
    }
  | { readonly kind: "other"; readonly op: EffectOp };

/** What is like an op: permitting one for a session permits all that are the same in this. */
export function likeness(op: EffectOp, real: string | null = null): Likeness {
  if (op.kind === "write" || op.kind === "patch") {
    const path = [real ?? "", op.path].find(guarded);
    return path === undefined ? { kind: "files" } : { kind: "file", path: normal(path) };
  }
  // One of Dev's own does more than its command: leave for the one is none for the other.
  const argv = isOperation(op) ? null : argvOf(op);
  if (argv === null) return { kind: "other", op };
  // Behind a flag, such as of `sh -c`, stands what is really done: all of that is meant, and no more.
  const whole = argv.length < 2 || argv[1]?.startsWith("-") === true;
  const env = op.kind === "exec" ? op.env : [];
  return { kind: "command", argv: whole ? argv : argv.slice(0, 2), whole, env };
}

/** Whether a permit for a session covers an op. */
export function covers(permit: Likeness, op: EffectOp, real: string | null = null): boolean {
  return JSON.stringify(permit) === JSON.stringify(likeness(op, real));
}

export function pathOf(op: EffectOp): string | null {
  return "path" in op ? op.path : null;
}

/** A path as its rules see it: `.` and `..` resolved, one separator. */
function normal(path: string, separator: string | RegExp = /[\\/]/): string {
  const parts: string[] = [];
  for (const part of path.split(separator)) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts.join("/");
}

function name(rule: LayeredRule): string {
  const what = [
    rule.ops?.join(",") ?? "",
    rule.paths?.join(",") ?? "",
    rule.argv?.join(" ") ?? "",
  ].filter((part) => part !== "");
  return `${rule.layer}: ${rule.decision} ${what.length === 0 ? "all" : what.join(" ")}`;
}

function deny(rule: string, reason: string): Verdict {
  return { kind: "deny", rule, reason };
}

function ask(rule: string, reason: string): Verdict {
  return { kind: "ask", rule, reason };
}
