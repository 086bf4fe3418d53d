import type { Boundary } from "@dev/cell";
import type { EffectOp, Mode, Variable } from "@dev/protocol";
import { never } from "@dev/protocol";
import picomatch from "picomatch";

/** What policy says of an action, with the rule that said it. */
export type Verdict =
  | { readonly kind: "allow"; readonly rule: string }
  | { readonly kind: "ask"; readonly rule: string; readonly reason: string }
  | { readonly kind: "deny"; readonly rule: string; readonly reason: string };

/** A rule of the settings. Every field that is given must match; a rule without any matches all. */
export type Rule = {
  readonly decision: "allow" | "ask" | "deny";
  /** Kinds of op: `read`, `search`, `write`, `patch`, `exec`, `git`, `browse`, `tool`. */
  readonly ops?: readonly EffectOp["kind"][];
  /** Globs on the path of a file op, below the workspace. */
  readonly paths?: readonly string[];
  /** The words that a command begins with, `*` for any one; a git command begins with `git`. */
  readonly argv?: readonly string[];
  readonly reason?: string;
};

/** Where a rule was written. A deny of any layer holds, whatever another allows. */
export type Layer = "managed" | "project" | "user" | "session";

export type LayeredRule = Rule & { readonly layer: Layer };

/**
 * Decides on an action before it is dispatched, on its typed fields alone. Deny beats ask beats allow;
 * where no rule matches, the mode decides, and it asks about commands only where no cell confines them.
 */
export function decide(
  op: EffectOp,
  mode: Mode,
  boundary: Boundary,
  rules: readonly LayeredRule[],
): Verdict {
  const matching = rules.filter((rule) => matches(rule, op));
  const denial = matching.find((rule) => rule.decision === "deny");
  if (denial !== undefined) return deny(name(denial), denial.reason ?? "a rule denies it");
  const base = byMode(op, mode, boundary);
  if (base.kind === "deny") return base;
  const question = matching.find((rule) => rule.decision === "ask");
  if (question !== undefined) return ask(name(question), question.reason ?? "a rule asks");
  const permit = matching.find((rule) => rule.decision === "allow");
  return permit === undefined ? base : { kind: "allow", rule: name(permit) };
}

function byMode(op: EffectOp, mode: Mode, boundary: Boundary): Verdict {
  const rule = `mode ${mode}`;
  const reads = op.kind === "read" || op.kind === "search";
  if (reads || mode === "full") return { kind: "allow", rule };
  if (mode === "plan") return deny(rule, "this mode only reads");
  switch (op.kind) {
    case "write":
    case "patch":
      // The workspace of a cell is a copy: a person looks at it before any of it comes back.
      if (boundary === "cell") return { kind: "allow", rule };
      if (guarded(op.path)) return ask("guarded path", "it steers what runs outside the cell");
      return mode === "edits" ? { kind: "allow", rule } : ask(rule, "it changes a file");
    case "exec":
    case "git":
      if (boundary === "cell") return { kind: "allow", rule };
      if (mode === "ask") return ask(rule, "it runs a command in your own directory");
      return boundary === "process"
        ? { kind: "allow", rule }
        : ask(rule, "nothing confines the command here (see `dev doctor`)");
    case "browse":
    case "tool":
      return ask(rule, "it reaches out of the cell");
    default:
      return never(op);
  }
}

/** What git and Dev themselves obey, outside any cell. */
function guarded(path: string): boolean {
  return path.split(/[\\/]/).some((part) => {
    const lower = part.toLowerCase();
    return lower === ".git" || lower === ".dev";
  });
}

/** Whether a rule speaks of an op. */
export function matches(rule: Rule, op: EffectOp): boolean {
  if (rule.ops !== undefined && !rule.ops.includes(op.kind)) return false;
  if (rule.paths !== undefined) {
    const path = pathOf(op);
    if (path === null || !picomatch([...rule.paths], { dot: true })(normal(path))) return false;
  }
  if (rule.argv !== undefined) {
    const argv = argvOf(op);
    if (argv === null) return false;
    return rule.argv.every((word, index) => {
      const given = argv[index];
      return given !== undefined && (word === "*" || word === given);
    });
  }
  return true;
}

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
export function likeness(op: EffectOp): Likeness {
  if (op.kind === "write" || op.kind === "patch") {
    return guarded(op.path) ? { kind: "file", path: normal(op.path) } : { kind: "files" };
  }
  const argv = argvOf(op);
  if (argv === null) return { kind: "other", op };
  // Behind a flag, such as of `sh -c`, stands what is really done: all of that is meant, and no more.
  const whole = argv.length < 2 || argv[1]?.startsWith("-") === true;
  const env = op.kind === "exec" ? op.env : [];
  return { kind: "command", argv: whole ? argv : argv.slice(0, 2), whole, env };
}

/** Whether a permit for a session covers an op. */
export function covers(permit: Likeness, op: EffectOp): boolean {
  return JSON.stringify(permit) === JSON.stringify(likeness(op));
}

function pathOf(op: EffectOp): string | null {
  return "path" in op ? op.path : null;
}

function argvOf(op: EffectOp): readonly string[] | null {
  if (op.kind === "git") return ["git", ...op.argv];
  return op.kind === "exec" ? op.argv : null;
}

/** A path as its rules see it: `.` and `..` resolved, one separator. */
function normal(path: string): string {
  const parts: string[] = [];
  for (const part of path.split(/[\\/]/)) {
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
