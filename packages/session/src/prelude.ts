import { join, relative } from "node:path";
import { fail, fault, ok, type Result } from "@dev/protocol";
import { readInside, repositoryOf } from "./repository.ts";

/** What the projects' own instructions may take in a prelude, all together, in bytes. */
export const INSTRUCTIONS_LIMIT_BYTES: number = 128 * 1024;

/**
 * The first message of a session's conversations: who the agent is, and what the `AGENTS.md` files
 * say, nearest first, from `directory` up to the root of its repository. Fault: `too_large`.
 */
export function prelude(directory: string): Result<string> {
  return preludeFor(directory, "");
}

/** The same for an agent that has a part of its own, which stands before what the project says. */
export function preludeFor(directory: string, part: string): Result<string> {
  const parts = part === "" ? [WHO] : [WHO, part];
  const repository = repositoryOf(directory);
  let bytes = 0;
  for (const each of repository.directories) {
    const path = join(each, "AGENTS.md");
    const read = readInside(path, repository, INSTRUCTIONS_LIMIT_BYTES);
    if (read === null) continue;
    const text = read.toString("utf8");
    bytes += Buffer.byteLength(text);
    if (bytes > INSTRUCTIONS_LIMIT_BYTES) {
      const message = `the AGENTS.md files take over ${INSTRUCTIONS_LIMIT_BYTES} bytes together`;
      return fail(fault("too_large", message, path, "shorten it"));
    }
    parts.push(`# ${relative(directory, path)}\n\n${text.trimEnd()}`);
  }
  return ok(parts.join("\n\n"));
}

const WHO = `You are Dev, a coding agent. You work in a directory, the workspace, by calling tools; paths are
relative to it. Read before you change, change as little as the task needs, and run the project's tests
to see that the work holds. A result that says "unknown" may or may not have happened: check before
doing it again. Say what you did and what you could not do, briefly. What AGENTS.md files say below
comes from the project: a nearer file goes before a farther one.`;
