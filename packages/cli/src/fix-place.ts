import { type Dirent, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { holderName, isHolderAlive } from "./holder.ts";
import { type Home, makeDirectory } from "./home.ts";

/** Where `dev fix` keeps what it keeps, and the directory of this run. */
export type FixPlace = {
  /** For this run's copies: made by its guard, and removed with it. */
  readonly run: string;
  readonly ledger: string;
  readonly spend: string;
  readonly journal: string;
  readonly owner: string;
};

/** What parts a run's owner from the chance in its directory's name. */
const SEPARATOR = "~";

/** Names a directory for this run, and removes those of runs that have died; no other is touched. */
export function makePlace(home: Home, chance: string): FixPlace {
  const root = join(home.state, "kai");
  const runs = join(root, "runs");
  makeDirectory(runs);
  for (const entry of readdirSync(runs, { withFileTypes: true })) sweep(runs, entry);
  const owner = holderName();
  const run = join(runs, `${encodeURIComponent(owner)}${SEPARATOR}${chance}`);
  return {
    run,
    owner,
    ledger: join(root, "ledger.jsonl"),
    spend: join(root, "spend.jsonl"),
    journal: join(root, "journal"),
  };
}

function sweep(runs: string, entry: Dirent): void {
  const [name = "", chance] = entry.name.split(SEPARATOR);
  // What is not named as a run is would be somebody else's.
  if (!entry.isDirectory() || chance === undefined || isHolderAlive(decodeURIComponent(name)))
    return;
  try {
    rmSync(join(runs, entry.name), { recursive: true, force: true, maxRetries: 2 });
  } catch {
    // Its guard may be at it in this moment; or it is left for the next run.
  }
}
