import { existsSync, mkdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

/** Where a person's settings and Dev's own state are. */
export type Home = {
  /** The person's settings. */
  readonly config: string;
  /** What the machine's administrator has settled. */
  readonly managed: string;
  /** Sessions, cells and workspaces; private to the person. */
  readonly state: string;
  readonly database: string;
  readonly cells: string;
  readonly workspaces: string;
  /** What the workspaces held, at every checkpoint. */
  readonly snapshots: string;
};

/**
 * Makes a directory for its owner alone, and those above it. Node's own recursive mkdir never returns
 * where making one answers ENOENT for ever, as in /proc and in some automounts.
 */
export function makeDirectory(path: string): void {
  if (existsSync(path)) {
    if (statSync(path).isDirectory()) return;
    throw new Error(`ENOTDIR: not a directory, mkdir '${path}'`);
  }
  const above = dirname(path);
  if (above !== path) makeDirectory(above);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have been faster.
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}

/** `DEV_HOME` holds both; else the XDG directories do. */
export function findHome(env: NodeJS.ProcessEnv): Home {
  const home = env.HOME || homedir();
  const state = env.DEV_HOME || join(env.XDG_STATE_HOME || join(home, ".local/state"), "dev");
  const config = env.DEV_HOME || join(env.XDG_CONFIG_HOME || join(home, ".config"), "dev");
  return {
    config: join(config, "config.toml"),
    managed: "/etc/dev/config.toml",
    state,
    database: join(state, "dev.db"),
    cells: join(state, "cells"),
    workspaces: join(state, "workspaces"),
    snapshots: join(state, "snapshots"),
  };
}
