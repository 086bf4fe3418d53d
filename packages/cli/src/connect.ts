import { createHash } from "node:crypto";
import { readFileSync, realpathSync, statSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { openVendor } from "@dev/cell";
import { type Clock, dialler, outpost, type VendorCall } from "@dev/cell/far";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { ConnectCommand } from "./connect-args.ts";
import { EXIT, type ExitCode, exitOfFault } from "./exit.ts";
import type { Home } from "./home.ts";
import { faultText, printable } from "./say.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";
import { randomBytes, vendorOptions } from "./world.ts";

/** A token is short; what is longer is another file. */
const TOKEN_FILE_LIMIT_BYTES = 4096;

/**
 * `dev connect`: dials a server and has its sessions work in directories of this machine, until it is
 * interrupted. The server names a directory and never a path: what is not served is refused, and said.
 */
export async function connect(
  command: ConnectCommand,
  home: Home,
  terminal: Terminal,
): Promise<ExitCode> {
  const plan = planOf(command, terminal);
  if (!plan.ok) return failed(plan.fault, terminal);
  // The person's own: what a project says is for sessions that begin in it.
  const settings = loadSettings(home, dirname(home.config));
  if (!settings.ok) return failed(settings.fault, terminal);
  const { signal, release } = terminal.interrupts();
  const { name, server, workspaces } = plan.value;
  const options = await vendorOptions(home, settings.value, terminal);
  const vendor = openVendor("local", { ...options, home: stateOf(home, plan.value) }, signal);
  if (!vendor.ok) return failed(vendor.fault, terminal);
  const say = (text: string): void => terminal.complain(`dev: ${printable(text)}\n`);
  for (const [its, directory] of workspaces) say(`serves ${its}: ${directory}`);
  say("sessions that work in one directory share its files");
  const confinement = await vendor.value.confinement?.();
  if (confinement?.kind === "none") say(`commands are not confined: ${confinement.why.message}`);
  const clock = clockOf(terminal);
  const dial = dialler({
    server,
    readToken: async () => readToken(terminal),
    headers: {
      "dev-instance": Buffer.from(randomBytes(terminal)).toString("hex"),
      "dev-name": name,
      "dev-label": labelOf(),
    },
    clock,
    random: () => terminal.random(),
    onTrouble: (message) => say(`${message}; dialling again`),
  });
  const post = outpost({
    vendor: vendor.value,
    description: { vendor: "local", workspaces: [...workspaces.keys()] },
    workspaceOf: (asked) => workspaceOf(workspaces, asked),
    onCall: (call, refused) => sayCall(call, refused, say),
    onLink: (state) =>
      say(state === "up" ? `connected to ${server.host} as ${name}` : "the link is lost"),
  });
  const why = await post.serve(dial, signal);
  release();
  if (!signal.aborted) return failed(why, terminal);
  say("interrupted: commands that run end by themselves, and their outcomes are kept");
  // Agents that still run something keep their ends of our links open; they let go when we are gone.
  process.exit(EXIT.complete);
}

type Plan = {
  readonly server: URL;
  readonly name: string;
  /** Real paths of directories, by name. */
  readonly workspaces: ReadonlyMap<string, string>;
};

function planOf(command: ConnectCommand, terminal: Terminal): Result<Plan> {
  const written = command.server ?? terminal.env.DEV_SERVER ?? "";
  const server = serverOf(written);
  if (!server.ok) return server;
  const token = readToken(terminal);
  if (!token.ok) return token;
  const workspaces = new Map<string, string>();
  for (const [name, directory] of command.workspaces) {
    const real = directoryAt(directory);
    if (!real.ok) return real;
    workspaces.set(name, real.value);
  }
  return ok({ server: server.value, name: command.name ?? nameOf(hostname()), workspaces });
}

function serverOf(written: string): Result<URL> {
  if (written === "") {
    return fail(fault("config", "there is no server", "", "give --server URL, or set DEV_SERVER"));
  }
  if (!URL.canParse(written)) return fail(fault("config", "this is not a URL", written));
  const url = new URL(written);
  if (url.username !== "" || url.password !== "" || url.search !== "") {
    const mend = "give the token in DEV_TOKEN_FILE or DEV_TOKEN";
    return fail(fault("config", "a server's URL holds no secret", url.host, mend));
  }
  const isHere = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (url.protocol === "https:" || (url.protocol === "http:" && isHere)) return ok(url);
  return fail(fault("config", "a token is sent over https only", written, "write https://…"));
}

function directoryAt(path: string): Result<string> {
  try {
    const real = realpathSync(path);
    if (statSync(real).isDirectory()) return ok(real);
    return fail(fault("config", "this is not a directory", path));
  } catch (error) {
    return fail(fault("config", `it cannot be served: ${wordsOf(error)}`, path));
  }
}

/** The token is never an argument: what a command was given is for every process to see. */
function readToken({ env }: Terminal): Result<string> {
  const path = env.DEV_TOKEN_FILE;
  const mend = "set DEV_TOKEN_FILE to a file with the token that the server gave you, or DEV_TOKEN";
  if (path === undefined) {
    const token = env.DEV_TOKEN?.trim() ?? "";
    return token === "" ? fail(fault("config", "there is no token", "", mend)) : ok(token);
  }
  try {
    if (statSync(path).size > TOKEN_FILE_LIMIT_BYTES) {
      return fail(fault("config", "it is too long for a token", path, mend));
    }
    const token = readFileSync(path, "utf8").trim();
    return /^\S+$/.test(token)
      ? ok(token)
      : fail(fault("config", "there is no token in it", path, mend));
  } catch (error) {
    return fail(fault("config", `the token cannot be read: ${wordsOf(error)}`, path, mend));
  }
}

function workspaceOf(workspaces: Plan["workspaces"], asked: string): Result<string> {
  const directory = workspaces.get(asked);
  if (directory !== undefined) return ok(directory);
  const served = [...workspaces.keys()].join(", ");
  return fail(
    fault("config", "no workspace of this name is served here", asked, `one of: ${served}`),
  );
}

function sayCall(call: VendorCall, refused: Fault | undefined, say: (text: string) => void): void {
  if (call.kind === "describe") return;
  const where = call.kind === "create" ? ` in ${call.spec.workspace}` : "";
  const what = `${call.kind} ${call.cell}${where}`;
  if (refused !== undefined) say(`refused: ${what}: ${faultText(refused)}`);
  else if (call.kind === "create" || call.kind === "delete") say(what);
}

/** What belongs to one name on one server: its cells come back after a restart, and are nobody else's. */
function stateOf(home: Home, { server, name }: Plan): string {
  const digest = createHash("sha256").update(`${server.origin}${server.pathname}\n${name}`);
  return join(home.state, "connect", digest.digest("hex").slice(0, 16));
}

/** Who holds the name, for whoever else wants it. */
function labelOf(): string {
  return nameOf(`${userInfo().username}@${hostname()}`);
}

function nameOf(text: string): string {
  return text.replace(/[^\w.@-]/g, "-").slice(0, 64) || "unnamed";
}

function clockOf(terminal: Terminal): Clock {
  let lastMs = 0;
  return {
    wallMs: () => terminal.nowMs(),
    monotonicMs: () => {
      // A clock that is set back stands still for as long: what waits then waits longer.
      lastMs = Math.max(lastMs, terminal.nowMs());
      return lastMs;
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const end = (): void => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", end);
          resolve();
        };
        const timer = setTimeout(end, ms);
        signal?.addEventListener("abort", end, { once: true });
      }),
  };
}

function failed(why: Fault, terminal: Terminal): ExitCode {
  terminal.complain(`dev: ${faultText(why)}\n`);
  return exitOfFault(why);
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
