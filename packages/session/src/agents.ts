import { join } from "node:path";
import { OFFERED_TOOLS } from "@dev/model";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { readFrontMatter } from "./front-matter.ts";
import { preludeFor } from "./prelude.ts";
import { namesInside, type Repository, readInside, repositoryOf } from "./repository.ts";

/** A kind of sub-agent, as a project's file describes it. */
export type AgentFile = {
  readonly name: string;
  /** When to use it, as the model is told. */
  readonly description: string;
  /** The first message of its conversations: what every agent is told, its own part, the project's files. */
  readonly prelude: string;
  /** `provider/model`; null: that of the agent that spawns it. */
  readonly model: string | null;
  /** The tools that it may use at most; null: all that the agent that spawns it has. */
  readonly tools: readonly string[] | null;
  /** The file, absolute. */
  readonly path: string;
  /** Whether it lies where other tools look as well: what Dev cannot use there is passed over. */
  readonly isShared: boolean;
};

/** How many kinds a project may have. */
const AGENT_KIND_LIMIT = 64;
/** One kind's file, in bytes. */
const AGENT_FILE_LIMIT_BYTES = 64 * 1024;
/** The preludes of all kinds together, in bytes: every snapshot of a session has them. */
const AGENT_PRELUDES_LIMIT_BYTES = 2 * 1024 * 1024;

/** Where kinds are described, the first of a name before the others. */
const PLACES = [
  { name: ".dev/agents", isShared: false },
  { name: ".agents/agents", isShared: true },
] as const;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const DESCRIPTION_LIMIT = 1024;

/**
 * The kinds of sub-agent that `.dev/agents/*.md` and `.agents/agents/*.md` describe, from `directory` up to
 * the root of its repository. Of those of one name the nearest counts, and in one directory that in
 * `.dev`. A link that leaves the repository is not followed. What is wrong with a file, `onFlaw` is told:
 * a fault `config` or `too_large` that names the file and the field, and whether it `isShared`; the kinds
 * are those of the other files. Faults: `config`, `too_large`, when there is too much of them together.
 */
export function agentKinds(
  directory: string,
  onFlaw: (fault: Fault, isShared: boolean) => void,
): Result<readonly AgentFile[]> {
  const repository = repositoryOf(directory);
  const kinds = new Map<string, AgentFile>();
  let preludeBytes = 0;
  for (const { path, isShared } of filesOf(repository)) {
    const bytes = readInside(path, repository, AGENT_FILE_LIMIT_BYTES);
    if (bytes === null) continue;
    const kind = kindOf(bytes, path, isShared, directory);
    if (!kind.ok) {
      onFlaw(kind.fault, isShared);
      continue;
    }
    if (kinds.has(kind.value.name)) continue;
    if (kinds.size === AGENT_KIND_LIMIT) {
      const message = `there are over ${AGENT_KIND_LIMIT} kinds of sub-agent`;
      return fail(fault("config", message, path, "remove those that nobody needs"));
    }
    preludeBytes += Buffer.byteLength(kind.value.prelude);
    if (preludeBytes > AGENT_PRELUDES_LIMIT_BYTES) {
      const message = `what the kinds of sub-agent are told takes over ${AGENT_PRELUDES_LIMIT_BYTES} bytes together`;
      return fail(fault("too_large", message, path, "shorten them, or the AGENTS.md files"));
    }
    kinds.set(kind.value.name, kind.value);
  }
  return ok([...kinds.values()]);
}

function filesOf(repository: Repository): readonly Pick<AgentFile, "path" | "isShared">[] {
  return repository.directories.flatMap((directory) =>
    PLACES.flatMap((place) => {
      const inside = join(directory, place.name);
      const names = namesInside(inside, repository).filter((name) => name.endsWith(".md"));
      return names.map((name) => ({ path: join(inside, name), isShared: place.isShared }));
    }),
  );
}

function kindOf(
  bytes: Buffer,
  path: string,
  isShared: boolean,
  directory: string,
): Result<AgentFile> {
  if (bytes.length > AGENT_FILE_LIMIT_BYTES) {
    const message = `it has over ${AGENT_FILE_LIMIT_BYTES} bytes`;
    return fail(fault("too_large", message, path, "shorten it"));
  }
  const text = decoded(bytes);
  if (text === null) return broken(path, "it is not UTF-8");
  const read = readFrontMatter(text, ["name", "description", "model"], ["tools"]);
  if (typeof read === "string") return broken(path, read);
  const { name = "", description = "", model = null } = read.texts;
  const { tools = null } = read.lists;
  const body = read.body.trim();
  const flaw =
    nameFlaw(name) ?? descriptionFlaw(description) ?? modelFlaw(model) ?? toolsFlaw(tools);
  if (flaw !== null) return broken(path, flaw);
  if (body === "") return broken(path, "below its fields it must say what the sub-agent is to be");
  const made = preludeFor(directory, `${partOf(name)}\n\n${body}`);
  if (!made.ok) return made;
  return ok({ name, description, prelude: made.value, model, tools, path, isShared });
}

function partOf(name: string): string {
  return `You are a sub-agent of the kind "${name}": another agent gives you a task, and of all that you say it
sees your last message alone.`;
}

function nameFlaw(name: string): string | null {
  if (NAME.test(name)) return null;
  return "name: it takes small letters, digits, - and _, at most 64, a letter or a digit first";
}

function descriptionFlaw(description: string): string | null {
  if (description === "") return "description: it must say when to use this kind";
  if (description.length <= DESCRIPTION_LIMIT) return null;
  return `description: it has over ${DESCRIPTION_LIMIT} characters`;
}

function modelFlaw(model: string | null): string | null {
  if (model === null || /^[^/\s]+\/\S+$/.test(model)) return null;
  return "model: it is written provider/model";
}

function toolsFlaw(tools: readonly string[] | null): string | null {
  const known: readonly string[] = OFFERED_TOOLS;
  const strange = tools?.find((tool) => !known.includes(tool));
  if (strange === undefined) return null;
  return `tools: there is no tool "${strange}"; there are ${known.join(", ")}`;
}

function decoded(bytes: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function broken(path: string, flaw: string): Result<never> {
  return fail(fault("config", flaw, path, "mend this description of a kind of sub-agent"));
}
