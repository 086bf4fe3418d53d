import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, readdir, rm, rmdir, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type CellId, fail, never, ok, type Result } from "@dev/protocol";
import { type SeccompProfile, seccompProfile } from "../seccomp.ts";
import { arranged, isWithin, type Mount } from "./mount.ts";
import { codeOf, ioFault } from "./record.ts";

/** What a container is made of, in no runtime's words. */
export type Container = {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  /** Who it is: as outside where we are root, and else the one user that we can be in it. */
  readonly user: number;
  /** The user outside that is user 0 inside; null where nobody is mapped. */
  readonly mappedFrom: { readonly user: number; readonly group: number } | null;
  /** Null where this machine lets us have none. */
  readonly cgroup: Cgroup | null;
  readonly ptrace: boolean;
  /** Whether the runtime's filter refuses with the number that it is told, or with EPERM whatever it is told. */
  readonly refusals: "exact" | "eperm";
};

export type Cgroup = {
  readonly path: string;
  readonly processCount: number;
  readonly memoryBytes: number;
};

/**
 * Writes an OCI bundle (`config.json` and a `rootfs` of nothing but places to mount on) at `path`, anew.
 * See the OCI runtime specification, 1.0.2. Fault: `unsupported` (see seccompProfile).
 */
export async function writeBundle(path: string, container: Container): Promise<Result<undefined>> {
  const profile = seccompProfile({ arch: process.arch, ptrace: container.ptrace });
  if (!profile.ok) return profile;
  await rm(path, { recursive: true, force: true });
  const mounts = await writeRootfs(path, container.mounts, container.user);
  const proc = procOf(container.mounts);
  const { user, mappedFrom, cgroup } = container;
  const config = {
    ociVersion: "1.0.2",
    process: {
      terminal: false,
      user: { uid: user, gid: user, umask: 0o022 },
      args: container.argv,
      env: Object.entries(container.environment).map(([name, value]) => `${name}=${value}`),
      cwd: "/",
      noNewPrivileges: true,
      capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
    },
    root: { path: "rootfs", readonly: true },
    hostname: "cell",
    mounts,
    linux: {
      namespaces: [
        ...["pid", "ipc", "uts", "mount", "network"],
        ...(mappedFrom === null ? [] : ["user"]),
      ].map((type) => ({ type })),
      ...(mappedFrom !== null && {
        uidMappings: [{ containerID: 0, hostID: mappedFrom.user, size: 1 }],
        gidMappings: [{ containerID: 0, hostID: mappedFrom.group, size: 1 }],
      }),
      ...(cgroup !== null && {
        cgroupsPath: cgroup.path,
        resources: {
          pids: { limit: cgroup.processCount },
          memory: { limit: cgroup.memoryBytes },
          devices: [{ allow: false, access: "rwm" }],
        },
      }),
      rootfsPropagation: "private",
      seccomp: container.refusals === "exact" ? profile.value : withoutOthers(profile.value),
      ...proc,
    },
  };
  await writeFile(join(path, "config.json"), JSON.stringify(config), { mode: 0o600 });
  return ok(undefined);
}

/**
 * A call that a program does without only when it is told that there is none would break it with EPERM.
 * A kernel of its own can let it in, or has none itself.
 */
function withoutOthers(profile: SeccompProfile): SeccompProfile {
  return { ...profile, syscalls: profile.syscalls.filter(({ errnoRet }) => errnoRet === EPERM) };
}

const EPERM = 1;

/** What of /proc is closed: a runtime has its own words for that. */
export function procOf(mounts: readonly Mount[]): {
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
} {
  const inside = mounts.filter(({ at }) => at !== "/proc" && isWithin(at, "/proc"));
  const readOnly = inside.filter((mount) => mount.kind === "bind" && mount.source === mount.at);
  return {
    maskedPaths: inside.filter((mount) => !readOnly.includes(mount)).map(({ at }) => at),
    readonlyPaths: readOnly.map(({ at }) => at),
  };
}

/** One mount in the words of the OCI runtime specification. */
export type OciMount = {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
};

/**
 * Makes `rootfs` in that directory, with a place for each mount, and answers with the mounts that fill
 * it; a symbolic link or a text is there already.
 */
export async function writeRootfs(
  path: string,
  mounts: readonly Mount[],
  user: number,
): Promise<readonly OciMount[]> {
  const root = join(path, "rootfs");
  await mkdir(root, { recursive: true, mode: 0o755 });
  const filled: OciMount[] = [];
  for (const mount of arranged(mounts)) {
    if (mount.at !== "/proc" && isWithin(mount.at, "/proc")) continue;
    const place = join(root, mount.at);
    await mkdir(dirname(place), { recursive: true, mode: 0o755 });
    filled.push(...(await placed(mount, place, user)));
  }
  return filled;
}

async function placed(mount: Mount, place: string, user: number): Promise<readonly OciMount[]> {
  const destination = mount.at;
  const owner = [`uid=${user}`, `gid=${user}`];
  switch (mount.kind) {
    case "bind": {
      const isDirectory = (await stat(mount.source)).isDirectory();
      await (isDirectory ? mkdir(place, { recursive: true }) : writeFile(place, ""));
      const options = ["rbind", "rprivate", "nosuid", "nodev", mount.write ? "rw" : "ro"];
      return [{ destination, type: "bind", source: mount.source, options }];
    }
    case "tmpfs": {
      await mkdir(place, { recursive: true });
      // Some runtimes give the mount the mode of its place, whatever they were told.
      await chmod(place, Number.parseInt(mount.mode, 8));
      const options = [`size=${mount.sizeBytes}`, `mode=${mount.mode}`, ...owner];
      return [tmpfs(destination, options)];
    }
    case "hidden":
      await mkdir(place, { recursive: true });
      return [tmpfs(destination, ["mode=0555", "ro"])];
    case "text":
      await writeFile(place, mount.text);
      await chmod(place, 0o644);
      return [];
    case "symlink":
      await symlink(mount.to, place);
      return [];
    case "proc":
      await mkdir(place, { recursive: true });
      return [
        { destination, type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
      ];
    case "dev":
      await mkdir(place, { recursive: true });
      return [
        {
          destination,
          type: "tmpfs",
          source: "tmpfs",
          options: ["nosuid", "mode=0755", "size=64k"],
        },
        {
          destination: `${destination}/pts`,
          type: "devpts",
          source: "devpts",
          options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
      ];
    default:
      return never(mount);
  }
}

function tmpfs(destination: string, options: readonly string[]): OciMount {
  return { destination, type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", ...options] };
}

/** The cgroup of a cell, below whatever the runtime's own is in. */
export function cgroupPath(id: CellId): string {
  return `/dev-cells/${id}`;
}

/** Removes what a runtime that was killed has left of a cell's cgroup; nothing runs in it any more. */
export async function removeCgroup(id: CellId): Promise<Result<undefined>> {
  const at = "/sys/fs/cgroup";
  const parents = existsSync(at) ? ["", ...(await readdir(at))] : [];
  for (const parent of parents) {
    const path = join(at, parent, cgroupPath(id));
    for (let tries = 1; existsSync(path); tries++) {
      try {
        await rmdir(path);
      } catch (error) {
        if (codeOf(error) === "ENOENT") break;
        if (tries >= CGROUP_TRIES) return fail(ioFault(error, path));
        // The kernel has killed what was in it, and not yet let go of it.
        await delay(CGROUP_PAUSE_MS);
      }
    }
  }
  return ok(undefined);
}

const CGROUP_TRIES = 100;
const CGROUP_PAUSE_MS = 20;

/** Whether root may limit memory and processes here: by either version of cgroups. */
export function hasCgroups(): boolean {
  const at = "/sys/fs/cgroup";
  if (existsSync(`${at}/cgroup.controllers`)) {
    const controllers = readFileSync(`${at}/cgroup.controllers`, "utf8").trim().split(" ");
    return ["memory", "pids"].every((name) => controllers.includes(name));
  }
  return ["memory", "pids", "devices"].every((name) => existsSync(`${at}/${name}/tasks`));
}
