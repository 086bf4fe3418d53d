import { setTimeout as delay } from "node:timers/promises";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type {
  ApiException,
  KubeConfig,
  KubernetesObject,
  KubernetesObjectApi,
  V1Pod,
} from "@kubernetes/client-node";

/** Where a cluster is, and who we are there: a kubeconfig's context. */
export type ClusterSettings = {
  /** By default what KUBECONFIG names, `~/.kube/config`, or what a pod finds in itself. */
  readonly kubeconfig?: string | undefined;
  /** By default the file's own choice. */
  readonly context?: string | undefined;
  /** By default the context's. */
  readonly namespace?: string | undefined;
};

/** An API server that has not answered by then is not there. */
export const REQUEST_LIMIT_MS = 30_000;
/** Before a watch that broke is opened again. */
export const WATCH_PAUSE_MS = 1_000;
/** A watch that is never told anything is opened anew after this. */
const WATCH_SECONDS = 300;

/** What is named of a kind of object. */
export type Header = { readonly apiVersion: string; readonly kind: string };

/**
 * The objects of one namespace. Every fault but `exists`, `changed` and `config` is `unavailable`: no outage, no
 * limit, no refusal and no proxy's page says anything of an object.
 */
export type Cluster = {
  readonly namespace: string;
  /** The context's name, and the API server's URL, for messages. */
  readonly place: string;
  /** Undefined only when the API server itself says that there is no object of this name. */
  read<T extends KubernetesObject>(kind: Header, name: string): Promise<Result<T | undefined>>;
  list<T extends KubernetesObject>(kind: Header, selector: string): Promise<Result<readonly T[]>>;
  /** Fault `exists`: there is one of this name. `config`: the cluster does not take such an object. */
  create<T extends KubernetesObject>(object: T): Promise<Result<T>>;
  /** Fault `changed`: it is not of this resource version any more. */
  replace<T extends KubernetesObject>(object: T): Promise<Result<T>>;
  /** Deletes this very object and no other of its name; that there is none is as good. */
  remove(object: KubernetesObject): Promise<Result<undefined>>;
  /** The version of a kind that the cluster has of this group, if it has any. */
  versionOf(group: string): Promise<Result<string | undefined>>;
  /**
   * Tells of the pods that are selected, now and at every change, until the signal. What is missed while a watch is
   * broken is listed anew.
   */
  watchPods(selector: string, onPods: OnPods, signal: AbortSignal): Promise<void>;
};

export type OnPods = (pods: readonly V1Pod[]) => void;

type Client = typeof import("@kubernetes/client-node");

/** Loads the client, which no other kind of cell needs. Fault `config`: there is no such context. */
export async function openCluster(
  settings: ClusterSettings,
  signal: AbortSignal,
): Promise<Result<Cluster>> {
  const client = await import("@kubernetes/client-node");
  const config = configOf(client, settings);
  if (!config.ok) return config;
  const { kube, namespace } = config.value;
  const server = kube.getCurrentCluster()?.server ?? "";
  const configuration = client.createConfiguration({
    baseServer: new client.ServerConfiguration(server, {}),
    authMethods: { default: kube },
    promiseMiddleware: [
      {
        pre: async (context) => {
          context.setSignal(AbortSignal.any([signal, AbortSignal.timeout(REQUEST_LIMIT_MS)]));
          return context;
        },
        post: async (context) => context,
      },
    ],
  });
  const objects = new client.KubernetesObjectApi(configuration);
  const groups = new client.ApisApi(configuration);
  return ok({
    namespace,
    place: `${kube.getCurrentContext()} (${server})`,
    ...objectsOf(objects, namespace),
    versionOf: async (group) => {
      const found = await asked(client, group, async () => {
        const { groups: all } = await groups.getAPIVersions();
        if (!Array.isArray(all)) throw new Error("its groups are none");
        return all;
      });
      if (!found.ok) return found;
      return ok(found.value.find(({ name }) => name === group)?.preferredVersion?.version);
    },
    watchPods: (selector, onPods, until) =>
      watchPods(client, kube, objects, namespace, selector, onPods, until),
  });

  function objectsOf(api: KubernetesObjectApi, its: string) {
    return {
      read: async <T extends KubernetesObject>(kind: Header, name: string) => {
        const metadata = { name, namespace: its };
        const read = await asked(client, name, () => api.read({ ...kind, metadata }));
        if (!read.ok) return read.fault.code === "gone" ? ok(undefined) : read;
        return isSame(read.value, kind.kind, name) ? ok(read.value as T) : fail(strange(name));
      },
      list: <T extends KubernetesObject>({ apiVersion, kind }: Header, selector: string) =>
        asked(client, kind, async () => {
          const listed = await listAll(api, apiVersion, kind, its, selector);
          return listed.items as unknown as readonly T[];
        }),
      create: <T extends KubernetesObject>(object: T) =>
        answered(
          object,
          asked(client, nameIn(object), () => api.create(object)),
        ),
      replace: <T extends KubernetesObject>(object: T) =>
        answered(
          object,
          asked(client, nameIn(object), () => api.replace(object)),
        ),
      remove: async (object: KubernetesObject): Promise<Result<undefined>> => {
        const { uid } = object.metadata ?? {};
        if (uid === undefined) throw new Error("an object without a uid is not deleted");
        const body = { preconditions: { uid }, propagationPolicy: "Background" };
        const nothing = undefined;
        const removed = await asked(client, nameIn(object), () =>
          api.delete(object, nothing, nothing, nothing, nothing, nothing, body),
        );
        if (removed.ok || removed.fault.code === "gone") return ok(undefined);
        return removed;
      },
    };
  }
}

function configOf(
  client: Client,
  { kubeconfig, context, namespace }: ClusterSettings,
): Result<{ readonly kube: KubeConfig; readonly namespace: string }> {
  const kube = new client.KubeConfig();
  try {
    if (kubeconfig === undefined) kube.loadFromDefault();
    else kube.loadFromFile(kubeconfig);
  } catch (error) {
    const message = `the kubeconfig cannot be read: ${wordsOf(error)}`;
    return fail(fault("config", message, kubeconfig ?? "", MEND_CONTEXT));
  }
  if (context !== undefined) kube.setCurrentContext(context);
  const chosen = kube.getContextObject(kube.getCurrentContext());
  if (chosen === null || kube.getCurrentCluster() === null) {
    const known = kube.getContexts().map(({ name }) => name);
    const message = `the kubeconfig has no such context; it has: ${known.join(", ") || "none"}`;
    return fail(fault("config", message, context ?? kube.getCurrentContext(), MEND_CONTEXT));
  }
  return ok({ kube, namespace: namespace ?? chosen.namespace ?? "default" });
}

const MEND_CONTEXT =
  "set kubernetes.kubeconfig and kubernetes.context: see docs/guides/kubernetes.md";

/** Has a request made, and says what its failure means. */
async function asked<T>(
  client: Client,
  subject: string,
  request: () => Promise<T>,
): Promise<Result<T>> {
  try {
    return ok(await request());
  } catch (error) {
    if (error instanceof client.ApiException) return fail(refusalOf(error, subject));
    return fail(away(`it cannot be asked: ${wordsOf(error)}`, subject));
  }
}

/** The API server's own word on a request. */
type Status = {
  readonly kind?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: { readonly name?: unknown };
};

function refusalOf({ code, body }: ApiException<unknown>, subject: string): Fault {
  const status = statusOf(body);
  const said = typeof status?.message === "string" ? status.message : `status ${code}`;
  // A proxy, or a server that does not know the kind, answers 404 as well: it says nothing of the object.
  if (code === 404 && status?.reason === "NotFound" && status.details?.name === subject) {
    return fault("gone", said, subject);
  }
  if (code === 409 && status?.reason === "AlreadyExists") return fault("exists", said, subject);
  if (code === 409 && status?.reason === "Conflict") return fault("changed", said, subject);
  if (code === 422 && status?.reason === "Invalid") {
    return fault("config", `the cluster does not take it: ${said}`, subject, MEND_CONTEXT);
  }
  const mend = code === 401 || code === 403 ? "give the account of this context the rights" : "";
  return away(`it answers: ${said}`, subject, mend);
}

function statusOf(body: unknown): Status | undefined {
  try {
    const value: unknown = typeof body === "string" ? JSON.parse(body) : body;
    const isStatus = typeof value === "object" && value !== null && "kind" in value;
    return isStatus && value.kind === "Status" ? (value as Status) : undefined;
  } catch {
    return undefined;
  }
}

function away(message: string, subject: string, mend = "try again"): Fault {
  return fault("unavailable", `the cluster's API server: ${message}`, subject, mend || "try again");
}

function strange(name: string): Fault {
  return away("it answers with another object than it was asked for", name);
}

function isSame(object: KubernetesObject, kind: string | undefined, name: string): boolean {
  return object.kind === kind && object.metadata?.name === name;
}

/** What something on the way makes up of a request is no answer to it. */
async function answered<T extends KubernetesObject>(
  object: T,
  answer: Promise<Result<T>>,
): Promise<Result<T>> {
  const its = await answer;
  const name = nameIn(object);
  if (!its.ok) return its;
  return isSame(its.value, object.kind, name) && its.value.metadata?.uid !== undefined
    ? its
    : fail(strange(name));
}

function nameIn({ metadata }: KubernetesObject): string {
  return metadata?.name ?? "";
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function listAll(
  api: KubernetesObjectApi,
  apiVersion: string,
  kind: string,
  namespace: string,
  selector: string,
) {
  const no = undefined;
  const listed = await api.list(apiVersion, kind, namespace, no, no, no, no, selector);
  if (!Array.isArray(listed.items)) throw new Error("its list is none");
  return listed;
}

async function watchPods(
  client: Client,
  kube: KubeConfig,
  api: KubernetesObjectApi,
  namespace: string,
  selector: string,
  onPods: OnPods,
  signal: AbortSignal,
): Promise<void> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  while (!signal.aborted) {
    const listed = await asked(client, "pods", () =>
      listAll(api, "v1", "Pod", namespace, selector),
    );
    if (!listed.ok) {
      await pause(signal);
      continue;
    }
    const pods = new Map((listed.value.items as V1Pod[]).map((pod) => [nameIn(pod), pod]));
    const tell = (): void => {
      if (!signal.aborted) onPods([...pods.values()]);
    };
    tell();
    let version: string | undefined = listed.value.metadata?.resourceVersion ?? "0";
    while (version !== undefined && !signal.aborted) {
      version = await follow(new client.Watch(kube), path, selector, version, pods, tell, signal);
      if (version !== undefined) await pause(signal);
    }
  }
}

/** One watch, to its end: the version to go on from, or undefined when only a list tells what is. */
function follow(
  watch: InstanceType<Client["Watch"]>,
  path: string,
  labelSelector: string,
  from: string,
  pods: Map<string, V1Pod>,
  tell: () => void,
  signal: AbortSignal,
): Promise<string | undefined> {
  let version: string | undefined = from;
  const query = {
    labelSelector,
    resourceVersion: from,
    allowWatchBookmarks: true,
    timeoutSeconds: WATCH_SECONDS,
  };
  return new Promise((resolve) => {
    const end = (): void => {
      signal.removeEventListener("abort", end);
      void opened.then((controller) => controller?.abort());
      resolve(version);
    };
    const hear = (type: string, object: KubernetesObject): void => {
      if (type === "ERROR") {
        // Most often 410 Gone: the server has forgotten what was since that version.
        version = undefined;
        end();
        return;
      }
      version = object.metadata?.resourceVersion ?? version;
      if (type === "BOOKMARK") return;
      if (type === "DELETED") pods.delete(nameIn(object));
      else pods.set(nameIn(object), object as V1Pod);
      tell();
    };
    const opened = watch
      .watch(path, query, hear, (error: unknown) => {
        if (statusCodeOf(error) === 410) version = undefined;
        end();
      })
      .catch(() => {
        // Who we are could not be said: the next list tells whether it can be now.
        version = undefined;
        queueMicrotask(end);
        return undefined;
      });
    signal.addEventListener("abort", end, { once: true });
  });
}

function statusCodeOf(error: unknown): number {
  const code = error instanceof Error && "statusCode" in error ? error.statusCode : 0;
  return typeof code === "number" ? code : 0;
}

async function pause(signal: AbortSignal): Promise<void> {
  await delay(WATCH_PAUSE_MS, undefined, { signal }).catch(() => undefined);
}
