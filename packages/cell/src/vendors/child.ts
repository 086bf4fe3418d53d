import { mkdir, realpath, stat } from "node:fs/promises";
import {
  type CellId,
  type Fault,
  fail,
  fault,
  ok,
  type Result,
  type Variable,
} from "@dev/protocol";
import { connectLink } from "../link.ts";
import type { Boundary, CellSpec, Link, Observation, Progress, Vendor } from "../vendor.ts";
import { diagnose } from "./diagnosis.ts";
import { type Launch, type Launched, launch, logTail, within } from "./launch.ts";
import { endMarked, isAlive, killProcess, type ProcessName, waitForEnd } from "./process.ts";
import {
  type CellDirectory,
  type CellRecord,
  createRecord,
  directoryOf,
  emptyDirectory,
  ioFault,
  readRecord,
  removeCell,
  writeRecord,
} from "./record.ts";

/** A kind of cell whose agent is a child of this process; kinds differ only in what they start. */
export type ChildKind = {
  readonly name: string;
  /** The directory of this machine that has a directory for each cell. */
  readonly home: string;
  prepare(start: Start, signal: AbortSignal): Promise<Result<Launch>>;
};

export type Start = {
  readonly id: CellId;
  /** Its workspace has been resolved, and is a directory. */
  readonly spec: CellSpec;
  readonly directory: CellDirectory;
  /** What stood between the cell and the machine when it ran last; null before its first start. */
  readonly before: Boundary | null;
};

/** Every process of a cell has this in its environment, with the cell's id. */
export const CELL_VARIABLE = "DEV_CELL";
/** On top of a command's own deadline: what an agent needs to write down how it ended. */
const STOPPING_SLACK_MS = 30_000;
/** How long a killed process may take to be gone. */
const KILL_LIMIT_MS = 10_000;
/** How long an agent may take to end what it started, before it is killed. */
const CLOSE_LIMIT_MS = 10_000;

/**
 * A vendor of cells that are children of this process. A cell outlives us by as much as its running
 * command: the next process to ask for it waits for that (`stopping`), and starts the next generation.
 * `signal` ends every wait; a link is closed by whoever holds it.
 */
export function childVendor(kind: ChildKind, signal: AbortSignal): Vendor {
  const yard: Yard = { kind, signal, held: new Map(), turns: new Map() };
  return {
    name: kind.name,
    create: (id, spec, progress) => inTurn(yard, id, () => create(yard, id, spec, progress)),
    get: (id, spec, progress) => inTurn(yard, id, () => get(yard, id, spec, progress)),
    hibernate: (id) => inTurn(yard, id, () => look(yard, id)),
    delete: (id) => inTurn(yard, id, () => remove(yard, id)),
  };
}

/** For what must be waited for although we are ending. */
const NEVER: AbortSignal = new AbortController().signal;

type Yard = {
  readonly kind: ChildKind;
  readonly signal: AbortSignal;
  readonly held: Map<CellId, Held>;
  /** The last of those who wait to look at, or change, a cell. */
  readonly turns: Map<CellId, Promise<unknown>>;
};

type Held = Pending | Ready;

type Pending = {
  readonly kind: "pending";
  phase: "stopping" | "starting";
  readonly watchers: Set<Progress>;
  readonly stop: AbortController;
  done: Promise<void>;
};

type Ready = { readonly kind: "ready"; readonly link: Link };

/** One at a time for each cell, in the order of asking. */
function inTurn<T>(yard: Yard, id: CellId, work: () => Promise<T>): Promise<T> {
  const before = yard.turns.get(id) ?? Promise.resolve();
  const mine = before.then(work, work);
  yard.turns.set(id, mine);
  const leave = (): void => {
    if (yard.turns.get(id) === mine) yard.turns.delete(id);
  };
  mine.then(leave, leave);
  return mine;
}

async function create(
  yard: Yard,
  id: CellId,
  spec: CellSpec,
  progress: Progress,
): Promise<Result<Observation>> {
  const { home, name } = yard.kind;
  const record: CellRecord = {
    version: 1,
    id,
    vendor: name,
    generation: 0,
    boundary: null,
    running: { kind: "none" },
  };
  try {
    await mkdir(home, { recursive: true, mode: 0o700 });
  } catch (error) {
    return fail(ioFault(error, home));
  }
  const created = await createRecord(home, record);
  return created.ok ? ok(await begin(yard, record, spec, progress)) : created;
}

async function get(
  yard: Yard,
  id: CellId,
  spec: CellSpec,
  progress: Progress,
): Promise<Result<Observation>> {
  const held = yard.held.get(id);
  if (held?.kind === "ready") return ok(held);
  if (held?.kind === "pending") {
    held.watchers.add(progress);
    return ok({ kind: held.phase });
  }
  const record = await readRecord(yard.kind.home, id, yard.kind.name);
  if (!record.ok) return record;
  if (record.value === undefined) return ok({ kind: "gone" });
  return ok(await begin(yard, record.value, spec, progress));
}

/** What a cell is doing, and nothing else: a child cannot be suspended so that it outlives us. */
async function look(yard: Yard, id: CellId): Promise<Result<Observation>> {
  const held = yard.held.get(id);
  if (held?.kind === "ready") return ok(held);
  if (held?.kind === "pending") return ok({ kind: held.phase });
  const record = await readRecord(yard.kind.home, id, yard.kind.name);
  if (!record.ok) return record;
  if (record.value === undefined) return ok({ kind: "gone" });
  const { running } = record.value;
  const alive = running.kind === "started" && (await isAlive(running.agent));
  return ok({ kind: alive ? "stopping" : "stopped" });
}

async function remove(yard: Yard, id: CellId): Promise<Result<Observation>> {
  const pending = yard.held.get(id);
  if (pending?.kind === "pending") {
    pending.stop.abort();
    await pending.done;
  }
  const ready = yard.held.get(id);
  if (ready?.kind === "ready") await within(CLOSE_LIMIT_MS, ready.link.close(), yard.signal);
  const record = await readRecord(yard.kind.home, id, yard.kind.name);
  if (!record.ok) return record;
  if (record.value === undefined) return ok({ kind: "gone" });
  const ended = await endAll(record.value);
  if (!ended.ok) return ended;
  yard.held.delete(id);
  const removed = await removeCell(yard.kind.home, id);
  return removed.ok ? ok({ kind: "gone" }) : removed;
}

/** Answers with the first observation; the rest goes to `progress`. */
async function begin(
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  progress: Progress,
): Promise<Observation> {
  const { running } = record;
  const busy = running.kind === "started" && (await isAlive(running.agent));
  const pending: Pending = {
    kind: "pending",
    phase: busy ? "stopping" : "starting",
    watchers: new Set([progress]),
    stop: new AbortController(),
    done: Promise.resolve(),
  };
  yard.held.set(record.id, pending);
  pending.done = bringUp(yard, record, spec, pending);
  return { kind: pending.phase };
}

async function bringUp(
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  pending: Pending,
): Promise<void> {
  const signal = AbortSignal.any([yard.signal, pending.stop.signal]);
  const settled = await settle(record, spec, signal);
  if (settled.ok && pending.phase === "stopping") {
    pending.phase = "starting";
    tell(pending, { kind: "starting" });
  }
  const ready = settled.ok ? await start(yard, record, spec, signal) : settled;
  if (!ready.ok) {
    yard.held.delete(record.id);
    tell(pending, { kind: "failed", fault: ready.fault });
    return;
  }
  tell(pending, ready.value);
}

function tell(pending: Pending, observation: Observation): void {
  for (const watcher of pending.watchers) watcher(observation);
}

/** Waits for an earlier agent to finish what it runs, and ends what it left behind. */
async function settle(
  record: CellRecord,
  spec: CellSpec,
  signal: AbortSignal,
): Promise<Result<undefined>> {
  const { running } = record;
  // It died as it started the cell: what it started has no name, and no host that it could serve.
  if (running.kind === "none") return endAll(record);
  const limitMs = spec.limits.commandTimeoutMs + STOPPING_SLACK_MS;
  if (!(await waitForEnd(running.agent, limitMs, signal))) {
    if (signal.aborted) return fail(fault("unavailable", "the wait was given up", record.id));
    return fail(
      fault(
        "unavailable",
        `an earlier agent of this cell, process ${running.agent.pid}, still runs a command`,
        record.id,
        "ask again when it has finished, or delete the cell",
      ),
    );
  }
  return endAll(record);
}

/** Kills every process of the cell, and waits until they are gone. */
async function endAll(record: CellRecord): Promise<Result<undefined>> {
  const { id, running } = record;
  const named = running.kind === "none" || (await end([running.root, running.agent]));
  // Without a process namespace, what the agent started outlives it; and a start that was cut short
  // has processes that nobody had named yet.
  if (named && (await endMarked(`${CELL_VARIABLE}=${id}`, KILL_LIMIT_MS))) return ok(undefined);
  return fail(fault("unavailable", "a process of the cell does not end", id, "try again"));
}

async function end(names: readonly ProcessName[]): Promise<boolean> {
  for (const name of names) await killProcess(name);
  for (const name of names) {
    if (!(await waitForEnd(name, KILL_LIMIT_MS, NEVER))) return false;
  }
  return true;
}

/** Starts the next generation, and holds it for as long as its link lives. */
async function start(
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  signal: AbortSignal,
): Promise<Result<Ready>> {
  const { home } = yard.kind;
  const directory = directoryOf(home, record.id);
  const workspace = await directoryAt(spec.workspace);
  if (!workspace.ok) return workspace;
  const next: CellRecord = {
    ...record,
    generation: record.generation + 1,
    running: { kind: "none" },
  };
  const raised = await writeRecord(home, next);
  if (!raised.ok) return raised;
  const resolved = { ...spec, workspace: workspace.value };
  const kept = await keptDirectories(directory);
  if (!kept.ok) return kept;
  const { id, boundary: before } = record;
  const plan = await yard.kind.prepare({ id, spec: resolved, directory, before }, signal);
  if (!plan.ok) return plan;
  const launched = await launch(plan.value, directory, signal);
  if (!launched.ok) {
    await endAll(next);
    return launched;
  }
  const { agent, root } = launched.value;
  const { boundary } = plan.value;
  const started: CellRecord = { ...next, boundary, running: { kind: "started", agent, root } };
  const recorded = await writeRecord(home, started);
  const ready = recorded.ok
    ? await connect(yard, started, spec, plan.value, launched.value, signal)
    : recorded;
  if (!ready.ok) await endAll(started);
  return ready;
}

async function connect(
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  plan: Launch,
  launched: Launched,
  signal: AbortSignal,
): Promise<Result<Ready>> {
  const { id } = record;
  let lost = false;
  const lose = (): void => {
    lost = true;
    const held = yard.held.get(id);
    if (held?.kind === "ready" && held.link.generation === record.generation) yard.held.delete(id);
  };
  for (const event of ["end", "close", "error"]) launched.link.once(event, lose);
  const ended = launched.ended.then(async () => {
    lose();
    // bubblewrap's first process stays for as long as a daemon that the agent left behind.
    await killProcess(launched.root);
  });
  launched.release();
  const link = await connectLink(
    launched.link,
    {
      cell: id,
      generation: record.generation,
      ...plan.inside,
      limits: spec.limits,
      variables: variablesOf({ ...plan.inside.variables, ...spec.variables, [CELL_VARIABLE]: id }),
    },
    plan.boundary,
    signal,
  );
  if (link.ok && !lost) {
    const ready: Ready = { kind: "ready", link: link.value };
    yard.held.set(id, ready);
    return ok(ready);
  }
  launched.link.destroy();
  await killProcess(launched.root);
  await within(KILL_LIMIT_MS, ended, NEVER);
  return fail(await startFault(plan, directoryOf(yard.kind.home, id), link));
}

function variablesOf(table: Readonly<Record<string, string>>): readonly Variable[] {
  return Object.entries(table).map(([name, value]) => ({ name, value }));
}

/** Why an agent did not come up: in the sandbox's own words, where it said any. */
async function startFault(
  plan: Launch,
  directory: CellDirectory,
  link: Result<Link>,
): Promise<Fault> {
  const words = await logTail(directory);
  const cause = link.ok ? "the agent ended as it started" : link.fault.message;
  if (words.trim() === "") return fault("unavailable", cause, directory.path);
  const what = plan.wrapper.kind === "none" ? "the agent" : "bubblewrap";
  return diagnose(`${cause}; ${what}`, words);
}

/** The cell's disk outlives its starts, and somebody may have removed it; its scratch does not. */
async function keptDirectories(directory: CellDirectory): Promise<Result<undefined>> {
  try {
    await mkdir(directory.spool, { recursive: true, mode: 0o700 });
    await mkdir(directory.home, { recursive: true, mode: 0o700 });
  } catch (error) {
    return fail(ioFault(error, directory.path));
  }
  return emptyDirectory(directory.scratch, 0o1777);
}

/** The real path of a directory. */
async function directoryAt(path: string): Promise<Result<string>> {
  try {
    const real = await realpath(path);
    if ((await stat(real)).isDirectory()) return ok(real);
    return fail(fault("unavailable", "the workspace is not a directory", path));
  } catch (error) {
    return fail(fault("unavailable", `the workspace: ${wordsOf(error)}`, path));
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
