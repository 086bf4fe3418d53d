import type { Duplex } from "node:stream";
import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Holder } from "@dev/workspace";
import type { KubernetesObject, V1ConfigMap, V1Pod } from "@kubernetes/client-node";
import type { LinkHandlers } from "../link.ts";
import type { Cluster, ClusterSettings, Header } from "./cluster.ts";
import {
  type CellName,
  generationOf,
  isOf,
  nameOf,
  type PodSettings,
  SANDBOX_GROUP,
  selectorOf,
  startName,
} from "./pod.ts";
import { describePods, isEnded, isEnding } from "./pod-status.ts";

export type KubernetesSettings = ClusterSettings & PodSettings;

/** What a server does for agents that dial it. */
export type Callers = {
  /** Whose cells these are; as a label is, and the same for each server that shares them. */
  readonly owner: string;
  /** What the agent of this generation dials with. */
  readonly mintToken: (cell: CellId, generation: number) => Promise<Result<string>>;
  /** The next link of that agent, now or when it dials. */
  readonly dialled: (
    cell: CellId,
    generation: number,
    signal: AbortSignal,
  ) => Promise<Result<Duplex>>;
  readonly handlers: (cell: CellId) => LinkHandlers;
  /** Who collects workspaces into directories of this machine. */
  readonly holder: Holder;
};

/** One cell, and all that is needed to do something to it. */
export type Ground = {
  readonly cell: CellName;
  readonly cluster: Cluster;
  readonly settings: KubernetesSettings;
  readonly callers: Callers;
  /** Ends every wait. */
  readonly signal: AbortSignal;
};

/** How long a pod that is deleted may take to be gone. */
export const POD_END_LIMIT_MS = 60_000;

const CONFIG_MAP: Header = { apiVersion: "v1", kind: "ConfigMap" };
export const SECRET: Header = { apiVersion: "v1", kind: "Secret" };
const POD: Header = { apiVersion: "v1", kind: "Pod" };
export const POLICY: Header = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy" };

/** A cell's record; undefined when there is none. Fault `corrupt`: what has its name is not this cell's. */
export async function recordIn({
  cell,
  cluster,
}: Ground): Promise<Result<V1ConfigMap | undefined>> {
  const record = await cluster.read<V1ConfigMap>(CONFIG_MAP, nameOf(cell.id));
  if (!record.ok || record.value === undefined) return record;
  if (isOf(record.value, cell) && generationOf(record.value) !== undefined) return record;
  return fail(
    fault(
      "corrupt",
      "this ConfigMap does not say that it is this vendor's cell, so it is left alone",
      nameOf(cell.id),
      "remove it by hand if it is not wanted",
    ),
  );
}

/** What there is of a generation's pod. */
export type Body =
  | { readonly kind: "none" | "lives" }
  | { readonly kind: "ended" | "ending"; readonly fault: Fault };

export async function bodyOf({ cell, cluster }: Ground, generation: number): Promise<Result<Body>> {
  if (generation === 0) return ok({ kind: "none" });
  const name = startName(cell.id, generation);
  const pod = await cluster.read<V1Pod>(POD, name);
  if (!pod.ok) return pod;
  if (pod.value !== undefined && isOf(pod.value, cell)) {
    const pods = [pod.value];
    if (isEnding(pod.value)) return ok({ kind: "ending", fault: describePods(pods, name) });
    if (isEnded(pod.value)) return ok({ kind: "ended", fault: describePods(pods, name) });
    return ok({ kind: "lives" });
  }
  const sandboxes = await sandboxesIn({ cell, cluster }, generation);
  if (!sandboxes.ok) return sandboxes;
  // Its controller has a pod still to make.
  const isComing = sandboxes.value.some(
    ({ metadata }) => metadata?.deletionTimestamp === undefined,
  );
  return ok({ kind: isComing ? "lives" : "none" });
}

async function sandboxesIn(
  { cell, cluster }: Pick<Ground, "cell" | "cluster">,
  generation?: number,
): Promise<Result<readonly KubernetesObject[]>> {
  const version = await cluster.versionOf(SANDBOX_GROUP);
  if (!version.ok) return version;
  if (version.value === undefined) return ok([]);
  const kind = { apiVersion: `${SANDBOX_GROUP}/${version.value}`, kind: "Sandbox" };
  return cluster.list(kind, selectorOf(cell, generation));
}

/** Ends every pod of the cell, waits until they are gone, and removes their tokens. */
export async function clear(ground: Ground, generation: number): Promise<Result<undefined>> {
  const { cell, cluster } = ground;
  const sandboxes = await sandboxesIn(ground);
  if (!sandboxes.ok) return sandboxes;
  const pods = await cluster.list<V1Pod>(POD, selectorOf(cell));
  if (!pods.ok) return pods;
  const secrets = await cluster.list(SECRET, selectorOf(cell));
  if (!secrets.ok) return secrets;
  // A list may be told wrongly, and a name is known: the newest is asked for by that as well.
  const newest = await cluster.read<V1Pod>(POD, startName(cell.id, generation));
  if (!newest.ok) return newest;
  const named = newest.value === undefined ? [] : [newest.value];
  const bodies = await removeAll(ground, [...sandboxes.value, ...pods.value, ...named]);
  if (!bodies.ok) return bodies;
  const limit = AbortSignal.any([ground.signal, AbortSignal.timeout(POD_END_LIMIT_MS)]);
  const over = new AbortController();
  let left = true;
  await cluster.watchPods(
    selectorOf(cell),
    (those) => {
      left = those.length > 0;
      if (!left) over.abort();
    },
    AbortSignal.any([limit, over.signal]),
  );
  const still = await cluster.read<V1Pod>(POD, startName(cell.id, generation));
  if (!still.ok) return still;
  if (left || still.value !== undefined) {
    return fail(fault("unavailable", "a pod of the cell does not end", cell.id, "try again"));
  }
  return removeAll(ground, secrets.value);
}

/** Removes what says that it is this cell's, and nothing else. */
async function removeAll(
  { cell, cluster }: Ground,
  objects: readonly KubernetesObject[],
): Promise<Result<undefined>> {
  for (const object of objects) {
    if (!isOf(object, cell)) continue;
    const removed = await cluster.remove(object);
    if (!removed.ok) return removed;
  }
  return ok(undefined);
}

/** Removes what is left of a cell without a pod; its record goes last: until then the cell is known. */
export async function removeRecord(
  ground: Ground,
  record: V1ConfigMap,
): Promise<Result<undefined>> {
  const policies = await ground.cluster.list(POLICY, selectorOf(ground.cell));
  if (!policies.ok) return policies;
  return removeAll(ground, [...policies.value, record]);
}
