import { HOST_NAMES, type HostName, hostOf } from "./core.ts";

/** What can be made to go wrong at a step. */
export type CrashKind =
  /** The driver's process dies, and another one takes the session up. */
  | "driver"
  /** Another driver takes the session up although this one lives: it does not know that it is old. */
  | "split"
  /** The agent's process dies with all that it runs; of its disk, what was not synced is lost or torn. */
  | "agent"
  /** The same, and the cell's disk is lost with it. */
  | "spool"
  /** The next thing that the cell's disk is to do fails, and may be half done. */
  | "disk"
  /** The cell is gone for good. */
  | "cell"
  /** The link breaks; both ends live. */
  | "link"
  /** Nothing crashes: the person stops what is being done. */
  | "stop";

export const CRASH_KINDS: readonly CrashKind[] = [
  "driver",
  "split",
  "agent",
  "spool",
  "disk",
  "cell",
  "link",
  "stop",
];

export type Crash = { readonly kind: CrashKind; readonly step: number };

/** One run: all that happens in it follows from this. */
export type Case = {
  readonly scenario: string;
  readonly seed: number;
  readonly crashes: readonly Crash[];
  readonly host: HostName;
};

/** Writes a case as `exec/7/driver@12+agent@40`, and `/native` behind it where the seed says another host. */
export function caseText({ scenario, seed, crashes, host }: Case): string {
  const told = crashes.map(({ kind, step }) => `${kind}@${step}`).join("+");
  const own = host === hostOf(seed) ? "" : `/${host}`;
  return `${scenario}/${seed}/${told}${own}`;
}

/** Reads what `caseText` wrote. */
export function parseCase(text: string): Case {
  const [scenario = "", number = "0", told = "", name = ""] = text.split("/");
  const seed = Number(number);
  const crashes = told.split("+").filter((each) => each !== "");
  const host = name === "" ? hostOf(seed) : parseHost(name);
  return { scenario, seed, crashes: crashes.map(parseCrash), host };
}

export function parseHost(name: string): HostName {
  const host = HOST_NAMES.find((each) => each === name);
  if (host === undefined) throw new Error(`not a host: ${name}`);
  return host;
}

function parseCrash(text: string): Crash {
  const [name, step] = text.split("@");
  const kind = CRASH_KINDS.find((each) => each === name);
  if (kind === undefined || step === undefined) throw new Error(`not a crash: ${text}`);
  return { kind, step: Number(step) };
}
