import type { Duplex } from "node:stream";
import { type CellId, type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { KubernetesObject, V1ConfigMap, V1Pod } from "@kubernetes/client-node";
import { connectLink } from "../link.ts";
import type { CellSpec, Link } from "../vendor.ts";
import { CELL_VARIABLE } from "./child.ts";
import type { Header } from "./cluster.ts";
import { INSIDE_OF_AGENT } from "./environment.ts";
import {
  generationOf,
  isDeleting,
  isOf,
  podOf,
  podSpecOf,
  policyOf,
  raised,
  SANDBOX_GROUP,
  sandboxOf,
  secretOf,
  selectorOf,
  startName,
  wayTo,
} from "./pod.ts";
import { describePods, isEnded } from "./pod-status.ts";
import { bodyOf, clear, type Ground, POLICY, recordIn, SECRET } from "./pods.ts";
import { directoryAt } from "./record.ts";

/** A pod that has not dialled by then is told of; it goes on, and may be asked for again. */
export const POD_START_LIMIT_MS: number = 5 * 60 * 1000;
/** How often an ended pod is followed by another before whoever asks is told. */
const START_TRY_LIMIT = 3;

/** A link to a pod's agent, and the stream that it lives on. */
export type Acquired = { readonly link: Link; readonly stream: Duplex };

/**
 * Joins the pod that there is, or starts the next generation, until an agent has dialled. Faults: `gone`, when the
 * record is no more; `corrupt`; `config`; `unavailable` for all that another try may mend.
 */
export async function acquire(
  ground: Ground,
  spec: CellSpec,
  signal: AbortSignal,
): Promise<Result<Acquired>> {
  const { cell } = ground;
  let why = fault("unavailable", "the cell was started by others meanwhile", cell.id, "try again");
  for (let tryCount = 0; tryCount < START_TRY_LIMIT; tryCount++) {
    const workspace = await directoryAt(spec.workspace);
    if (!workspace.ok) return workspace;
    const record = await recordIn(ground);
    if (!record.ok) return record;
    if (record.value === undefined || isDeleting(record.value)) {
      return fail(fault("gone", "the cell is no more", cell.id));
    }
    const started = await startOrJoin(ground, record.value, spec, signal);
    if (!started.ok) {
      // Another server has begun the next generation: that one is joined.
      if (started.fault.code === "changed" || started.fault.code === "superseded") continue;
      return started;
    }
    const { generation, isNew } = started.value;
    const dialled = await awaitDial(ground, generation, signal);
    if (dialled.kind === "dialled") {
      const linked = await link(ground, spec, generation, dialled.stream, signal);
      if (linked.ok || linked.fault.code !== "superseded") return linked;
      // The agent of an older generation was quicker to dial: the right one takes its place.
      why = linked.fault;
      continue;
    }
    if (dialled.kind === "failed" || isNew) return fail(dialled.fault);
    why = dialled.fault;
  }
  return fail(why);
}

type Started = { readonly generation: number; readonly isNew: boolean };

async function startOrJoin(
  ground: Ground,
  record: V1ConfigMap,
  spec: CellSpec,
  signal: AbortSignal,
): Promise<Result<Started>> {
  const { cell, cluster } = ground;
  const generation = generationOf(record) ?? 0;
  const body = await bodyOf(ground, generation);
  if (!body.ok) return body;
  if (body.value.kind === "lives") {
    const token = await giveToken(ground, record, generation);
    return token.ok ? ok({ generation, isNew: false }) : token;
  }
  const cleared = await clear(ground, generation);
  if (!cleared.ok) return cleared;
  if (signal.aborted) return fail(givenUp(cell.id));
  const next = await cluster.replace(raised(record, generation + 1));
  if (!next.ok) return next;
  const made = await make(ground, next.value, generation + 1, spec);
  return made.ok ? ok({ generation: generation + 1, isNew: true }) : made;
}

function givenUp(id: CellId): Fault {
  return fault("unavailable", "the wait was given up", id);
}

/** Makes what a generation consists of; the pod comes last, when what it needs is there. */
async function make(
  ground: Ground,
  record: V1ConfigMap,
  generation: number,
  spec: CellSpec,
): Promise<Result<undefined>> {
  const { cell, cluster, settings } = ground;
  const way = wayTo(settings);
  if (!way.ok) return way;
  const policy = await put(ground, POLICY, policyOf(cell, record, way.value));
  if (!policy.ok) return policy;
  const token = await giveToken(ground, record, generation);
  if (!token.ok) return token;
  const sandbox = await cluster.versionOf(SANDBOX_GROUP);
  if (!sandbox.ok) return sandbox;
  const pod = podSpecOf(cell.id, generation, settings, way.value, spec.limits);
  const body =
    sandbox.value === undefined
      ? podOf(cell, record, generation, pod)
      : sandboxOf(cell, record, generation, pod, sandbox.value);
  const made = await cluster.create<KubernetesObject>(body);
  if (!made.ok) return made;
  // While we made it another server may have gone on: what was made then is of no use to anybody.
  const now = await recordIn(ground);
  if (!now.ok) return now;
  const isMeant = now.value !== undefined && !isDeleting(now.value);
  if (isMeant && generationOf(now.value) === generation) return ok(undefined);
  await cluster.remove(made.value);
  return fail(fault("superseded", `generation ${generation} is over`, cell.id, "ask again"));
}

/** Puts a new token where the pod's file is made from. */
async function giveToken(
  ground: Ground,
  record: V1ConfigMap,
  generation: number,
): Promise<Result<undefined>> {
  const { callers, cell } = ground;
  const token = await callers.mintToken(cell.id, generation);
  if (!token.ok) return token;
  return put(ground, SECRET, secretOf(cell, record, generation, token.value));
}

/** Makes an object, or has the cell's own of its name say the same. */
async function put(
  { cell, cluster }: Ground,
  kind: Header,
  object: KubernetesObject,
): Promise<Result<undefined>> {
  const made = await cluster.create(object);
  if (made.ok || made.fault.code !== "exists") return made.ok ? ok(undefined) : made;
  const name = object.metadata?.name ?? "";
  const now = await cluster.read(kind, name);
  if (!now.ok) return now;
  if (now.value === undefined || !isOf(now.value, cell)) {
    return fail(
      fault("corrupt", `this ${kind.kind} is not this cell's, so it is left alone`, name),
    );
  }
  const { resourceVersion } = now.value.metadata ?? {};
  const metadata = {
    ...object.metadata,
    ...(resourceVersion !== undefined && { resourceVersion }),
  };
  const replaced = await cluster.replace({ ...object, metadata });
  return replaced.ok ? ok(undefined) : replaced;
}

type Dial =
  | { readonly kind: "dialled"; readonly stream: Duplex }
  /** The pod is over, and nobody will dial. */
  | { readonly kind: "over"; readonly fault: Fault }
  | { readonly kind: "failed"; readonly fault: Fault };

async function awaitDial(ground: Ground, generation: number, signal: AbortSignal): Promise<Dial> {
  const { callers, cell, cluster } = ground;
  const name = startName(cell.id, generation);
  const done = new AbortController();
  const limit = AbortSignal.timeout(POD_START_LIMIT_MS);
  const until = AbortSignal.any([signal, limit, done.signal]);
  let latest: readonly V1Pod[] = [];
  let seen = false;
  const over = new Promise<Dial>((resolve) => {
    void cluster.watchPods(
      selectorOf(cell, generation),
      (pods) => {
        latest = pods;
        const isOver = pods.some(isEnded) || (seen && pods.length === 0);
        seen ||= pods.length > 0;
        if (isOver) resolve({ kind: "over", fault: describePods(pods, name) });
      },
      until,
    );
  });
  const dialled = callers.dialled(cell.id, generation, until).then((stream): Dial => {
    if (stream.ok) return { kind: "dialled", stream: stream.value };
    return {
      kind: "failed",
      fault: signal.aborted ? givenUp(cell.id) : describePods(latest, name),
    };
  });
  const first = await Promise.race([dialled, over]);
  done.abort();
  return first;
}

async function link(
  { callers, cell: { id } }: Ground,
  spec: CellSpec,
  generation: number,
  stream: Duplex,
  signal: AbortSignal,
): Promise<Result<Acquired>> {
  const variables = { ...INSIDE_OF_AGENT.variables, ...spec.variables, [CELL_VARIABLE]: id };
  const opened = await connectLink(
    stream,
    {
      cell: id,
      generation,
      ...INSIDE_OF_AGENT,
      limits: spec.limits,
      hasNetwork: false,
      certificates: "",
      variables: Object.entries(variables).map(([name, value]) => ({ name, value })),
    },
    "cell",
    callers.handlers(id),
    signal,
  );
  if (!opened.ok) return opened;
  // Loaded when it is needed: a near cell has its workspace already.
  const { collectWorkspace, fillWorkspace } = await import("../workspace.ts");
  const { workspace } = spec;
  const filled = await fillWorkspace(opened.value, workspace, signal);
  if (!filled.ok) {
    stream.destroy();
    return filled;
  }
  const collect: Link["collect"] = (until) =>
    collectWorkspace(opened.value, workspace, callers.holder, until);
  return ok({ link: { ...opened.value, collect }, stream });
}
