import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { CellId } from "@dev/protocol";
import { fail, fault, ok, type Result } from "@dev/protocol";
import type { CellLimits, Vendor } from "../vendor.ts";
import {
  type Cgroup,
  type Container,
  cgroupPath,
  hasCgroups,
  removeCgroup,
  writeBundle,
} from "./bundle.ts";
import { CELL_VARIABLE, childVendor, type Start } from "./child.ts";
import { diagnose, lookFor, missingProgram } from "./diagnosis.ts";
import {
  agentCommand,
  gated,
  giveTo,
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
import { limitCommand, ownLimits } from "./sandbox.ts";

/** A program that runs OCI bundles. */
export type RuntimeOptions = {
  /** By default `runsc` or `runc`, from the PATH. */
  readonly binary?: string | undefined;
  /** What gVisor intercepts system calls with; by default its own choice. */
  readonly platform?: "systrap" | "ptrace" | "kvm" | undefined;
  /** Before its command, after ours. */
  readonly args?: readonly string[] | undefined;
};

export type BundleOptions = MachineOptions & {
  readonly runsc?: RuntimeOptions | undefined;
  readonly runc?: RuntimeOptions | undefined;
};

/**
 * Cells with a kernel of their own: an OCI bundle of this machine's programs, run by gVisor's `runsc`.
 * What a command asks of its kernel never reaches the machine's.
 */
export function gvisorVendor(options: BundleOptions, signal: AbortSignal = NEVER): Vendor {
  return bundleVendor("gvisor", RUNSC, options.runsc ?? {}, options, signal);
}

/** The same bundle in namespaces of the machine's kernel, run by `runc`. */
export function runcVendor(options: BundleOptions, signal: AbortSignal = NEVER): Vendor {
  return bundleVendor("runc", RUNC, options.runc ?? {}, options, signal);
}

const NEVER: AbortSignal = new AbortController().signal;

/** In what two runtimes differ. */
type Runtime = {
  readonly binary: string;
  readonly before: (options: RuntimeOptions, asRoot: boolean) => readonly string[];
  /** Gives the first process of the container our descriptors 3 and 4. */
  readonly passing: readonly string[];
  /** How many of the machine's processes so many of the cell's may come to. */
  readonly processCount: (count: number) => number;
  readonly refusals: Container["refusals"];
  /** Whether it makes the user namespace that a person needs by itself. */
  readonly mapsItself: boolean;
};

const RUNC: Runtime = {
  binary: "runc",
  before: ({ args = [] }) => args,
  passing: ["--preserve-fds", "2"],
  processCount: (count) => count + INIT_PROCESSES,
  refusals: "exact",
  mapsItself: false,
};

const RUNSC: Runtime = {
  binary: "runsc",
  before: ({ args = [], platform }, asRoot) => [
    ...["--network=none", "--oci-seccomp", "--host-uds=none"],
    ...(platform === undefined ? [] : [`--platform=${platform}`]),
    ...(asRoot ? [] : ["--rootless", "--ignore-cgroups"]),
    ...args,
  ],
  passing: ["--pass-fd", "3:3", "--pass-fd", "4:4"],
  processCount: (count) => count * STUBS_PER_PROCESS + SENTRY_PROCESSES,
  refusals: "eperm",
  mapsItself: true,
};

/** The first process, and the runtime's own before it becomes that. */
const INIT_PROCESSES = 8;
/** gVisor has processes of the machine's for each of its own, and threads for itself. */
const STUBS_PER_PROCESS = 4;
const SENTRY_PROCESSES = 512;
/** A runtime that takes longer to forget a container does not answer. */
const CLEAR_LIMIT_MS = 30_000;
const END_LIMIT_MS = 10_000;

function bundleVendor(
  name: string,
  runtime: Runtime,
  own: RuntimeOptions,
  options: BundleOptions,
  signal: AbortSignal,
): Vendor {
  const binary = own.binary ?? runtime.binary;
  const asRoot = process.getuid?.() === 0;
  const command = (directory: CellDirectory): readonly [string, ...string[]] => [
    binary,
    ...["--root", stateOf(directory)],
    ...runtime.before(own, asRoot),
  ];
  return childVendor(
    {
      name,
      home: options.home,
      counts: false,
      egress: options.egress,
      prepare: async (start) => {
        const missing = lookFor(binary, PATH);
        if (missing !== null) return fail(missing);
        const bundle = join(start.directory.path, "bundle");
        const written = await bundled(bundle, runtime, options, start, asRoot);
        if (!written.ok) return written;
        const pidFile = join(bundle, "pid");
        return ok<Launch>({
          boundary: "cell",
          command: [
            ...command(start.directory),
            ...["run", "--bundle", bundle, "--pid-file", pidFile, ...runtime.passing],
            start.id,
          ],
          environment: { PATH, [CELL_VARIABLE]: start.id },
          cwd: "/",
          wrapper: { kind: "runtime", name: binary, pidFile, mark: start.id },
          inside: INSIDE_OF_AGENT,
        });
      },
      clear: (id, directory) => clear(command(directory), id, directory),
    },
    signal,
  );
}

/** What a runtime knows of its containers; each cell has its own, so that it goes with the cell. */
function stateOf(directory: CellDirectory): string {
  return join(directory.path, "runtime");
}

async function bundled(
  bundle: string,
  runtime: Runtime,
  options: BundleOptions,
  start: Start,
  asRoot: boolean,
): Promise<Result<undefined>> {
  const { id, spec } = start;
  // Root's container is this user outright; another person's has them as its one user, without a power.
  const user = asRoot ? outsideId(id) : 0;
  const given = asRoot ? await giveTo(user, start) : ok(undefined);
  if (!given.ok) return given;
  try {
    const owned = await ownedBy(options, start);
    return await writeBundle(bundle, {
      argv: gated([...limitCommand(spec.limits, ownLimits()), ...(await agentCommand(options))]),
      environment: { ...VARIABLES, [CELL_VARIABLE]: id },
      mounts: [
        ...systemMounts(user),
        ...owned.map(({ source, at, write }): Mount => ({ kind: "bind", source, at, write })),
      ],
      user,
      mappedFrom:
        asRoot || runtime.mapsItself
          ? null
          : { user: process.getuid?.() ?? 0, group: process.getgid?.() ?? 0 },
      cgroup: asRoot ? cgroupOf(id, runtime, spec.limits) : null,
      ptrace: options.ptrace ?? false,
      refusals: runtime.refusals,
    });
  } catch (error) {
    return fail(ioFault(error, bundle));
  }
}

/** Null where the machine has no controllers that we could use. */
function cgroupOf(id: CellId, runtime: Runtime, limits: CellLimits): Cgroup | null {
  if (!hasCgroups()) return null;
  return {
    path: cgroupPath(id),
    processCount: runtime.processCount(limits.processCount),
    memoryBytes: limits.memoryBytes,
  };
}

async function clear(
  command: readonly [string, ...string[]],
  id: CellId,
  directory: CellDirectory,
): Promise<Result<undefined>> {
  // Where nothing has ever been started, the runtime need not even be there.
  const forgotten = existsSync(stateOf(directory)) ? await forget(command, id) : ok(undefined);
  if (!forgotten.ok) return forgotten;
  // gVisor's own processes, where it was killed before it could write down that they are.
  if (!(await endRuntimes("runsc", id, END_LIMIT_MS))) {
    return fail(fault("unavailable", "a process of gVisor does not end", id));
  }
  return process.getuid?.() === 0 ? removeCgroup(id) : ok(undefined);
}

async function forget(
  [binary, ...before]: readonly [string, ...string[]],
  id: CellId,
): Promise<Result<undefined>> {
  try {
    await run(binary, [...before, "delete", "--force", id], {
      timeout: CLEAR_LIMIT_MS,
      killSignal: "SIGKILL",
      env: { PATH },
    });
    return ok(undefined);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return fail(missingProgram(binary));
    const words = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
    return fail(diagnose(`${binary}, asked to forget a container`, words));
  }
}

const run = promisify(execFile);
