import { closeSync, fstatSync, openSync, readSync, realpathSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";

/** What the projects' own instructions may take in a prelude, all together, in bytes. */
export const INSTRUCTIONS_LIMIT_BYTES: number = 128 * 1024;
/** How many directories above the workspace are looked into. */
const CLIMB_LIMIT = 64;

/**
 * The first message of a session's conversations: who the agent is, and what the `AGENTS.md` files
 * say, nearest first, from `directory` up to the root of its repository. Fault: `too_large`.
 */
export function prelude(directory: string): Result<string> {
  const parts = [WHO];
  let bytes = 0;
  for (const { path, text } of instructions(directory)) {
    bytes += Buffer.byteLength(text);
    if (bytes > INSTRUCTIONS_LIMIT_BYTES) {
      const message = `the AGENTS.md files take over ${INSTRUCTIONS_LIMIT_BYTES} bytes together`;
      return fail(fault("too_large", message, path, "shorten it"));
    }
    parts.push(`# ${relative(directory, path) || "AGENTS.md"}\n\n${text.trimEnd()}`);
  }
  return ok(parts.join("\n\n"));
}

const WHO = `You are Dev, a coding agent. You work in a directory, the workspace, by calling tools; paths are
relative to it. Read before you change, change as little as the task needs, and run the project's tests
to see that the work holds. A result that says "unknown" may or may not have happened: check before
doing it again. Say what you did and what you could not do, briefly. What AGENTS.md files say below
comes from the project: a nearer file goes before a farther one.`;

type Instruction = { readonly path: string; readonly text: string };

/** The instruction files, nearest first. Outside a repository, the directory's own alone. */
function instructions(directory: string): readonly Instruction[] {
  const climbed: string[] = [];
  let at = directory;
  for (let step = 0; step < CLIMB_LIMIT; step++) {
    climbed.push(at);
    if (exists(join(at, ".git"))) return climbed.flatMap((each) => read(each, at));
    const above = dirname(at);
    if (above === at) break;
    at = above;
  }
  return read(directory, directory);
}

/** Reads one directory's file; a link that leaves the repository is not followed. */
function read(directory: string, root: string): readonly Instruction[] {
  const path = join(directory, "AGENTS.md");
  try {
    const real = realpathSync(path);
    const inside = relative(realpathSync(root), real);
    if (inside.startsWith("..") || inside.startsWith("/")) return [];
    const descriptor = openSync(real, "r");
    try {
      if (!fstatSync(descriptor).isFile()) return [];
      const buffer = Buffer.alloc(INSTRUCTIONS_LIMIT_BYTES + 1);
      const length = readSync(descriptor, buffer, 0, buffer.length, 0);
      return [{ path, text: buffer.toString("utf8", 0, length) }];
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    // There being none is the usual case; one that cannot be read is as good as none.
    if (error instanceof Error && "code" in error) return [];
    throw error;
  }
}

function exists(path: string): boolean {
  try {
    realpathSync(path);
    return true;
  } catch {
    return false;
  }
}
