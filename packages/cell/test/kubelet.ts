import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { V1PodSpec } from "@kubernetes/client-node";
import { INSIDE } from "../src/vendors/environment.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import type { ApiServer, Kept } from "./apiserver.ts";
import { atEnd } from "./machine.ts";

/** What a pod that is deleted may take to end, in place of what it asks for. */
const GRACE_MS = 1_000;

/**
 * A stand-in for a cluster's nodes and controllers: a pod is a sandbox of bubblewrap with its volumes,
 * variables, user and command, and the network of this machine.
 */
export class Kubelet {
  /** Pods are not scheduled while this says why. */
  unschedulable: string | undefined;
  readonly #api: ApiServer;
  readonly #base: string;
  readonly #files: readonly (readonly [string, string])[];
  readonly #running = new Map<string, ChildProcess>();

  constructor(api: ApiServer, base: string, { agent, rg, pty }: VendorOptions) {
    this.#api = api;
    this.#base = base;
    this.#files = [
      [agent, INSIDE.agent],
      [rg, INSIDE.rg],
      [pty, INSIDE.pty],
      [process.execPath, INSIDE.node],
    ];
    api.hasNodes = true;
    api.onChange(({ type, object }) => {
      if (object.kind === "Sandbox") this.#control(type, object);
      if (object.kind === "Secret") this.#project(object);
      if (object.kind !== "Pod" || type === "DELETED") return;
      if (object.metadata.deletionTimestamp !== undefined) this.#end(object);
      else if (type === "ADDED") this.#begin(object);
    });
    atEnd(() => {
      for (const child of this.#running.values()) child.kill("SIGKILL");
    });
  }

  /** Where a pod's volume is on this machine. */
  volume(pod: string, name: string): string {
    return join(this.#base, pod, name);
  }

  /** Pods that were not scheduled are now. */
  schedule(): void {
    this.unschedulable = undefined;
    for (const pod of this.#api.all("Pod")) {
      if (!this.#running.has(pod.metadata.name)) this.#begin(pod);
    }
  }

  #control(type: string, sandbox: Kept): void {
    const { name, uid } = sandbox.metadata;
    if (type !== "ADDED") return;
    const { podTemplate } = sandbox.spec as {
      readonly podTemplate: { readonly metadata: Kept["metadata"]; readonly spec: V1PodSpec };
    };
    const owner = { apiVersion: sandbox.apiVersion, kind: "Sandbox", name, uid, controller: true };
    const { labels } = podTemplate.metadata;
    const metadata = { name, namespace: "cells", uid: randomUUID(), ownerReferences: [owner] };
    this.#api.put({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...metadata, ...(labels === undefined ? {} : { labels }) },
      spec: podTemplate.spec,
      status: { phase: "Pending" },
    });
  }

  /** What a secret says now is what its files say. */
  #project(secret: Kept): void {
    const directory = this.volume(secret.metadata.name, "token");
    mkdirSync(directory, { recursive: true });
    for (const [file, text] of Object.entries(secret.data ?? {})) {
      writeFileSync(join(directory, file), Buffer.from(text, "base64"));
    }
  }

  #begin({ metadata: { name }, spec }: Kept): void {
    if (this.unschedulable !== undefined) {
      const message = this.unschedulable;
      const condition = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
      this.#api.setStatus(name, { phase: "Pending", conditions: [condition] });
      return;
    }
    const child = spawn("bwrap", this.#arguments(name, spec as V1PodSpec), {
      stdio: ["ignore", "ignore", "inherit"],
    });
    this.#running.set(name, child);
    this.#api.setStatus(name, { phase: "Running" });
    child.once("close", (code) => {
      this.#running.delete(name);
      const terminated = { exitCode: code ?? 137, reason: code === 0 ? "Completed" : "Error" };
      const containerStatuses = [{ name: "agent", state: { terminated } }];
      const phase = code === 0 ? "Succeeded" : "Failed";
      this.#api.setStatus(name, { phase, containerStatuses });
      if (this.#api.get("Pod", name)?.metadata.deletionTimestamp !== undefined) {
        this.#api.drop("Pod", name);
      }
    });
  }

  #end({ metadata: { name } }: Kept): void {
    const child = this.#running.get(name);
    if (child === undefined) {
      this.#api.drop("Pod", name);
      return;
    }
    if (child.killed) return;
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), GRACE_MS).unref();
  }

  #arguments(pod: string, spec: V1PodSpec): string[] {
    const [container] = spec.containers;
    if (container === undefined) throw new Error("a pod without a container");
    const user = `${spec.securityContext?.runAsUser}`;
    const mounts = (container.volumeMounts ?? []).flatMap(({ name, mountPath, readOnly }) => {
      const source = this.volume(pod, name);
      mkdirSync(source, { recursive: true });
      return [readOnly === true ? "--ro-bind" : "--bind", source, mountPath];
    });
    return [
      ...["--unshare-user", "--unshare-pid", "--unshare-ipc", "--uid", user, "--gid", user],
      ...["--die-with-parent", "--clearenv"],
      ...(container.env ?? []).flatMap(({ name, value = "" }) => ["--setenv", name, value]),
      ...["/usr", "/etc", "/bin", "/lib"].flatMap((path) => ["--ro-bind", path, path]),
      ...["--ro-bind-try", "/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"],
      ...this.#files.flatMap(([source, at]) => ["--ro-bind", source, at]),
      ...mounts,
      ...["--remount-ro", "/", "--chdir", container.workingDir ?? "/", "--"],
      ...(container.command ?? []),
    ];
  }
}
