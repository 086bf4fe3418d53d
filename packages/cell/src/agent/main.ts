import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { Socket } from "node:net";
import { fail, fault, ok, parseCellId, type Result } from "@dev/protocol";
import type { OpenChannel } from "../channel.ts";
import type { Opening } from "../wire.ts";
import { Agent } from "./agent.ts";
import type { Clock } from "./clock.ts";
import { fileDisk } from "./disk.ts";
import { cellEffects } from "./effects.ts";
import { type CellNetwork, openCellNetwork } from "./egress.ts";
import { systemFault } from "./errno.ts";
import { Commands } from "./exec.ts";
import { holdSpool } from "./lock.ts";
import { Ptys } from "./pty.ts";
import { type ChannelTable, type Host, type Served, serveLink } from "./serve.ts";
import { Spool } from "./spool.ts";
import { Tree } from "./tree.ts";

/*
 * The process in the cell. Without arguments its descriptor 3 is the link, and it ends with it. As
 * `connect URL` it dials the server there, for as long as it is not told that it is over: its token is
 * in the file that DEV_CELL_TOKEN_FILE names, or in DEV_CELL_TOKEN, and its cell in DEV_CELL. Time and
 * chance come in here and nowhere else.
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
  const [, , how, url] = process.argv;
  if (how === "connect") return process.exit(await connect(url ?? "", stopped.signal));
  const stream = new Socket({ fd: LINK_DESCRIPTOR, readable: true, writable: true });
  await serveLink(stream, openAgent, stopped.signal);
  // What a dead command left open does not keep the cell.
  process.exit(0);
}

/** The exit status: 0 when the host closed the cell, 1 when there is no more use in dialling. */
async function connect(url: string, signal: AbortSignal): Promise<number> {
  const server = URL.canParse(url) ? new URL(url) : undefined;
  if (server === undefined) return complain(`\`${url}\` is not the URL of a server`);
  // Only here: an agent that does not dial need not wait for what dialling needs.
  const { dialler } = await import("../dial.ts");
  const { serveDialled } = await import("./redial.ts");
  const cell = process.env.DEV_CELL;
  const dial = dialler({
    server,
    readToken,
    headers: {
      "dev-instance": randomBytes(16).toString("hex"),
      ...(cell === undefined ? {} : { "dev-cell": cell }),
    },
    clock,
    random: Math.random,
    onTrouble: complain,
  });
  const served = await serveDialled(dial, openAgent, signal);
  return served.ok ? 0 : complain(served.fault.message);
}

function complain(message: string): number {
  process.stderr.write(`${message}\n`);
  return 1;
}

async function readToken(): Promise<Result<string>> {
  const path = process.env.DEV_CELL_TOKEN_FILE;
  const given = process.env.DEV_CELL_TOKEN;
  try {
    const text = path === undefined ? given : await readFile(path, "utf8");
    if (text !== undefined && text.trim() !== "") return ok(text.trim());
    return fail(fault("config", "there is no token", path ?? "DEV_CELL_TOKEN"));
  } catch (error) {
    return fail(systemFault(error, path ?? ""));
  }
}

async function openAgent(
  opening: Opening,
  { onWaiting, openChannel }: Host,
  signal: AbortSignal,
): Promise<Result<Served>> {
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
  // The agent's own variables tell where commands go besides: a home, and a place for what is passing.
  const written = [opening.workspace, base.HOME, base.TMPDIR ?? "/tmp"].filter(
    (path): path is string => path !== undefined,
  );
  const network = await openNetwork(opening, openChannel);
  if (!network.ok) return network;
  const commands = await Commands.open({
    ...{ directory, identity, limits, base, clock, written },
    network: network.value,
  });
  if (!commands.ok) return commands;
  const effects = cellEffects({ tree: tree.value, commands: commands.value, rg, clock, identity });
  const agent = await Agent.open(spool.value, effects, clock);
  if (!agent.ok) return agent;
  const ptys = new Ptys({ addon: opening.pty, tree: tree.value, base, identity, clock });
  const channels: ChannelTable = {
    pty: (payload, stream) => ptys.serve(payload, stream),
    // Loaded when it is asked for: a near cell has its workspace already.
    workspace: async (payload, stream) =>
      (await import("./workspace.ts")).serveWorkspace(payload, stream, opening),
  };
  return ok({ agent: agent.value, channels });
}

async function openNetwork(
  { hasNetwork, certificates, spool }: Opening,
  openChannel: OpenChannel,
): Promise<Result<CellNetwork | null>> {
  if (!hasNetwork) return ok(null);
  const open = () => openChannel("egress", new Uint8Array(0), NEVER);
  return openCellNetwork({ directory: spool, certificates, open });
}

const NEVER: AbortSignal = new AbortController().signal;
// As many listen as there are connections that open.
setMaxListeners(0, NEVER);

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
