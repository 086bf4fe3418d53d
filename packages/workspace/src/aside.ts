import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { basename } from "node:path";
import type { Dir } from "./walk.ts";

/** A process, by a name that no later one shares, and whether one of such a name still runs. */
export type Holder = {
  readonly holder: string;
  readonly isAlive: (holder: string) => boolean;
};

const PREFIX = ".dev-apply-";

/**
 * Makes a directory in a directory for what is written aside, and answers its name. That holds the name
 * of its maker, since whatever were written into it would not yet be there after a crash in between.
 */
export function makeAside(dir: Dir, holder: string): string {
  return basename(mkdtempSync(dir.at(`${PREFIX}${Buffer.from(holder).toString("base64url")}.`)));
}

/** Removes what makers that are no more have left; no other directory, whatever it is named. */
export function clearAsides(dir: Dir, isAlive: (holder: string) => boolean): void {
  for (const name of readdirSync(dir.at("."))) {
    const holder = makerOf(name);
    if (holder === null || isAlive(holder) || !lstatSync(dir.at(name)).isDirectory()) continue;
    rmSync(dir.at(name), { recursive: true, force: true });
  }
}

/** Whether a name in a root is one that `makeAside` gives. */
export function isAside(name: string): boolean {
  return makerOf(name) !== null;
}

function makerOf(name: string): string | null {
  const [, coded = ""] = /^\.dev-apply-([\w-]+)\.\w{6}$/.exec(name) ?? [];
  const holder = Buffer.from(coded, "base64url").toString();
  const isOurs = coded !== "" && Buffer.from(holder).toString("base64url") === coded;
  return isOurs ? holder : null;
}
