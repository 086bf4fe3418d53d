import { mkdir } from "node:fs/promises";
import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import { type LinkNetwork, linkNetwork } from "../egress/cell.ts";
import type { EgressSeams } from "../egress/ground.ts";
import { connectLink } from "../link.ts";
import type { Boundary, CellSpec, Link, Observation, Progress, Vendor } from "../vendor.ts";
import { endGroups, groupsOf, joinAll } from "./cgroup.ts";
import { diagnose } from "./diagnosis.ts";
import { type Launch, type Launched, launch, logTail, whatStarts, within } from "./launch.ts";
import { endMarked, isAlive, killProcess, type ProcessName, waitForEnd } from "./process.ts";
import {
  type CellDirectory,
  type CellRecord,
  createRecord,
  directoryAt,
  directoryOf,
  emptyDirectory,
  ioFault,
  readRecord,
  removeCell,
  writeRecord,
} from "./record.ts";
import { takeTurns } from "./turns.ts";

/** A kind of cell whose agent is a child of this process; kinds differ only in what they start. */
export type ChildKind = {
  readonly name: string;
  /** The directory of this machine that has a directory for each cell. */
  readonly home: string;
  /** For the networks of its cells; without it they have none. */
  readonly egress?: EgressSeams | undefined;
  prepare(start: Start, signal: AbortSignal): Promise<Result<Launch>>;
  /** Whether its processes are counted together here, where the machine can; a runtime does it itself. */
  readonly counts: boolean;
  /** Has the substrate end and forget what it still has of a cell; that there is nothing is as good. */
  readonly clear?: (id: CellId, directory: CellDirectory) => Promise<Result<undefined>>;
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
  const yard: Yard = { kind, signal, held: new Map() };
  const inTurn = takeTurns();
  return {
    name: kind.name,
    create: (id, spec, progress) => inTurn(id, () => create(yard, id, spec, progress)),
    get: (id, spec, progress) => inTurn(id, () => get(yard, id, spec, progress)),
    hibernate: (id) => inTurn(id, () => look(yard, id)),
    delete: (id) => inTurn(id, () => remove(yard, id)),
  };
}

/** For what must be waited for although we are ending. */
const NEVER: AbortSignal = new AbortController().signal;

type Yard = {
  readonly kind: ChildKind;
  readonly signal: AbortSignal;
  readonly held: Map<CellId, Held>;
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
    groups: [],
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
  return ok({ kind: (await isBusy(record.value)) ? "stopping" : "stopped" });
}

async function isBusy({ running }: CellRecord): Promise<boolean> {
  return running.kind === "started" && isAlive(running.agent);
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
  const ended = await endAll(yard, record.value);
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
  const busy = await isBusy(record);
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
  const settled = await settle(yard, record, spec, signal);
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
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  signal: AbortSignal,
): Promise<Result<undefined>> {
  const { running } = record;
  // Raised before every start: there is nothing yet that could have been left behind.
  if (record.generation === 0) return ok(undefined);
  // It died as it started the cell: what it started has no name, and no host that it could serve.
  if (running.kind === "none") return endAll(yard, record);
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
  return endAll(yard, record);
}

/** Kills every process of the cell, and waits until they are gone. */
async function endAll({ kind }: Yard, record: CellRecord): Promise<Result<undefined>> {
  const { id, running, groups } = record;
  const counted = await endGroups({ directories: groups }, KILL_LIMIT_MS);
  const named = running.kind === "none" || (await end([running.root, running.agent]));
  // Without a process namespace, what the agent started outlives it; and a start that was cut short
  // has processes that nobody had named yet.
  if (counted && named && (await endMarked(`${CELL_VARIABLE}=${id}`, KILL_LIMIT_MS))) {
    return (await kind.clear?.(id, directoryOf(kind.home, id))) ?? ok(undefined);
  }
  return fail(fault("unavailable", "a process of the cell does not end", id, "try again"));
}

async function end(names: readonly ProcessName[]): Promise<boolean> {
  for (const name of names) await killProcess(name);
  const ended = await Promise.all(names.map((name) => waitForEnd(name, KILL_LIMIT_MS, NEVER)));
  return ended.every((isEnded) => isEnded);
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
    groups: yard.kind.counts ? await groupsOf(record.id, record.generation + 1, spec.limits) : [],
    running: { kind: "none" },
  };
  const { id, boundary: before } = record;
  const resolved = { ...spec, workspace: workspace.value };
  // The disk takes its time, and nothing has been started while both are under way.
  const [raised, plan] = await Promise.all([
    writeRecord(home, next),
    prepare(yard, { id, spec: resolved, directory, before }, signal),
  ]);
  if (!raised.ok) return raised;
  if (!plan.ok) return plan;
  const network = await linkNetwork(id, spec, plan.value.boundary, yard.kind.egress);
  if (!network.ok) return network;
  const launched = await launch(plan.value, directory, signal);
  if (!launched.ok) {
    await endAll(yard, next);
    return launched;
  }
  const { agent, root } = launched.value;
  const running = { kind: "started", agent, root } as const;
  const started: CellRecord = { ...next, boundary: plan.value.boundary, running };
  // Both before it is let go: it has a name, and all that it starts is counted.
  const [recorded, joined] = await Promise.all([
    writeRecord(home, started),
    joinAll(started.groups, [agent, root]),
  ]);
  const held = recorded.ok ? joined : recorded;
  const ready = held.ok
    ? await connect(yard, started, spec, plan.value, launched.value, network.value, signal)
    : held;
  if (!ready.ok) await endAll(yard, started);
  return ready;
}

async function connect(
  yard: Yard,
  record: CellRecord,
  spec: CellSpec,
  plan: Launch,
  launched: Launched,
  network: LinkNetwork,
  signal: AbortSignal,
): Promise<Result<Ready>> {
  const { id } = record;
  let lost = false;
  const lose = (): void => {
    lost = true;
    network.close();
    const held = yard.held.get(id);
    if (held?.kind === "ready" && held.link.generation === record.generation) yard.held.delete(id);
  };
  for (const event of ["end", "close", "error"]) launched.link.once(event, lose);
  const ended = launched.ended.then(async () => {
    lose();
    // bubblewrap's first process stays for as long as a daemon that the agent left behind.
    await killProcess(launched.root);
    // A daemon that nothing names as ours any more is still in the group.
    await endGroups({ directories: record.groups }, KILL_LIMIT_MS);
  });
  launched.release();
  const link = await connectLink(
    launched.link,
    {
      cell: id,
      generation: record.generation,
      ...plan.inside,
      ...network.opening,
      limits: spec.limits,
      variables: Object.entries({
        ...{ ...plan.inside.variables, ...spec.variables, [CELL_VARIABLE]: id },
      }).map(([name, value]) => ({ name, value })),
    },
    plan.boundary,
    network.handlers,
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

/** Why an agent did not come up: in the sandbox's own words, where it said any. */
async function startFault(
  plan: Launch,
  directory: CellDirectory,
  link: Result<Link>,
): Promise<Fault> {
  const words = await logTail(directory);
  const cause = link.ok ? "the agent ended as it started" : link.fault.message;
  if (words.trim() === "") return fault("unavailable", cause, directory.path);
  return diagnose(`${cause}; ${whatStarts(plan)}`, words);
}

/** The cell's disk outlives its starts, and somebody may have removed it; its scratch does not. */
async function prepare({ kind }: Yard, start: Start, signal: AbortSignal): Promise<Result<Launch>> {
  const { path, spool, home, scratch } = start.directory;
  try {
    await mkdir(spool, { recursive: true, mode: 0o700 });
    await mkdir(home, { recursive: true, mode: 0o700 });
  } catch (error) {
    return fail(ioFault(error, path));
  }
  const emptied = await emptyDirectory(scratch, 0o1777);
  return emptied.ok ? kind.prepare(start, signal) : emptied;
}
