import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { V1ObjectMeta } from "@kubernetes/client-node";
import { flaws, restrictions } from "./apischema.ts";

/** An object as the stand-in keeps it. */
export type Kept = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: V1ObjectMeta & { readonly name: string; readonly uid: string };
  readonly spec?: unknown;
  readonly status?: unknown;
  readonly data?: Readonly<Record<string, string>>;
};

export type Change = { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: Kept };

export type Asked = {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "delete" | "discover";
  readonly kind: string;
  readonly name: string;
};

/** What goes wrong with one request. */
export type Trouble =
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  /** It is done, and nobody is told. */
  | { readonly kind: "die" }
  /** A list, or a watch's first, has nothing. */
  | { readonly kind: "nothing" }
  | { readonly kind: "wait"; readonly until: Promise<unknown> };

const KINDS: Readonly<Record<string, { readonly kind: string; readonly group: string }>> = {
  configmaps: { kind: "ConfigMap", group: "v1" },
  secrets: { kind: "Secret", group: "v1" },
  pods: { kind: "Pod", group: "v1" },
  networkpolicies: { kind: "NetworkPolicy", group: "networking.k8s.io/v1" },
  sandboxes: { kind: "Sandbox", group: "agents.x-k8s.io/v1alpha1" },
};

export const NAMESPACE = "cells";
export const API_TOKEN = "of-the-cluster";

/** A stand-in for a cluster's API server: a few kinds, in one namespace, on loopback. */
export class ApiServer {
  /** Asked before each request is answered. */
  trouble: (asked: Asked) => Trouble | undefined = () => undefined;
  readonly asked: Asked[] = [];
  readonly #changes = new EventEmitter();
  readonly #objects = new Map<string, Kept>();
  readonly #history: { readonly version: number; readonly change: Change }[] = [];
  readonly #server: Server;
  readonly #watches = new Set<ServerResponse>();
  readonly #hasSandboxes: boolean;
  #version = 100;
  #forgotten = 0;
  #port = 0;
  /** Whether something ends pods that are deleted; without it they are gone at once. */
  hasNodes = false;

  constructor(options: { readonly sandboxes: boolean }) {
    this.#hasSandboxes = options.sandboxes;
    this.#changes.setMaxListeners(0);
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** What a person's kubeconfig has of it. */
  kubeconfig(): string {
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name: "stand-in", cluster: { server: this.url, "insecure-skip-tls-verify": true } },
      ],
      users: [{ name: "tests", user: { token: API_TOKEN } }],
      contexts: [
        { name: "tests", context: { cluster: "stand-in", user: "tests", namespace: NAMESPACE } },
      ],
      "current-context": "tests",
    });
  }

  onChange(hear: (change: Change) => void): void {
    this.#changes.on("change", hear);
  }

  all(kind?: string): readonly Kept[] {
    return [...this.#objects.values()].filter((one) => kind === undefined || one.kind === kind);
  }

  get(kind: string, name: string): Kept | undefined {
    return this.#objects.get(`${kind}/${name}`);
  }

  /** Puts an object there as it is, whoever might ask for another. */
  put(object: Kept): Kept {
    const key = `${object.kind}/${object.metadata.name}`;
    const type = this.#objects.has(key) ? "MODIFIED" : "ADDED";
    const kept = { ...object, metadata: { ...object.metadata, resourceVersion: this.#next() } };
    this.#objects.set(key, kept);
    this.#tell({ type, object: kept });
    return kept;
  }

  setStatus(name: string, status: unknown): void {
    const pod = this.get("Pod", name);
    if (pod !== undefined) this.put({ ...pod, status });
  }

  /** An object is gone, and what it owns with it. */
  drop(kind: string, name: string): void {
    const object = this.get(kind, name);
    if (object === undefined) return;
    this.#objects.delete(`${kind}/${name}`);
    const metadata = { ...object.metadata, resourceVersion: this.#next() };
    this.#tell({ type: "DELETED", object: { ...object, metadata } });
    for (const other of this.all()) {
      const owners = other.metadata.ownerReferences ?? [];
      if (owners.some(({ uid }) => uid === object.metadata.uid)) this.end(other);
    }
  }

  /** Deletes as a person would: a pod ends first. */
  end(object: Kept): void {
    if (object.kind !== "Pod" || !this.hasNodes) {
      this.drop(object.kind, object.metadata.name);
    } else if (object.metadata.deletionTimestamp === undefined) {
      const deletionTimestamp = new Date();
      this.put({ ...object, metadata: { ...object.metadata, deletionTimestamp } });
    }
  }

  /** What was is not told any more to who watches from before; and all watches end. */
  forget(): void {
    this.#forgotten = this.#version;
    this.#history.length = 0;
    this.cutWatches();
  }

  cutWatches(): void {
    for (const response of this.#watches) response.end();
  }

  #next(): string {
    this.#version += 1;
    return `${this.#version}`;
  }

  #tell(change: Change): void {
    this.#history.push({ version: this.#version, change });
    this.#changes.emit("change", change);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const body = await bodyOf(request);
    if (request.headers.authorization !== `Bearer ${API_TOKEN}`) {
      refuse(response, 401, "Unauthorized", "", "Unauthorized");
      return;
    }
    const asked = askedOf(request.method ?? "", url);
    this.asked.push(asked);
    const trouble = this.trouble(asked);
    if (trouble?.kind === "wait") await trouble.until;
    if (trouble?.kind === "answer") {
      response.writeHead(trouble.status, { "content-type": typeOf(trouble.body) });
      response.end(trouble.body);
      return;
    }
    if (trouble?.kind === "die") response.end = () => response.destroy() as ServerResponse;
    switch (asked.verb) {
      case "discover":
        this.#discover(url.pathname, response);
        return;
      case "get":
        this.#answer(asked, response, 200);
        return;
      case "list":
        this.#list(asked, url, response, trouble?.kind === "nothing");
        return;
      case "watch":
        this.#watch(asked, url, response);
        return;
      case "create":
        this.#create(asked, JSON.parse(body), response);
        return;
      case "update":
        this.#update(asked, JSON.parse(body), response);
        return;
      case "delete":
        this.#delete(asked, body === "" ? {} : JSON.parse(body), response);
        return;
    }
  }

  #discover(path: string, response: ServerResponse): void {
    const resources = Object.entries(KINDS).filter(
      ([name]) => this.#hasSandboxes || name !== "sandboxes",
    );
    if (path === "/apis") {
      const versions = new Set(resources.map(([, { group }]) => group));
      const groups = [...versions].filter((text) => text.includes("/")).map(groupOf);
      send(response, 200, { kind: "APIGroupList", apiVersion: "v1", groups });
      return;
    }
    const groupVersion = path.replace(/^\/apis?\//, "");
    const its = resources.filter(([, { group }]) => group === groupVersion);
    if (its.length === 0) {
      refuse(response, 404, "NotFound", "", "no such path");
      return;
    }
    send(response, 200, {
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion,
      resources: its.map(([name, { kind }]) => {
        return { name, kind, namespaced: true, singularName: "", verbs: [] };
      }),
    });
  }

  #answer({ kind, name }: Asked, response: ServerResponse, status: number): void {
    const object = this.get(kind, name);
    if (object !== undefined) {
      send(response, status, object);
      return;
    }
    refuse(response, 404, "NotFound", name, `${kind} "${name}" not found`);
  }

  #list({ kind }: Asked, url: URL, response: ServerResponse, isNothing: boolean): void {
    const selects = selectorOf(url);
    const items = isNothing ? [] : this.all(kind).filter(selects);
    const apiVersion = Object.values(KINDS).find((one) => one.kind === kind)?.group;
    const metadata = { resourceVersion: `${this.#version}` };
    send(response, 200, { kind: `${kind}List`, apiVersion, metadata, items });
  }

  #watch({ kind }: Asked, url: URL, response: ServerResponse): void {
    const selects = selectorOf(url);
    const from = Number(url.searchParams.get("resourceVersion"));
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const write = (event: unknown): void => {
      if (!response.writableEnded) response.write(`${JSON.stringify(event)}\n`);
    };
    if (from < this.#forgotten) {
      const object = {
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        code: 410,
        reason: "Expired",
      };
      write({ type: "ERROR", object });
      response.end();
      return;
    }
    const hear = (change: Change): void => {
      if (change.object.kind === kind && selects(change.object)) write(change);
    };
    for (const { version, change } of this.#history) if (version > from) hear(change);
    this.#changes.on("change", hear);
    this.#watches.add(response);
    response.once("close", () => {
      this.#changes.off("change", hear);
      this.#watches.delete(response);
    });
  }

  #create(asked: Asked, object: Kept, response: ServerResponse): void {
    const { name = "" } = object.metadata ?? {};
    const wrong = flaws(object as unknown as Record<string, unknown>);
    if (wrong.length > 0) {
      refuse(response, 422, "Invalid", name, wrong.join("; "));
      return;
    }
    const forbidden = restrictions(object as unknown as Record<string, unknown>);
    if (forbidden.length > 0) {
      refuse(response, 403, "Forbidden", name, `violates: ${forbidden.join(", ")}`);
      return;
    }
    const owners = object.metadata.ownerReferences ?? [];
    const orphan = owners.some(({ uid }) => !this.all().some((one) => one.metadata.uid === uid));
    if (orphan) {
      refuse(response, 422, "Invalid", name, "an owner is not there");
      return;
    }
    if (this.get(asked.kind, name) !== undefined) {
      refuse(response, 409, "AlreadyExists", name, `${asked.kind} "${name}" already exists`);
      return;
    }
    const status = asked.kind === "Pod" ? { status: { phase: "Pending" } } : {};
    this.put({ ...object, ...status, metadata: { ...object.metadata, uid: randomUUID() } });
    this.#answer({ ...asked, name }, response, 201);
  }

  #update(asked: Asked, object: Kept, response: ServerResponse): void {
    const { kind, name } = asked;
    const now = this.get(kind, name);
    if (now === undefined) {
      this.#answer(asked, response, 200);
      return;
    }
    const wrong = flaws(object as unknown as Record<string, unknown>);
    if (wrong.length > 0) {
      refuse(response, 422, "Invalid", name, wrong.join("; "));
      return;
    }
    const { resourceVersion } = object.metadata;
    if (resourceVersion !== undefined && resourceVersion !== now.metadata.resourceVersion) {
      refuse(response, 409, "Conflict", name, "the object has been modified");
      return;
    }
    this.put({ ...object, metadata: { ...object.metadata, uid: now.metadata.uid } });
    this.#answer(asked, response, 200);
  }

  #delete(
    asked: Asked,
    options: { readonly preconditions?: { readonly uid?: string } },
    response: ServerResponse,
  ): void {
    const now = this.get(asked.kind, asked.name);
    if (now === undefined) {
      this.#answer(asked, response, 200);
      return;
    }
    const uid = options.preconditions?.uid;
    if (uid === undefined || uid !== now.metadata.uid) {
      refuse(response, 409, "Conflict", asked.name, "the UID in the precondition is another");
      return;
    }
    this.end(now);
    send(response, 200, { kind: "Status", apiVersion: "v1", status: "Success" });
  }
}

function askedOf(method: string, url: URL): Asked {
  const found = /^\/apis?\/.+\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?$/.exec(url.pathname);
  const [, namespace, plural = "", name = ""] = found ?? [];
  const kind = KINDS[plural]?.kind;
  if (kind === undefined || namespace !== NAMESPACE)
    return { verb: "discover", kind: "", name: "" };
  const reads = url.searchParams.get("watch") === "true" ? "watch" : name === "" ? "list" : "get";
  const verbs = { POST: "create", PUT: "update", DELETE: "delete" } as const;
  return { verb: method in verbs ? verbs[method as keyof typeof verbs] : reads, kind, name };
}

function selectorOf(url: URL): (object: Kept) => boolean {
  const terms = (url.searchParams.get("labelSelector") ?? "").split(",").filter(Boolean);
  return ({ metadata }) =>
    terms.every((term) => {
      const [key = "", value] = term.split("=");
      return metadata.labels?.[key] === value;
    });
}

function groupOf(groupVersion: string) {
  const [name = "", version = ""] = groupVersion.split("/");
  const its = { groupVersion, version };
  return { name, versions: [its], preferredVersion: its };
}

function typeOf(body: string): string {
  return body.startsWith("{") ? "application/json" : "text/html";
}

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

/** As an API server refuses. */
function refuse(
  response: ServerResponse,
  code: number,
  reason: string,
  name: string,
  message: string,
): void {
  send(response, code, statusOf(code, reason, name, message));
}

export function statusOf(code: number, reason: string, name: string, message: string): object {
  const details = { name };
  return { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message, details };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
