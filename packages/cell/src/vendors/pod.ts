import { isIP } from "node:net";
import { type CellId, fail, fault, ok, type Result } from "@dev/protocol";
import type {
  KubernetesObject,
  V1ConfigMap,
  V1NetworkPolicy,
  V1Pod,
  V1PodSpec,
  V1Secret,
  V1Volume,
} from "@kubernetes/client-node";
import type { CellLimits } from "../vendor.ts";
import { CELL_VARIABLE } from "./child.ts";
import { INSIDE, INSIDE_ID, VARIABLES } from "./environment.ts";

/*
 * What a cell is made of in a cluster: its record, a secret with a token, a rule of its network, and a
 * pod. All are the record's, so that whatever is left goes with it.
 */

/** How a cell's pod is to be; what has no default has to be said. */
export type PodSettings = {
  /** Has Node.js, a shell, and the agent's files below `/opt/cell`. */
  readonly image: string;
  /** What runs it: by default `gvisor`. An empty text is the cluster's own default. */
  readonly runtimeClass?: string | undefined;
  /** The server that the agent dials, as the pod reaches it. */
  readonly server: string;
  /** Where that is, if `server` has a name: a pod asks no name server. */
  readonly serverAddress?: string | undefined;
  /** What a pod is sure to have of a processor: by default `250m`. */
  readonly cpu?: string | undefined;
};

/** How a pod gets to its server. */
export type Way = { readonly url: URL; readonly address: string; readonly port: number };

/** A Sandbox of agents.x-k8s.io, as much of it as we say. */
export type Sandbox = KubernetesObject & {
  readonly spec: {
    readonly podTemplate: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: V1PodSpec;
    };
  };
};

export const LABELS = {
  cell: "dev.cell",
  generation: "dev.generation",
  owner: "dev.owner",
  manager: "app.kubernetes.io/managed-by",
} as const;
const MANAGER = "dev";
/** Of the record: how often the cell was started. */
const GENERATION = "dev.generation";
/** Of a record whose cell is being deleted: it is never started again. */
const DELETING = "dev.deleting";
/** The group of the Sandbox resource. */
export const SANDBOX_GROUP = "agents.x-k8s.io";

/** What a command may take to end when its pod is deleted. */
const GRACE_SECONDS = 10;
const TOKEN_DIRECTORY = "/var/run/cell";
const TOKEN_FILE = "token";
/** Secrets and records are read by the pod's group, and by nobody else in it. */
const TOKEN_MODE = 0o440;
/** In what `ulimit -f` counts. */
const BLOCK_BYTES = 512;

/** One cell of one owner, in one namespace. */
export type CellName = {
  readonly id: CellId;
  readonly namespace: string;
  readonly owner: string;
};

/** The name of everything of a cell that outlives a generation: RFC 1123 has no `_`. */
export function nameOf(id: CellId): string {
  return id.replace("_", "-");
}

export function startName(id: CellId, generation: number): string {
  return `${nameOf(id)}-${generation}`;
}

/** Finds what is of a cell, or of one of its generations. */
export function selectorOf({ id, owner }: CellName, generation?: number): string {
  const its = { [LABELS.cell]: id, [LABELS.owner]: owner, [LABELS.manager]: MANAGER };
  const all = generation === undefined ? its : { ...its, [LABELS.generation]: `${generation}` };
  return Object.entries(all)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** Whether an object says that it is this cell's, of this owner; nothing else is ever deleted. */
export function isOf(object: KubernetesObject, { id, owner }: CellName): boolean {
  const labels = object.metadata?.labels;
  return (
    labels?.[LABELS.cell] === id &&
    labels[LABELS.owner] === owner &&
    labels[LABELS.manager] === MANAGER &&
    object.metadata?.uid !== undefined
  );
}

/** Fault `config`: the server's URL is none, or has a name and no address. */
export function wayTo({ server, serverAddress }: PodSettings): Result<Way> {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return fail(fault("config", "this is not the URL of a server", server, MEND_SERVER));
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const address = serverAddress ?? host;
  if (isIP(address) === 0) {
    const message = "a pod asks no name server, so it has to be told where its server is";
    return fail(fault("config", message, address, MEND_SERVER));
  }
  const usual = url.protocol === "https:" ? 443 : 80;
  return ok({ url, address, port: url.port === "" ? usual : Number(url.port) });
}

const MEND_SERVER =
  "set kubernetes.server to a URL, and kubernetes.server_address to its IP address";

export function recordOf(cell: CellName): V1ConfigMap {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      name: nameOf(cell.id),
      namespace: cell.namespace,
      labels: labelsOf(cell),
      annotations: { [GENERATION]: "0" },
    },
  };
}

/** How often the cell was started; undefined where the record does not say. */
export function generationOf(record: V1ConfigMap): number | undefined {
  const text = record.metadata?.annotations?.[GENERATION] ?? "";
  const generation = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  return generation;
}

/** The record of the next generation; its resource version has it refused if another was quicker. */
export function raised(record: V1ConfigMap, generation: number): V1ConfigMap {
  const annotations = { ...record.metadata?.annotations, [GENERATION]: `${generation}` };
  return { ...record, metadata: { ...record.metadata, annotations } };
}

export function isDeleting({ metadata }: V1ConfigMap): boolean {
  return metadata?.annotations?.[DELETING] !== undefined;
}

/** The record of a cell that is to be no more: whoever starts it meanwhile is refused. */
export function doomed(record: V1ConfigMap): V1ConfigMap {
  const annotations = { ...record.metadata?.annotations, [DELETING]: "true" };
  return { ...record, metadata: { ...record.metadata, annotations } };
}

export function secretOf(
  cell: CellName,
  record: V1ConfigMap,
  generation: number,
  token: string,
): V1Secret {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: metadataOf(cell, record, generation),
    type: "Opaque",
    data: { [TOKEN_FILE]: Buffer.from(token).toString("base64") },
  };
}

/** Nothing gets in, and nothing out but to the server. */
export function policyOf(cell: CellName, record: V1ConfigMap, way: Way): V1NetworkPolicy {
  const cidr = `${way.address}/${isIP(way.address) === 6 ? 128 : 32}`;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { ...metadataOf(cell, record, 0), name: nameOf(cell.id), labels: labelsOf(cell) },
    spec: {
      podSelector: { matchLabels: { [LABELS.cell]: cell.id } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [],
      egress: [{ to: [{ ipBlock: { cidr } }], ports: [{ protocol: "TCP", port: way.port }] }],
    },
  };
}

export function podOf(
  cell: CellName,
  record: V1ConfigMap,
  generation: number,
  spec: V1PodSpec,
): V1Pod {
  return { apiVersion: "v1", kind: "Pod", metadata: metadataOf(cell, record, generation), spec };
}

/** The same pod, where the cluster has a resource for what it is. */
export function sandboxOf(
  cell: CellName,
  record: V1ConfigMap,
  generation: number,
  spec: V1PodSpec,
  version: string,
): Sandbox {
  const metadata = metadataOf(cell, record, generation);
  return {
    apiVersion: `${SANDBOX_GROUP}/${version}`,
    kind: "Sandbox",
    metadata,
    spec: { podTemplate: { metadata: { labels: metadata.labels }, spec } },
  };
}

/** What runs in a pod: the agent, which dials, with as little else as a pod can have. */
export function podSpecOf(
  id: CellId,
  generation: number,
  settings: PodSettings,
  way: Way,
  limits: CellLimits,
): V1PodSpec {
  const runtimeClass = settings.runtimeClass ?? "gvisor";
  const sizes = {
    memory: `${limits.memoryBytes}`,
    "ephemeral-storage": `${limits.diskBytes}`,
  };
  const named = isIP(way.url.hostname.replace(/^\[|\]$/g, "")) === 0;
  return {
    ...(runtimeClass !== "" && { runtimeClassName: runtimeClass }),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    restartPolicy: "Never",
    terminationGracePeriodSeconds: GRACE_SECONDS,
    // So that the cluster's first process, and not the agent, is the one whom orphans fall to.
    shareProcessNamespace: true,
    dnsPolicy: "Default",
    ...(named && { hostAliases: [{ ip: way.address, hostnames: [way.url.hostname] }] }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: INSIDE_ID,
      runAsGroup: INSIDE_ID,
      fsGroup: INSIDE_ID,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: "agent",
        image: settings.image,
        command: limitedAgent(limits, way.url.href),
        workingDir: "/",
        env: Object.entries({
          ...VARIABLES,
          [CELL_VARIABLE]: id,
          DEV_CELL_TOKEN_FILE: `${TOKEN_DIRECTORY}/${TOKEN_FILE}`,
        }).map(([name, value]) => ({ name, value })),
        securityContext: {
          privileged: false,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          capabilities: { drop: ["ALL"] },
          seccompProfile: { type: "RuntimeDefault" },
        },
        // What is asked for is what is had: a node that is full has no cell to throw out.
        resources: { requests: { ...sizes, cpu: settings.cpu ?? "250m" }, limits: sizes },
        volumeMounts: [
          ...VOLUMES.map(([name, mountPath]) => ({ name, mountPath })),
          { name: "token", mountPath: TOKEN_DIRECTORY, readOnly: true },
        ],
        terminationMessagePolicy: "FallbackToLogsOnError",
      },
    ],
    volumes: [
      ...VOLUMES.map(
        ([name]): V1Volume => ({ name, emptyDir: { sizeLimit: `${limits.diskBytes}` } }),
      ),
      {
        name: "token",
        secret: { secretName: startName(id, generation), defaultMode: TOKEN_MODE },
      },
    ],
  };
}

/** What a cell may write in, and what is gone with its pod. */
const VOLUMES = [
  ["workspace", INSIDE.workspace],
  ["disk", INSIDE.disk],
  ["home", INSIDE.home],
  ["tmp", "/tmp"],
] as const;

/** A pod has no limits of its own for files and descriptors: a shell sets them, where it can. */
function limitedAgent(limits: CellLimits, server: string): string[] {
  const script =
    'ulimit -c 0; ulimit -n "$1" || :; ulimit -f "$2" || :; mkdir -p "$3"; shift 3; exec "$@"';
  const blockCount = Math.ceil(limits.fileBytes / BLOCK_BYTES);
  return [
    ...["/bin/sh", "-c", script, "cell", `${limits.openFileCount}`, `${blockCount}`, INSIDE.spool],
    ...["node", INSIDE.agent, "connect", server],
  ];
}

function labelsOf({ id, owner }: CellName): Record<string, string> {
  return { [LABELS.cell]: id, [LABELS.owner]: owner, [LABELS.manager]: MANAGER };
}

function metadataOf(cell: CellName, record: V1ConfigMap, generation: number) {
  return {
    name: startName(cell.id, generation),
    namespace: cell.namespace,
    labels: { ...labelsOf(cell), [LABELS.generation]: `${generation}` },
    ownerReferences: [
      {
        apiVersion: "v1",
        kind: "ConfigMap",
        name: nameOf(cell.id),
        uid: record.metadata?.uid ?? "",
      },
    ],
  };
}
