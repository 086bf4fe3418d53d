import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Action,
  actionId,
  type CellId,
  cellId,
  type EffectEvent,
  type EffectOp,
  fail,
  fault,
  ok,
  type Result,
  ROOT_AGENT,
  turnId,
} from "@dev/protocol";
import { rgPath } from "@vscode/ripgrep";
import { rolldown } from "rolldown";
import { afterAll } from "vitest";
import { DEFAULT_CELL_LIMITS } from "../src/limits.ts";
import type { CellSpec, Link, Observation, Progress, Vendor } from "../src/vendor.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import { openVendor } from "../src/vendors/registry.ts";
import { ptyAddon } from "./cell.ts";
import type { Call, Told } from "./driver.ts";

/** A directory that is gone after the file's tests; `uid` owns it, and everybody can walk through it. */
export function temporary(uid?: number): string {
  const path = mkdtempSync(join(tmpdir(), "dev-cell-"));
  chmodSync(path, 0o755);
  if (uid !== undefined) chownSync(path, uid, uid);
  atEnd(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Is done after the file's last test, the latest first, wherever it was asked for. */
export function atEnd(work: () => void): void {
  endings.push(work);
}

const endings: (() => void)[] = [];
afterAll(() => {
  for (const work of endings.reverse()) work();
});

/** Bundles one program as a release does. */
export async function bundled(entry: string, file: string): Promise<string> {
  const build = await rolldown({
    input: join(import.meta.dirname, entry),
    platform: "node",
    // Only one kind loads it, and it is large.
    external: ["@kubernetes/client-node"],
    resolve: { conditionNames: ["source", "node", "import", "default"] },
  });
  await build.write({ file, format: "esm", codeSplitting: false });
  await build.close();
  return file;
}

const bundles = mkdtempSync(join(tmpdir(), "dev-bundles-"));
chmodSync(bundles, 0o755);
atEnd(() => rmSync(bundles, { recursive: true, force: true }));
const agentBundle: string = await bundled("../src/agent/main.ts", join(bundles, "agent.mjs"));
/** Where every user may run it: a checkout may lie in somebody's closed home. */
const rg: string = join(bundles, "rg");
copyFileSync(rgPath, rg);
const pty: string = join(bundles, "pty.node");
copyFileSync(ptyAddon, pty);
const driverBundle: string = await bundled("driver.ts", join(bundles, "driver.mjs"));

/** The one that set-up has built, or else this machine's. */
export const runsc: string = builtRunsc() ?? "runsc";

function builtRunsc(): string | undefined {
  const directory = join(import.meta.dirname, "../../../.cache/bin");
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const built = names.filter((name) => /^runsc-v[\w.-]+$/.test(name)).sort();
  return built.map((name) => join(directory, name)).at(-1);
}

export function optionsIn(base: string, rest: Partial<VendorOptions> = {}): VendorOptions {
  return {
    home: join(base, "cells"),
    agent: agentBundle,
    rg,
    pty,
    environment: { PATH: process.env.PATH, HOME: process.env.HOME },
    masked: [],
    runsc: { binary: runsc },
    ...rest,
  };
}

/** A new id; whatever a failed test leaves running of its cell ends with the file. */
export function newId(): CellId {
  const id = cellId(Date.now(), randomBytes(10));
  atEnd(() => {
    for (const pid of processesOf(id)) endProcess(pid);
  });
  return id;
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself, as it should.
  }
}

export function specIn(base: string, rest: Partial<CellSpec> = {}, uid?: number): CellSpec {
  const workspace = mkdtempSync(join(base, "workspace-"));
  if (uid !== undefined) chownSync(workspace, uid, uid);
  return { workspace, variables: {}, limits: DEFAULT_CELL_LIMITS, ...rest };
}

/** Whoever asks a vendor: in this process, or in one that can be killed. */
export type Driver = {
  readonly vendor: Vendor;
  readonly pid: number;
  readonly kill: () => Promise<void>;
};

export function driverHere(name: string, options: VendorOptions): Driver {
  const stop = new AbortController();
  const vendor = openVendor(name, options, stop.signal);
  if (!vendor.ok) throw new Error(vendor.fault.message);
  return { vendor: vendor.value, pid: process.pid, kill: async () => stop.abort() };
}

/** What a driver's process gets besides: variables, and an open descriptor of its own. */
export type Inheritance = {
  readonly environment?: Readonly<Record<string, string>>;
  readonly leak?: { readonly from: number; readonly to: number };
};

/** The same vendor in a process of its own; with `uid`, one of a user that is nobody. */
export function driverApart(
  name: string,
  options: VendorOptions,
  uid?: number,
  { environment, leak }: Inheritance = {},
): Driver {
  const stdio: (number | "pipe" | "inherit" | "ignore")[] = ["pipe", "pipe", "inherit"];
  while (leak !== undefined && stdio.length < leak.to) stdio.push("ignore");
  if (leak !== undefined) stdio.push(leak.from);
  const child = spawn(process.execPath, [driverBundle, name, JSON.stringify(options)], {
    stdio,
    cwd: "/",
    env: { ...process.env, ...environment },
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error("a driver without pipes");
  const waiting = new Map<number, { answer: (value: unknown) => void; progress: Progress }>();
  let last = 0;
  const ask = (call: Call, progress: Progress = () => undefined): Promise<unknown> =>
    new Promise((answer) => {
      last += 1;
      waiting.set(last, { answer, progress });
      stdin.write(`${JSON.stringify({ ...call, seq: last })}\n`);
    });
  const linked = (value: unknown): Observation => {
    const observation = value as Observation;
    if (observation.kind !== "ready") return observation;
    const facts = observation.link as Link & { readonly number: number };
    const perform: Link["perform"] = async (action) =>
      (await ask({ call: "perform", link: facts.number, action })) as Result<EffectEvent>;
    const close = async (): Promise<void> => {
      await ask({ call: "close", link: facts.number });
    };
    const open: Link["open"] = async (kind) => fail(fault("unsupported", "not from here", kind));
    const collect: Link["collect"] = async () => ok(undefined);
    const acknowledge: Link["acknowledge"] = () => undefined;
    return { kind: "ready", link: { ...facts, perform, close, acknowledge, open, collect } };
  };
  const observed = async (call: Call, progress?: Progress): Promise<Result<Observation>> => {
    const result = (await ask(call, progress)) as Result<unknown>;
    return result.ok ? { ok: true, value: linked(result.value) } : result;
  };
  createInterface({ input: stdout }).on("line", (line) => {
    const told = JSON.parse(line) as Told;
    const one = waiting.get(told.seq);
    if (told.kind === "progress") one?.progress(linked(told.value));
    else one?.answer(told.value);
  });
  atEnd(() => void child.kill("SIGKILL"));
  return {
    vendor: {
      name,
      create: (id, spec, progress) => observed({ call: "create", id, spec }, progress),
      get: (id, spec, progress) => observed({ call: "get", id, spec }, progress),
      hibernate: (id) => observed({ call: "hibernate", id }),
      delete: (id) => observed({ call: "delete", id }),
    },
    pid: child.pid ?? 0,
    kill: () => killed(child),
  };
}

function killed(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
    child.kill("SIGKILL");
  });
}

/** Everything that a vendor says of one acquisition, up to the last word. */
export async function acquired(
  ask: (progress: Progress) => Promise<Result<Observation>>,
): Promise<{ readonly said: readonly string[]; readonly last: Observation }> {
  const said: string[] = [];
  let end: (last: Observation) => void = () => undefined;
  const last = new Promise<Observation>((resolve) => {
    end = resolve;
  });
  const hear = (observation: Observation): void => {
    said.push(observation.kind);
    if (["ready", "failed", "gone"].includes(observation.kind)) end(observation);
  };
  const later: Observation[] = [];
  let first = false;
  const result = await ask((observation) => {
    if (first) hear(observation);
    else later.push(observation);
  });
  if (!result.ok) throw new Error(`${result.fault.code}: ${result.fault.message}`);
  hear(result.value);
  first = true;
  for (const observation of later) hear(observation);
  return { said, last: await last };
}

export async function linkOf(
  ask: (progress: Progress) => Promise<Result<Observation>>,
): Promise<Link> {
  const { last } = await acquired(ask);
  if (last.kind === "ready") return last.link;
  throw new Error(
    last.kind === "failed" ? `${last.fault.message} (${last.fault.mend})` : last.kind,
  );
}

let actions = 0;

/** An exec of this action id, or of one that nobody has used. */
export function execAction(argv: readonly string[], rest: Partial<EffectOp> = {}): Action {
  actions += 1;
  const op = { kind: "exec", argv, cwd: ".", env: [], stdin: "", timeoutMs: 0, background: false };
  return {
    id: actionId(actions),
    agent: ROOT_AGENT,
    turn: turnId(1),
    op: { ...op, ...rest } as EffectOp,
  };
}

export type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs a command in a cell, to its exit. */
export async function ran(link: Link, ...argv: readonly string[]): Promise<Ran> {
  return ranOf(await perform(link, execAction(argv)));
}

export function perform(link: Link, action: Action): Promise<Result<EffectEvent>> {
  return link.perform(action, () => undefined, new AbortController().signal);
}

export function ranOf(answer: Result<EffectEvent>): Ran {
  if (!answer.ok) throw new Error(`${answer.fault.code}: ${answer.fault.message}`);
  const { outcome } = answer.value;
  if (outcome.kind !== "ok" || outcome.result.kind !== "exec") {
    throw new Error(`not run: ${JSON.stringify(outcome)}`);
  }
  const { end, stdout, stderr } = outcome.result;
  return { code: end.kind === "exit" ? end.code : -1, stdout, stderr };
}

/** The processes, as the machine sees them, whose environment says that they are this cell's. */
export function processesOf(id: CellId): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => isOf(pid, id))
    .map(Number);
}

/** What a runtime starts beside a container has not its variables, and its name among the arguments. */
function isOf(pid: string, id: CellId): boolean {
  if (told(pid, "environ").split("\0").includes(`DEV_CELL=${id}`)) return true;
  const words = told(pid, "cmdline").split("\0");
  const isRuntime = /(runsc|conmon)[^/]*$/.test(words[0] ?? "");
  return isRuntime && (words.includes(id) || words.includes(`dev-${id}`));
}

/** A file of a process, which may end while it is looked at. */
function told(pid: number | string, name: "environ" | "cmdline"): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

/** The pid of the agent itself, as the machine sees it: the one that runs the bundle. */
export function agentOf(id: CellId): number {
  const agents = processesOf(id).filter((pid) => {
    const [program = "", script = ""] = told(pid, "cmdline").split("\0");
    return /node$/.test(program) && /agent\.mjs$/.test(script);
  });
  const [agent] = agents;
  if (agents.length !== 1 || agent === undefined) throw new Error(`agents of ${id}: ${agents}`);
  return agent;
}

/** Waits for something that happens by itself; the test's own deadline is the limit. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(5);
}

export const isRoot: boolean = process.getuid?.() === 0;
/** A user of nothing on this machine. */
export const NOBODY = 0x6fff_0001;

/** The variables of that user, with a home of their own where a container engine keeps its storage. */
export function nobodysEnvironment(): VendorOptions["environment"] {
  const home = temporary(NOBODY);
  // Podman leaves a process that holds the user's namespace.
  atEnd(() => {
    for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
      if (told(name, "environ").split("\0").includes(`HOME=${home}`)) endProcess(Number(name));
    }
  });
  return { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: home };
}

/** Why bubblewrap cannot be tested here; where it must be, that is a failure and not a skip. */
export const noBubblewrap: string | undefined = missing("bwrap", [
  ...["--unshare-all", "--ro-bind", "/", "/", "true"],
]);

/** Why the kinds that a runtime runs cannot be tested here: they are driven by root. */
export function noRuntime(binary: string): string | undefined {
  return isRoot ? missing(binary, ["--version"]) : "the tests do not run as root";
}

function missing(program: string, args: readonly string[]): string | undefined {
  try {
    execFileSync(program, args, { stdio: "pipe" });
    return undefined;
  } catch (error) {
    if (process.env.CI === "true") throw error;
    const why = `${program} does not work here: ${String(error)}`;
    process.stderr.write(`skipped: ${why}\n`);
    return why;
  }
}
