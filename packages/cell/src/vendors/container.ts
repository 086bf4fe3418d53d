import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type CellId, fail, fault, ok, type Result } from "@dev/protocol";
import { seccompProfile } from "../seccomp.ts";
import type { CellLimits, Vendor } from "../vendor.ts";
import { hasCgroups, type OciMount, procOf, writeRootfs } from "./bundle.ts";
import { CELL_VARIABLE, childVendor, type Start } from "./child.ts";
import { diagnose, lookFor, missingProgram } from "./diagnosis.ts";
import {
  agentCommand,
  gated,
  giveTo,
  INSIDE,
  INSIDE_OF_AGENT,
  type MachineOptions,
  outsideId,
  ownedBy,
  PATH,
  systemMounts,
  VARIABLES,
} from "./environment.ts";
import type { Launch } from "./launch.ts";
import type { Mount } from "./mount.ts";
import { endRuntimes } from "./process.ts";
import { type CellDirectory, codeOf, ioFault } from "./record.ts";
import { DEVICES, type OwnLimits, ownLimits, procMounts, RUN } from "./sandbox.ts";

/** A program that runs containers from its command line as podman does. */
export type EngineOptions = {
  /** By default `podman`, from the PATH. */
  readonly binary?: string | undefined;
  /**
   * The image that a cell's system is; it needs a shell, `mkfifo` and glibc.
   * Without one a cell has this machine's own programs, as the other kinds have.
   */
  readonly image?: string | undefined;
  /** The OCI runtime, such as `runsc`, `runc` or `crun`; by default the engine's own choice. */
  readonly runtime?: string | undefined;
  /** For `run`, after ours. */
  readonly args?: readonly string[] | undefined;
};

export type ContainerOptions = MachineOptions & {
  /** The person's own, in which their engine finds its storage. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly container?: EngineOptions | undefined;
};

/**
 * Cells that are podman's containers: from an image, or of this machine's programs. Whoever has more
 * than one user to give away (see subuid(5)), or is root, drives it.
 */
export function containerVendor(options: ContainerOptions, signal: AbortSignal = NEVER): Vendor {
  const own = options.container ?? {};
  const binary = own.binary ?? "podman";
  return childVendor(
    {
      name: "container",
      home: options.home,
      counts: false,
      egress: options.egress,
      prepare: (start) => prepare(options, own, binary, start),
      clear: (id, directory) => clear(options, binary, id, directory),
    },
    signal,
  );
}

const NEVER: AbortSignal = new AbortController().signal;

/** Every container of ours has this label, with the cell's id: by it they are found, whatever their name. */
export const CELL_LABEL = "dev.cell";
/** The first process and the engine's own before it becomes that. */
const INIT_PROCESSES = 8;
/** An engine that takes longer to forget a container does not answer. */
const CLEAR_LIMIT_MS = 60_000;
const END_LIMIT_MS = 10_000;

async function prepare(
  options: ContainerOptions,
  own: EngineOptions,
  binary: string,
  start: Start,
): Promise<Result<Launch>> {
  const { directory, id } = start;
  const missing = lookFor(binary, PATH);
  if (missing !== null) return fail(missing);
  const asRoot = process.getuid?.() === 0;
  // Another person's container has them as its one user of this machine, and without a power.
  const user = asRoot ? outsideId(id) : 0;
  const given = asRoot ? await giveTo(user, start) : ok(undefined);
  if (!given.ok) return given;
  const profile = seccompProfile({ arch: process.arch, ptrace: options.ptrace ?? false });
  if (!profile.ok) return profile;
  const bundle = join(directory.path, "bundle");
  try {
    const mounts = await mountsOf(options, own, start, user);
    await rm(bundle, { recursive: true, force: true });
    const filled = await writeRootfs(bundle, mounts, user);
    await writeFile(join(bundle, "seccomp.json"), JSON.stringify(profile.value));
    const args = [
      ...engineArguments(),
      ...["run", "--name", nameOf(id), "--label", `${CELL_LABEL}=${id}`, "--rm"],
      ...["--pidfile", join(bundle, "pid"), "--preserve-fds", "2"],
      ...confinement(bundle, mounts),
      ...limitArguments(start.spec.limits, ownLimits(), asRoot && hasCgroups()),
      ...["--user", `${user}:${user}`, "--workdir", "/", "--hostname", "cell"],
      ...Object.entries({ ...VARIABLES, [CELL_VARIABLE]: id }).flatMap(([name, value]) => [
        ...["--env", `${name}=${value}`],
      ]),
      ...filled.flatMap(mountArguments),
      ...(own.runtime === undefined ? [] : ["--runtime", own.runtime]),
      ...(own.args ?? []),
    ];
    const system = own.image === undefined ? ["--rootfs", join(bundle, "rootfs")] : [own.image];
    const agent = own.image === undefined ? await agentCommand(options) : IMAGE_AGENT;
    const [shell = "", ...rest] = gated(agent);
    return ok({
      boundary: "cell",
      command: [binary, ...args, "--entrypoint", shell, ...system, ...rest],
      environment: engineEnvironment(options, id),
      cwd: "/",
      wrapper: { kind: "runtime", name: binary, pidFile: join(bundle, "pid"), mark: id },
      inside: INSIDE_OF_AGENT,
    });
  } catch (error) {
    return fail(ioFault(error, bundle));
  }
}

/** An image need not have a Node.js: it gets the one that runs us. */
const IMAGE_AGENT = [INSIDE.node, INSIDE.agent];

async function mountsOf(
  options: ContainerOptions,
  own: EngineOptions,
  start: Start,
  user: number,
): Promise<readonly Mount[]> {
  const owned = await ownedBy(options, start);
  const bound = owned.map(({ source, at, write }): Mount => ({ kind: "bind", source, at, write }));
  // Of a tmpfs of the engine's, the cell's user is never the owner.
  const open: Mount = { ...RUN, mode: "1777" };
  if (own.image === undefined) return [...systemMounts(user), open, ...bound];
  const source = await realpath(options.node ?? process.execPath);
  const node: Mount = { kind: "bind", source, at: INSIDE.node, write: false };
  return [...procMounts(), ...DEVICES, open, ...bound, node];
}

function nameOf(id: CellId): string {
  return `dev-${id}`;
}

/** What comes before the engine's command. */
function engineArguments(): readonly string[] {
  // Its default asks systemd to make cgroups, which is not on every machine.
  return existsSync("/run/systemd/system") ? [] : ["--cgroup-manager", "cgroupfs"];
}

/** What an engine that is driven by a person finds its own files with. */
const ENGINE_VARIABLES = ["HOME", "USER", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"];

function engineEnvironment(
  { environment }: ContainerOptions,
  id?: CellId,
): Readonly<Record<string, string>> {
  const passed: Record<string, string> = { PATH };
  for (const name of ENGINE_VARIABLES) {
    const value = environment[name];
    if (value !== undefined) passed[name] = value;
  }
  return id === undefined ? passed : { ...passed, [CELL_VARIABLE]: id };
}

function confinement(bundle: string, mounts: readonly Mount[]): readonly string[] {
  const { maskedPaths } = procOf(mounts);
  return [
    ...["--network", "none", "--no-hosts", "--cap-drop", "all", "--read-only"],
    ...["--read-only-tmpfs=false", "--http-proxy=false", "--passwd=false", "--log-driver", "none"],
    ...["--security-opt", "no-new-privileges", "--systemd", "false"],
    ...["--security-opt", `seccomp=${join(bundle, "seccomp.json")}`],
    ...["--security-opt", `mask=${maskedPaths.join(":")}`],
  ];
}

function limitArguments(limits: CellLimits, own: OwnLimits, counted: boolean): readonly string[] {
  const rlimit = (name: string, wanted: number, most: number): readonly string[] => {
    const value = Math.min(wanted, most);
    return ["--ulimit", `${name}=${value}:${value}`];
  };
  return [
    ...rlimit("nofile", limits.openFileCount, own.openFileCount),
    ...rlimit("nproc", limits.processCount, own.processCount),
    ...rlimit("fsize", limits.fileBytes, own.fileBytes),
    ...["--ulimit", "core=0:0"],
    ...(counted
      ? [
          ...["--pids-limit", String(limits.processCount + INIT_PROCESSES)],
          ...["--memory", String(limits.memoryBytes)],
        ]
      : []),
  ];
}

function mountArguments({ type, source, destination, options }: OciMount): readonly string[] {
  // The engine has its own /proc, and its own few devices.
  if (destination === "/proc" || destination === "/dev" || destination === "/dev/pts") return [];
  if (type === "tmpfs") {
    const size = options.find((option) => option.startsWith("size=")) ?? "size=64k";
    return ["--tmpfs", `${destination}:rw,nosuid,nodev,notmpcopyup,mode=1777,${size}`];
  }
  const fields = [
    "type=bind",
    `src=${source}`,
    `dst=${destination}`,
    `ro=${!options.includes("rw")}`,
  ];
  return ["--mount", fields.map(csvField).join(",")];
}

/** The engine reads a mount as a line of comma-separated values, and any of them may be a path. */
function csvField(field: string): string {
  return /[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

/** Ends every container that has this cell's label, and has the engine forget it. */
async function clear(
  options: ContainerOptions,
  binary: string,
  id: CellId,
  directory: CellDirectory,
): Promise<Result<undefined>> {
  // Nothing has ever been started: the engine need not even be there.
  if (!existsSync(join(directory.path, "bundle"))) return ok(undefined);
  const ask = async (...words: readonly string[]): Promise<string> =>
    (await run(binary, [...engineArguments(), ...words], settings)).stdout;
  const settings = {
    timeout: CLEAR_LIMIT_MS,
    killSignal: "SIGKILL",
    env: engineEnvironment(options),
    cwd: "/",
  } as const;
  try {
    const listed = await ask("ps", "--all", "--quiet", "--filter", `label=${CELL_LABEL}=${id}`);
    const found = listed.split("\n").filter((line) => line !== "");
    // Its name as well: whoever lists nothing may still have it.
    await ask("rm", "--force", "--ignore", "--time", "0", nameOf(id), ...found);
    // One that waits for a container that never came is known to nobody.
    const ended = await endRuntimes("conmon", nameOf(id), END_LIMIT_MS);
    return ended ? ok(undefined) : fail(fault("unavailable", "a conmon does not end", nameOf(id)));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return fail(missingProgram(binary));
    const words = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
    return fail(diagnose(`${binary}, asked to forget a container`, words));
  }
}

const run = promisify(execFile);
