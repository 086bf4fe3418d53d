import { accessSync, constants, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { CellSpec, Vendor, VendorOptions } from "@dev/cell";
import { openCore } from "@dev/host";
import { openRouter, ROUTER_LIMITS, type Router, type RouterLimits } from "@dev/model";
import { cellId, fail, fault, ok, type Result, type SessionId } from "@dev/protocol";
import {
  type Asker,
  type Operations,
  type Progress,
  resolvePath,
  type Services,
} from "@dev/session";
import { openSqlite, type Session, type Store } from "@dev/store";
import { markOf, removeMark } from "./fix-mark.ts";
import { holderName, isHolderAlive } from "./holder.ts";
import { type Home, makeDirectory } from "./home.ts";
import { openNetwork, type SessionNetwork } from "./network.ts";
import type { Network } from "./network-file.ts";
import { keyedProviders } from "./provider.ts";
import type { Settings } from "./settings.ts";
import type { Snapshots } from "./snapshots.ts";
import type { Terminal } from "./terminal.ts";

/** The real world, as a driver needs it. */
export type World = { readonly services: Services; close(): Promise<void> };

export type WorldOptions = {
  readonly session: SessionId;
  readonly home: Home;
  readonly settings: Settings;
  readonly terminal: Terminal;
  readonly vendor: string;
  /** Ends every wait for a cell. */
  readonly signal: AbortSignal;
  readonly asker: Asker | null;
  readonly onProgress: (progress: Progress) => void;
  /** What a person may want to know besides. */
  readonly onNote: (text: string) => void;
};

/** Opens the store in a person's state directory, making that where there is none. */
export async function openStore(home: Home): Promise<Result<Store>> {
  try {
    makeDirectory(home.state);
    accessSync(home.state, constants.W_OK | constants.X_OK);
  } catch (error) {
    const message = `the state directory cannot be used: ${error instanceof Error ? error.message : error}`;
    return fail(fault("config", message, home.state, "set DEV_HOME to a directory of yours"));
  }
  return openSqlite(home.database);
}

/** Puts a driver's services together. What a cell needs is loaded when a cell is needed. */
export function openWorld(store: Store, options: WorldOptions): World {
  const { settings, terminal, asker, onProgress } = options;
  const router = routerOf(settings, terminal);
  const core = openCore({ host: "native" });
  const network = openNetwork({ ...options, network: settings.network, store });
  let snapshots: Promise<Snapshots> | null = null;
  const lazySnapshots = (): Promise<Snapshots> => {
    snapshots ??= import("./snapshots.ts").then(({ Snapshots }) => {
      return new Snapshots(options.home, () => terminal.nowMs());
    });
    return snapshots;
  };
  const services: Services = {
    store,
    core,
    router,
    vendor: lazyVendor(options, network),
    rules: settings.rules,
    asker,
    operations: lazyOperations(options),
    onProgress,
    browse: network.browse,
    spec: (session) => specOf(session, store, options, lazySnapshots),
    checkpoint: (session) => checkpointOf(session, options, lazySnapshots),
    resolve: resolvePath,
    newCellId: () => cellId(terminal.nowMs(), randomBytes(terminal)),
    now: () => terminal.nowMs(),
    holder: holderName(),
    isAlive: isHolderAlive,
  };
  return {
    services,
    close: async () => {
      await network.close();
      router.close();
      core.close();
    },
  };
}

/** The models of all providers that settings have, or that Dev knows. */
export function routerOf(settings: Settings, terminal: Terminal): Router {
  return openRouter(
    keyedProviders(settings, terminal.env),
    {
      sleep: (ms, signal) => sleep(ms, signal),
      random: () => terminal.random(),
      limits: routerLimits(settings.modelSilenceMs),
    },
    settings.models,
  );
}

/** The router's limits, with the silence of a model that settings allow. */
function routerLimits(silenceMs: number | null): RouterLimits {
  if (silenceMs === null) return ROUTER_LIMITS;
  return { ...ROUTER_LIMITS, firstByteMs: silenceMs, idleMs: silenceMs };
}

/** The chance in an id: enough that no two of a person's sessions share one. */
export function randomBytes(terminal: Terminal): Uint8Array {
  return Uint8Array.from({ length: 10 }, () => Math.floor(terminal.random() * 256));
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
  });
}

/** Operations that are loaded at their first use: most sessions have none. */
function lazyOperations({ home, settings, terminal, vendor }: WorldOptions): Operations {
  const load = async (): Promise<Operations> =>
    (await import("./fix-operation.ts")).fixOperations({ home, settings, terminal, vendor });
  return {
    perform: async (operation, signal) => (await load()).perform(operation, signal),
    settled: async (operation) => (await load()).settled(operation),
    forget: (session, action) => removeMark(markOf(home, session, action)),
  };
}

/** A vendor that is loaded at its first use: the first model call does not wait for it. */
function lazyVendor(options: WorldOptions, network: SessionNetwork): Vendor {
  let opened: Promise<Result<Vendor>> | null = null;
  const vendor = (): Promise<Result<Vendor>> => {
    opened ??= loadVendor(options, network);
    return opened;
  };
  return {
    name: options.vendor,
    create: async (id, spec, progress) => {
      const loaded = await vendor();
      return loaded.ok ? loaded.value.create(id, spec, progress) : loaded;
    },
    get: async (id, spec, progress) => {
      const loaded = await vendor();
      return loaded.ok ? loaded.value.get(id, spec, progress) : loaded;
    },
    hibernate: async (id) => {
      const loaded = await vendor();
      return loaded.ok ? loaded.value.hibernate(id) : loaded;
    },
    delete: async (id) => {
      const loaded = await vendor();
      return loaded.ok ? loaded.value.delete(id) : loaded;
    },
  };
}

async function loadVendor(
  { vendor, home, settings, terminal, signal }: WorldOptions,
  network: SessionNetwork,
): Promise<Result<Vendor>> {
  const { openVendor, EGRESS_LIMITS } = await import("@dev/cell");
  const egress = network.seams(EGRESS_LIMITS);
  const its = await vendorOptions(home, settings, terminal);
  return openVendor(vendor, { ...its, egress }, signal);
}

/** What vendors need of this machine and this person. */
export async function vendorOptions(
  home: Home,
  { confine, programs, network }: Pick<Settings, "confine" | "programs" | "network">,
  terminal: Terminal,
): Promise<VendorOptions> {
  const { rgPath } = await import("@vscode/ripgrep");
  return {
    home: home.cells,
    agent: createRequire(import.meta.url).resolve("@dev/cell/agent"),
    rg: rgPath,
    pty: ptyAddon(),
    environment: terminal.env,
    masked: [home.state, dirname(home.config), ...secretFiles(network)],
    confine,
    ...programs,
  };
}

/** The addon for this system, which is a package of its own. */
function ptyAddon(): string {
  const cells = createRequire(createRequire(import.meta.url).resolve("@dev/cell"));
  const library = createRequire(cells.resolve("@lydell/node-pty"));
  return library.resolve(`@lydell/node-pty-${process.platform}-${process.arch}/pty.node`);
}

/** What is added outside a cell is not to be read within one. */
function secretFiles({ secrets }: Network): readonly string[] {
  return Object.values(secrets).flatMap(({ from }) => (from.kind === "file" ? [from.path] : []));
}

/** How to build a session's cell: on the person's directory, or on a workspace of its own. */
async function specOf(
  session: Session,
  store: Store,
  { home, settings: { network }, onProgress, onNote }: WorldOptions,
  snapshots: () => Promise<Snapshots>,
): Promise<Result<CellSpec>> {
  const { DEFAULT_CELL_LIMITS: limits } = await import("@dev/cell");
  if (session.vendor === "local") {
    return ok({ workspace: session.directory, variables: {}, limits, network });
  }
  const { prepareWorkspace } = await import("./workspace.ts");
  const watch = {
    onNote,
    onProgress: (note: string) => onProgress({ kind: "cell", observation: "provisioning", note }),
  };
  const shop = { home, store, snapshots: await snapshots(), watch };
  const workspace = await prepareWorkspace(session, shop);
  if (!workspace.ok) return workspace;
  return ok({ workspace: workspace.value, variables: {}, limits, network });
}

/** The snapshot of a session's own workspace; empty where it has none, or none yet. */
async function checkpointOf(
  session: Session,
  { home }: WorldOptions,
  snapshots: () => Promise<Snapshots>,
): Promise<Result<string>> {
  if (session.vendor === "local") return ok("");
  const { placeOf } = await import("./workspace.ts");
  const { tree, seen } = placeOf(home, session.id);
  if (!existsSync(tree)) return ok("");
  const taken = await (await snapshots()).take(tree, seen, () => undefined);
  return taken.ok ? ok(taken.value.id) : taken;
}
