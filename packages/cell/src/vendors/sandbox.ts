import { existsSync, readFileSync } from "node:fs";
import { ok, type Result } from "@dev/protocol";
import { compileSeccomp } from "../seccomp.ts";
import type { CellLimits } from "../vendor.ts";
import { type Mount, mountArguments } from "./mount.ts";

/** What a program is started in: its mounts, who it is, and what it is told. */
export type Sandbox = {
  readonly mounts: readonly Mount[];
  /** The user and group that it sees itself as; undefined is as outside. */
  readonly id: number | undefined;
  readonly hostname: string | undefined;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly ptrace: boolean;
};

/** bubblewrap's arguments, and the files behind the descriptors that they name. */
export type SandboxArguments = {
  readonly args: readonly string[];
  readonly files: readonly Uint8Array[];
};

/**
 * The descriptors of a sandboxed agent. bubblewrap closes its own before the agent runs. The arguments
 * themselves go by descriptor too: on the command line the cell would read the host's paths in them.
 */
export const DESCRIPTORS = { link: 3, info: 4, block: 5, args: 6, files: 7 } as const;

/**
 * Everything about a sandbox that does not depend on its kind: namespaces, no network, no capability,
 * no new user namespace, the filter of system calls. `unsupported` where there is no such filter.
 *
 * There is no `--die-with-parent`, on purpose: an agent whose driver died lets its command finish and
 * writes down what came of it. So whoever starts a sandbox records it first, to be able to end it.
 */
export function sandboxArguments(sandbox: Sandbox): Result<SandboxArguments> {
  const filter = compileSeccomp({ arch: process.arch, ptrace: sandbox.ptrace });
  if (!filter.ok) return filter;
  const mounts = mountArguments(sandbox.mounts, DESCRIPTORS.files + 1);
  const { id, hostname } = sandbox;
  const args = [
    ...NAMESPACES,
    ...(id === undefined ? [] : ["--uid", String(id), "--gid", String(id)]),
    ...(hostname === undefined ? [] : ["--hostname", hostname]),
    ...["--new-session", "--cap-drop", "ALL", "--clearenv"],
    ...mounts.args,
    ...["--remount-ro", "/", "--chdir", sandbox.cwd],
    ...Object.entries(sandbox.environment).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--seccomp", String(DESCRIPTORS.files)],
    ...["--info-fd", String(DESCRIPTORS.info), "--block-fd", String(DESCRIPTORS.block)],
  ];
  return ok({ args, files: [filter.value, ...mounts.files] });
}

/** `--disable-userns` works only with an explicit `--unshare-user`. */
export const NAMESPACES: readonly string[] = [
  "--unshare-user",
  "--unshare-ipc",
  "--unshare-pid",
  "--unshare-uts",
  "--unshare-cgroup",
  "--unshare-net",
  "--disable-userns",
];

/**
 * The command that sets a process's limits and becomes the next one. It runs inside the sandbox, where
 * the kernel (since 5.14) counts the processes of that user namespace alone: outside, the limit would
 * count every thread that the person runs.
 */
export function limitCommand(limits: CellLimits, own: OwnLimits): readonly string[] {
  const files = Math.min(limits.openFileCount, own.openFileCount);
  const processes = Math.min(limits.processCount, own.processCount);
  return [
    "prlimit",
    `--nofile=${files}:${files}`,
    `--nproc=${processes}:${processes}`,
    `--fsize=${Math.min(limits.fileBytes, own.fileBytes)}`,
    "--core=0",
    "--",
  ];
}

/** What this process may give away: nobody can raise a hard limit. */
export type OwnLimits = {
  readonly openFileCount: number;
  readonly processCount: number;
  readonly fileBytes: number;
};

export function ownLimits(): OwnLimits {
  const table = readFileSync("/proc/self/limits", "utf8");
  const hard = (name: string): number => {
    const value = new RegExp(`^${name} +\\S+ +(\\S+)`, "m").exec(table)?.[1];
    return value === undefined || value === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(value);
  };
  return {
    openFileCount: hard("Max open files"),
    processCount: hard("Max processes"),
    fileBytes: hard("Max file size"),
  };
}

/** A /proc of its own, without the files through which it tells of the whole machine. */
export function procMounts(): readonly Mount[] {
  const files = ["kcore", "keys", "timer_list", "cmdline", "sysrq-trigger", "config.gz"];
  const directories = ["bus", "acpi", "scsi", "fs"];
  const present = (name: string): boolean => existsSync(`/proc/${name}`);
  return [
    { kind: "proc", at: "/proc" },
    // Root's uid owns these, in any user namespace: the mount itself has to forbid it.
    { kind: "bind", source: "/proc/sys", at: "/proc/sys", write: false },
    ...files
      .filter(present)
      .map(
        (name): Mount => ({ kind: "bind", source: "/dev/null", at: `/proc/${name}`, write: false }),
      ),
    ...directories.filter(present).map((name): Mount => ({ kind: "hidden", at: `/proc/${name}` })),
  ];
}

/** Devices that are only sources and sinks, and shared memory of a bounded size. */
export const DEVICES: readonly Mount[] = [
  { kind: "dev", at: "/dev" },
  { kind: "tmpfs", at: "/dev/shm", sizeBytes: 64 * 1024 * 1024, mode: "1777" },
];

/** Daemons' sockets lie in the real one. */
export const RUN: Extract<Mount, { kind: "tmpfs" }> = {
  kind: "tmpfs",
  at: "/run",
  sizeBytes: 64 * 1024 * 1024,
  mode: "0755",
};
