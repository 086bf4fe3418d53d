import { basename, resolve } from "node:path";

/** `dev connect`: which server, and what it may work in. */
export type ConnectCommand = {
  readonly kind: "connect";
  /** Null: what the environment says. */
  readonly server: string | null;
  /** Directories as they were given, each under its name; at least one. */
  readonly workspaces: ReadonlyMap<string, string>;
  /** Null: the machine's host name. */
  readonly name: string | null;
};

/** Directories that one machine serves. */
export const WORKSPACE_LIMIT: number = 64;

type Values = {
  readonly server?: string;
  readonly workspace?: readonly string[];
  readonly name?: string;
};

/** Reads what was given to `dev connect`; a text says what was wrong with it. */
export function connectCommand(values: Values): ConnectCommand | string {
  const given = values.workspace ?? ["."];
  if (given.length > WORKSPACE_LIMIT) return `at most ${WORKSPACE_LIMIT} times --workspace`;
  const workspaces = new Map<string, string>();
  for (const each of given) {
    const [, named, directory = each] = /^([\w.@-]+)=(.*)$/s.exec(each) ?? [];
    if (directory === "") return `--workspace ${each} names no directory`;
    const name = named ?? basename(resolve(directory));
    if (!NAME.test(name)) return `"${name}" is no name for a workspace: write --workspace NAME=DIR`;
    if (workspaces.has(name))
      return `two workspaces are called ${name}: write --workspace NAME=DIR`;
    workspaces.set(name, directory);
  }
  const name = values.name ?? null;
  if (name !== null && !NAME.test(name)) {
    return `--name has letters, digits and any of . _ @ -, at most 64; not "${name}"`;
  }
  return { kind: "connect", server: values.server ?? null, workspaces, name };
}

const NAME = /^[\w.@-]{1,64}$/;
