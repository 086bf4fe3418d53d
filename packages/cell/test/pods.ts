import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CellId, ok } from "@dev/protocol";
import { afterAll, onTestFinished } from "vitest";
import type { CellSpec, Vendor } from "../src/vendor.ts";
import { kubernetesVendor } from "../src/vendors/kubernetes.ts";
import { startName } from "../src/vendors/pod.ts";
import type { Callers, KubernetesSettings } from "../src/vendors/pods.ts";
import { ApiServer } from "./apiserver.ts";
import { ACCOUNT, TestServer } from "./far.ts";
import { Kubelet } from "./kubelet.ts";
import { optionsIn, specIn, temporary } from "./machine.ts";

/** A cluster, and the server that its cells dial. */
export type Fleet = {
  readonly api: ApiServer;
  readonly kubelet: Kubelet;
  readonly server: TestServer;
  readonly settings: KubernetesSettings;
  readonly callers: Callers;
  readonly spec: () => CellSpec;
  /** One more server of the same owner, and the signal that it ends with. */
  readonly vendor: (rest?: Partial<Callers>) => {
    readonly vendor: Vendor;
    readonly stop: () => void;
  };
  readonly workspaceOf: (id: CellId, generation?: number) => string;
};

export async function startFleet(
  until: "test" | "file",
  { sandboxes = false, nodes = true }: { sandboxes?: boolean; nodes?: boolean } = {},
): Promise<Fleet> {
  const base = temporary();
  const api = new ApiServer({ sandboxes });
  await api.listen();
  const server = await TestServer.start("file");
  const stops: (() => void)[] = [];
  const end = async (): Promise<void> => {
    for (const stop of stops) stop();
    await server.stop();
    await api.close();
  };
  if (until === "test") onTestFinished(end);
  else afterAll(end);
  const kubelet = new Kubelet(api, mkdtempSync(join(base, "pods-")), optionsIn(base));
  api.hasNodes = nodes;
  const kubeconfig = join(base, "kubeconfig");
  writeFileSync(kubeconfig, api.kubeconfig(), { mode: 0o600 });
  const settings = { kubeconfig, image: "registry.example/cell:1", server: server.url };
  const callers: Callers = {
    owner: "tests",
    mintToken: async (cell, generation) => ok(server.token({ kind: "cell", cell, generation })),
    dialled: (cell, _, signal) => server.upgrades.cell(ACCOUNT, cell, signal),
    handlers: () => ({}),
    holder: { holder: `${process.pid}`, isAlive: () => false },
  };
  return {
    api,
    kubelet,
    server,
    settings,
    callers,
    spec: () => specIn(base),
    vendor: (rest = {}) => {
      const stop = new AbortController();
      stops.push(() => stop.abort());
      const options = { kubernetes: settings, callers: { ...callers, ...rest } };
      return { vendor: kubernetesVendor(options, stop.signal), stop: () => stop.abort() };
    },
    workspaceOf: (id, generation = 1) => kubelet.volume(startName(id, generation), "workspace"),
  };
}
