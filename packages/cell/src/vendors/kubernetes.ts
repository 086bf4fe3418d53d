import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { V1ConfigMap } from "@kubernetes/client-node";
import type { CellSpec, Observation, Progress, Vendor } from "../vendor.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { within } from "./launch.ts";
import { doomed, generationOf, isDeleting, recordOf, SANDBOX_GROUP, wayTo } from "./pod.ts";
import { acquire } from "./pod-start.ts";
import {
  bodyOf,
  type Callers,
  clear,
  type Ground,
  type KubernetesSettings,
  recordIn,
  removeRecord,
} from "./pods.ts";
import { takeTurns } from "./turns.ts";

export type KubernetesOptions = {
  readonly kubernetes?: KubernetesSettings | undefined;
  /** Without a server there is nobody whom an agent could dial. */
  readonly callers?: Callers | undefined;
};

/** How long an agent may take to end when its cell is deleted, before its pod is. */
const CLOSE_LIMIT_MS = 10_000;
/** How often a record that others change is read anew before its cell's deletion is given up. */
const DOOM_TRY_LIMIT = 5;

/**
 * Cells that are pods of a cluster; where that has the Sandbox resource, sandboxes. A cell is known by its
 * record, a ConfigMap. Its pod's disk ends with the pod: each generation has a spool of its own, and the workspace is
 * what was collected. A pod that lives is not started again for a server that is: its agent dials that.
 */
export function kubernetesVendor(options: KubernetesOptions, signal: AbortSignal): Vendor {
  const yard: Yard = { options, signal, held: new Map(), cluster: undefined };
  const inTurn = takeTurns();
  const at = (id: CellId, work: (ground: Ground) => Promise<Result<Observation>>) =>
    inTurn(id, async () => {
      const ground = await groundOf(yard, id);
      return ground.ok ? work(ground.value) : ground;
    });
  return {
    name: "kubernetes",
    create: (id, spec, progress) =>
      refusal(spec) ?? at(id, (ground) => create(yard, ground, spec, progress)),
    get: (id, spec, progress) =>
      refusal(spec) ?? at(id, (ground) => get(yard, ground, spec, progress)),
    hibernate: (id) => at(id, (ground) => look(yard, ground)),
    delete: (id) => at(id, (ground) => remove(yard, ground)),
  };
}

type Yard = {
  readonly options: KubernetesOptions;
  readonly signal: AbortSignal;
  readonly held: Map<CellId, Held>;
  cluster: Promise<Result<Cluster>> | undefined;
};

type Held = Pending | Extract<Observation, { readonly kind: "ready" }>;

/** Nothing here carries a cell's requests to a proxy yet: to have none unsaid would be worse. */
function refusal({ network }: CellSpec): Promise<Result<never>> | undefined {
  if ((network?.allow.length ?? 0) === 0) return undefined;
  const message = "cells in a cluster have no network of Dev's";
  const mend =
    "take the rules of the network away for this session, or have its cells on this machine";
  return Promise.resolve(fail(fault("unsupported", message, "network", mend)));
}

type Pending = {
  readonly kind: "pending";
  readonly watchers: Set<Progress>;
  readonly stop: AbortController;
  done: Promise<void>;
};

async function groundOf(yard: Yard, id: CellId): Promise<Result<Ground>> {
  const { kubernetes: settings, callers } = yard.options;
  if (settings === undefined) {
    return fail(fault("config", "no cluster is configured", "kubernetes", MEND_SETTINGS));
  }
  yard.cluster = yard.cluster ?? openCluster(settings, yard.signal);
  const cluster = await yard.cluster;
  if (!cluster.ok) {
    yard.cluster = undefined;
    return cluster;
  }
  if (callers === undefined) return fail(await nobodyToDial(cluster.value, settings));
  const { namespace } = cluster.value;
  const cell = { id, namespace, owner: callers.owner };
  return ok({ cell, cluster: cluster.value, settings, callers, signal: yard.signal });
}

const MEND_SETTINGS =
  "set kubernetes.image and kubernetes.server in your settings: see docs/guides/kubernetes.md";

/** What there is to say of a cluster where no server runs: whether it answers, and how it would be used. */
async function nobodyToDial(cluster: Cluster, settings: KubernetesSettings): Promise<Fault> {
  const sandboxes = await cluster.versionOf(SANDBOX_GROUP);
  if (!sandboxes.ok) return sandboxes.fault;
  const { image, runtimeClass = "gvisor", server } = settings;
  const body = sandboxes.value === undefined ? "pods" : "sandboxes";
  const used = `${body} of ${image} in namespace ${cluster.namespace} of ${cluster.place}, runtime class ${runtimeClass || "of the cluster"}`;
  return fault(
    "unavailable",
    `the cluster answers (${used}), but its cells dial a server, and this process is none`,
    server,
    `use this kind from the server at ${server}`,
  );
}

async function create(
  yard: Yard,
  ground: Ground,
  spec: CellSpec,
  progress: Progress,
): Promise<Result<Observation>> {
  const { cell, cluster, settings } = ground;
  const way = wayTo(settings);
  if (!way.ok) return way;
  const record = await cluster.create(recordOf(cell));
  if (record.ok) return ok(begin(yard, ground, spec, progress));
  if (record.fault.code !== "exists") return record;
  return fail(
    fault(
      "exists",
      "there is a cell of this id already",
      cell.id,
      "make a new id, or get this one",
    ),
  );
}

async function get(
  yard: Yard,
  ground: Ground,
  spec: CellSpec,
  progress: Progress,
): Promise<Result<Observation>> {
  const held = yard.held.get(ground.cell.id);
  if (held?.kind === "ready") return ok(held);
  if (held?.kind === "pending") {
    held.watchers.add(progress);
    return ok({ kind: "starting" });
  }
  const record = await recordIn(ground);
  if (!record.ok) return record;
  if (record.value === undefined || isDeleting(record.value)) return ok({ kind: "gone" });
  return ok(begin(yard, ground, spec, progress));
}

/** What a cell is doing: a pod cannot be suspended so that its spool outlives that. */
async function look(yard: Yard, ground: Ground): Promise<Result<Observation>> {
  const held = yard.held.get(ground.cell.id);
  if (held?.kind === "ready") return ok(held);
  if (held?.kind === "pending") return ok({ kind: "starting" });
  const record = await recordIn(ground);
  if (!record.ok) return record;
  if (record.value === undefined) return ok({ kind: "gone" });
  if (isDeleting(record.value)) return ok({ kind: "stopping" });
  const standing = await bodyOf(ground, generationOf(record.value) ?? 0);
  if (!standing.ok) return standing;
  const kinds = {
    none: "stopped",
    ended: "stopped",
    ending: "stopping",
    lives: "starting",
  } as const;
  return ok({ kind: kinds[standing.value.kind] });
}

async function remove(yard: Yard, ground: Ground): Promise<Result<Observation>> {
  const { id } = ground.cell;
  const pending = yard.held.get(id);
  if (pending?.kind === "pending") {
    pending.stop.abort();
    await pending.done;
  }
  const ready = yard.held.get(id);
  if (ready?.kind === "ready") await within(CLOSE_LIMIT_MS, ready.link.close(), yard.signal);
  yard.held.delete(id);
  const record = await doom(ground);
  if (!record.ok) return record;
  if (record.value === undefined) return ok({ kind: "gone" });
  const cleared = await clear(ground, generationOf(record.value) ?? 0);
  if (!cleared.ok) return cleared;
  const removed = await removeRecord(ground, record.value);
  return removed.ok ? ok({ kind: "gone" }) : removed;
}

/** Has a cell never start again, on any server; undefined when there is none. */
async function doom(ground: Ground): Promise<Result<V1ConfigMap | undefined>> {
  for (let tryCount = 1; ; tryCount++) {
    const record = await recordIn(ground);
    if (!record.ok || record.value === undefined || isDeleting(record.value)) return record;
    const marked = await ground.cluster.replace(doomed(record.value));
    if (marked.ok || marked.fault.code !== "changed" || tryCount === DOOM_TRY_LIMIT) return marked;
  }
}

/** Answers with the first observation; the rest goes to `progress`. */
function begin(yard: Yard, ground: Ground, spec: CellSpec, progress: Progress): Observation {
  const pending: Pending = {
    kind: "pending",
    watchers: new Set([progress]),
    stop: new AbortController(),
    done: Promise.resolve(),
  };
  yard.held.set(ground.cell.id, pending);
  pending.done = bringUp(yard, ground, spec, pending);
  return { kind: "starting" };
}

async function bringUp(
  { held, signal }: Yard,
  ground: Ground,
  spec: CellSpec,
  pending: Pending,
): Promise<void> {
  const { id } = ground.cell;
  const acquired = await acquire(ground, spec, AbortSignal.any([signal, pending.stop.signal]));
  held.delete(id);
  let last: Observation;
  if (acquired.ok) {
    const { link, stream } = acquired.value;
    last = { kind: "ready", link };
    if (!stream.destroyed) held.set(id, last);
    stream.once("close", () => {
      const now = held.get(id);
      if (now?.kind === "ready" && now.link === link) held.delete(id);
    });
  } else last = { kind: "failed", fault: acquired.fault };
  for (const watcher of pending.watchers) watcher(last);
}
