import { randomBytes } from "node:crypto";
import { Socket } from "node:net";
import { fail, fault, ok, parseCellId, type Result } from "@dev/protocol";
import type { Opening } from "../wire.ts";
import { Agent } from "./agent.ts";
import type { Clock } from "./clock.ts";
import { fileDisk } from "./disk.ts";
import { cellEffects } from "./effects.ts";
import { systemFault } from "./errno.ts";
import { Commands } from "./exec.ts";
import { holdSpool } from "./lock.ts";
import { serveLink } from "./serve.ts";
import { Spool } from "./spool.ts";
import { Tree } from "./tree.ts";

/*
 * The process in the cell. Its descriptor 3 is the link; it ends with it. Time and chance come in here
 * and nowhere else.
 */

/** The descriptor of the link: one end of a socket pair. */
const LINK_DESCRIPTOR = 3;
/** More of each output than any outcome may hold: an event has its limit. */
const OUTPUT_LIMIT_BYTES = 1024 * 1024;

const clock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const timer = setTimeout(done, Math.min(ms, TIMER_LIMIT_MS));
      function done(): void {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      }
      signal?.addEventListener("abort", done, { once: true });
    }),
};

/** Above this a timer fires at once. */
const TIMER_LIMIT_MS = 2 ** 31 - 1;

async function main(): Promise<void> {
  const stopped = new AbortController();
  process.once("SIGTERM", () => stopped.abort());
  // A person's Ctrl-C goes to the whole terminal: what it is to stop is said over the link.
  process.on("SIGINT", () => {});
  process.on("SIGHUP", () => {});
  const stream = new Socket({ fd: LINK_DESCRIPTOR, readable: true, writable: true });
  await serveLink(stream, openAgent, stopped.signal);
  // What a dead command left open does not keep the cell.
  process.exit(0);
}

async function openAgent(
  opening: Opening,
  onWaiting: () => void,
  signal: AbortSignal,
): Promise<Result<Agent>> {
  const cell = parseCellId(opening.cell);
  if (!cell.ok) return cell;
  const tree = openTree(opening.workspace);
  if (!tree.ok) return tree;
  // Held until this process ends.
  const lock = await holdSpool(opening.spool, onWaiting, signal);
  if (!lock.ok) return lock;
  const { generation, rg } = opening;
  const fresh = randomBytes(16).toString("hex");
  const spool = await Spool.open(fileDisk(opening.spool), {
    cell: cell.value,
    generation,
    identity: fresh,
  });
  if (!spool.ok) return spool;
  const { identity } = spool.value;
  const limits = {
    ...opening.limits,
    outputBytes: Math.min(opening.limits.outputBytes, OUTPUT_LIMIT_BYTES),
  };
  const base = baseVariables(opening);
  const directory = opening.spool;
  const commands = await Commands.open({ directory, identity, limits, base, clock });
  if (!commands.ok) return commands;
  const effects = cellEffects({ tree: tree.value, commands: commands.value, rg, clock, identity });
  return Agent.open(spool.value, effects, clock);
}

function openTree(workspace: string): Result<Tree> {
  try {
    return ok(new Tree(workspace));
  } catch (error) {
    const why = systemFault(error, workspace);
    return fail(fault("unavailable", `the workspace: ${why.message}`, workspace, why.mend));
  }
}

/** What of the agent's own environment every command gets; the rest stays where it is. */
const INHERITED = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LC_ALL",
  "TERM",
  "TMPDIR",
  "TZ",
];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

function baseVariables(opening: Opening): Readonly<Record<string, string>> {
  const variables: Record<string, string> = { PATH: DEFAULT_PATH };
  for (const name of INHERITED) {
    const value = process.env[name];
    if (value !== undefined) variables[name] = value;
  }
  for (const { name, value } of opening.variables) variables[name] = value;
  return variables;
}

await main();
