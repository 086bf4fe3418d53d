import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { CellSpec, Vendor, VendorOptions } from "@dev/cell";
import { openCore } from "@dev/host";
import { openRouter, type Provider, ROUTER_LIMITS, type RouterLimits } from "@dev/model";
import { cellId, fail, fault, ok, type Result } from "@dev/protocol";
import { type Asker, type Progress, resolvePath, type Services } from "@dev/session";
import { openSqlite, type Session, type Store } from "@dev/store";
import { holderName, isHolderAlive } from "./holder.ts";
import { type Home, makeDirectory } from "./home.ts";
import type { ProviderSettings, Settings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

/** The real world, as a driver needs it. */
export type World = { readonly services: Services; close(): void };

export type WorldOptions = {
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
  const router = openRouter(keyed(settings.providers, terminal.env), {
    sleep: (ms, signal) => sleep(ms, signal),
    random: () => terminal.random(),
    limits: routerLimits(settings.modelSilenceMs),
  });
  const core = openCore({ host: "native" });
  const services: Services = {
    store,
    core,
    router,
    vendor: lazyVendor(options),
    rules: settings.rules,
    asker,
    onProgress,
    spec: (session) => specOf(session, options),
    resolve: resolvePath,
    newCellId: () => cellId(terminal.nowMs(), randomBytes(terminal)),
    now: () => terminal.nowMs(),
    holder: holderName(),
    isAlive: isHolderAlive,
  };
  return {
    services,
    close: () => {
      router.close();
      core.close();
    },
  };
}

/** The router's limits, with the silence of a model that settings allow. */
function routerLimits(silenceMs: number | null): RouterLimits {
  if (silenceMs === null) return ROUTER_LIMITS;
  return { ...ROUTER_LIMITS, firstByteMs: silenceMs, idleMs: silenceMs };
}

/** Providers with the keys that the environment holds. */
function keyed(
  settings: Readonly<Record<string, ProviderSettings>>,
  env: NodeJS.ProcessEnv,
): Readonly<Record<string, Provider>> {
  const providers: Record<string, Provider> = {};
  for (const [name, { wire, base_url: baseUrl, env_key: variable }] of Object.entries(settings)) {
    const key = variable === undefined ? null : (env[variable] ?? "");
    providers[name] = { wire, baseUrl, key, ...(variable && { keySource: variable }) };
  }
  return providers;
}

/** The chance in an id: enough that no two of a person's sessions share one. */
export function randomBytes(terminal: Terminal): Uint8Array {
  return Uint8Array.from({ length: 10 }, () => Math.floor(terminal.random() * 256));
}

/** The provider that a model names. Faults `config`: none, or its key is not in the environment. */
export function checkModel(
  model: string,
  settings: Settings,
  env: NodeJS.ProcessEnv,
): Result<void> {
  const slash = model.indexOf("/");
  const name = model.slice(0, Math.max(0, slash));
  if (slash < 1 || slash === model.length - 1) {
    const mend = `such as ${Object.keys(settings.providers)[0] ?? "local"}/some-model`;
    return fail(fault("config", "a model is written provider/model", model, mend));
  }
  const provider = Object.hasOwn(settings.providers, name) ? settings.providers[name] : undefined;
  if (provider === undefined) {
    const known = Object.keys(settings.providers).join(", ") || "none";
    const mend = `configured: ${known}; add [providers.${name}] to config.toml`;
    return fail(fault("config", `there is no provider "${name}"`, model, mend));
  }
  const variable = provider.env_key;
  if (variable === undefined || env[variable]) return ok(undefined);
  return fail(
    fault("config", `the key of provider "${name}" is not set`, variable, `export ${variable}=…`),
  );
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

/** A vendor that is loaded at its first use: the first model call does not wait for it. */
function lazyVendor(options: WorldOptions): Vendor {
  let opened: Promise<Result<Vendor>> | null = null;
  const vendor = (): Promise<Result<Vendor>> => {
    opened ??= loadVendor(options);
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

async function loadVendor(options: WorldOptions): Promise<Result<Vendor>> {
  const { vendor, home, settings, terminal, signal } = options;
  const { openVendor } = await import("@dev/cell");
  return openVendor(vendor, await vendorOptions(home, settings.confine, terminal), signal);
}

/** What vendors need of this machine and this person. */
export async function vendorOptions(
  home: Home,
  confine: boolean,
  terminal: Terminal,
): Promise<VendorOptions> {
  const { rgPath } = await import("@vscode/ripgrep");
  return {
    home: home.cells,
    agent: createRequire(import.meta.url).resolve("@dev/cell/agent"),
    rg: rgPath,
    environment: terminal.env,
    masked: [home.state, dirname(home.config)],
    confine,
  };
}

/** How to build a session's cell: on the person's directory, or on a workspace of its own. */
async function specOf(
  session: Session,
  { home, onProgress, onNote }: WorldOptions,
): Promise<Result<CellSpec>> {
  const { DEFAULT_CELL_LIMITS: limits } = await import("@dev/cell");
  if (session.vendor === "local") {
    return ok({ workspace: session.directory, variables: {}, limits });
  }
  const { prepareWorkspace } = await import("./workspace.ts");
  const workspace = await prepareWorkspace(session, home, {
    onNote,
    onProgress: (note) => onProgress({ kind: "cell", observation: "provisioning", note }),
  });
  return workspace.ok ? ok({ workspace: workspace.value, variables: {}, limits }) : workspace;
}
