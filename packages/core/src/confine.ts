import type { CallOp } from "@dev/protocol";
import { never } from "@dev/protocol";

/**
 * Lexical confinement: says why a call may not become an action, or null when it may. A path that is
 * empty, absolute, has a NUL or a drive letter, or leaves the workspace by `..` in either
 * separator is refused here; the cell confines again, for real.
 */
export function confinement(op: CallOp): string | null {
  switch (op.kind) {
    case "read":
    case "write":
    case "patch":
    case "search":
      return escapes(op.path, "path");
    case "exec":
      if (op.argv.length === 0 || op.argv[0] === "") return "argv: there is no program to run";
      return escapes(op.cwd, "cwd");
    case "git":
      return op.argv.length === 0 ? "argv: there is no git command" : null;
    case "browse":
    case "tool":
    case "question":
    case "spawn":
    case "plan":
    case "invalid":
      return null;
    default:
      return never(op);
  }
}

function escapes(path: string, field: string): string | null {
  if (path === "") return `${field}: it is empty; \`.\` is the workspace`;
  if (path.includes("\0")) return `${field}: it has a NUL byte`;
  if (/^[\\/]/.test(path)) return `${field}: it is absolute; paths are relative to the workspace`;
  if (/^[A-Za-z]:/.test(path)) return `${field}: it has a drive letter`;
  if (!path.includes("..")) return null;
  // Where `\` separates nothing, `a\b/../..` is one step down and two up; where it does, not.
  const leaves = climbs(path.split("/")) || climbs(path.split(/[\\/]/));
  return leaves ? `${field}: it leaves the workspace` : null;
}

function climbs(parts: readonly string[]): boolean {
  let depth = 0;
  for (const part of parts) {
    if (part === "..") depth -= 1;
    else if (part !== "" && part !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}
