import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type CellId, fail, fault, ok, type Result } from "@dev/protocol";
import type { Vendor } from "../vendor.ts";
import { CELL_VARIABLE, childVendor, type Start } from "./child.ts";
import type { Launch } from "./launch.ts";
import { isWithin, type Mount } from "./mount.ts";
import {
  DESCRIPTORS,
  DEVICES,
  limitCommand,
  ownLimits,
  procMounts,
  RUN,
  sandboxArguments,
} from "./sandbox.ts";

/** What a vendor of cells on this machine needs of it. All paths are absolute. */
export type MachineOptions = {
  /** Where each cell has a directory of its own, for its spool and its record. */
  readonly home: string;
  /** The agent, as one file. */
  readonly agent: string;
  /** The ripgrep program. */
  readonly rg: string;
  /** The Node program that runs the agent; by default the one that runs us. */
  readonly node?: string;
  /** By default `bwrap`, from the PATH. */
  readonly bwrap?: string;
  /** Lets debuggers work in the cell, at the price that a command can stop the cell's agent. */
  readonly ptrace?: boolean;
};

/**
 * Cells with an environment of their own: namespaces, no network, a read-only system, a filter of
 * system calls, limits. The workspace, at `/workspace`, is a copy that was made for this cell: when we
 * are root it is given to the cell's own user, who is nobody outside.
 */
export function bubblewrapVendor(options: MachineOptions, signal: AbortSignal = NEVER): Vendor {
  return childVendor(
    { name: "bubblewrap", home: options.home, prepare: (start) => prepare(options, start) },
    signal,
  );
}

const NEVER: AbortSignal = new AbortController().signal;

const INSIDE = {
  workspace: "/workspace",
  disk: "/var/cell",
  spool: "/var/cell/spool",
  home: "/home/cell",
  agent: "/opt/cell/agent.mjs",
  rg: "/opt/cell/bin/rg",
  node: "/opt/cell/bin/node",
} as const;

const PATH = "/opt/cell/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const VARIABLES: Readonly<Record<string, string>> = {
  PATH,
  HOME: INSIDE.home,
  USER: "cell",
  LOGNAME: "cell",
  SHELL: "/bin/sh",
  LANG: "C.UTF-8",
  TERM: "xterm-256color",
  TMPDIR: "/tmp",
};

/** Who a cell sees itself as. */
const INSIDE_ID = 1000;
/** Past every range that distributions and systemd hand out, and below what a signed id holds. */
const FIRST_OUTSIDE_ID = 0x7000_0000;

/** Something of ours that a cell has: its place here and there. */
type Own = {
  readonly name: string;
  readonly source: string;
  readonly at: string;
  readonly write: boolean;
};

async function prepare(options: MachineOptions, start: Start): Promise<Result<Launch>> {
  const { directory, id, spec } = start;
  const node = await realpath(options.node ?? process.execPath);
  const isSystemNode = isWithin(node, "/usr");
  const owned: readonly Own[] = [
    { name: "workspace", source: spec.workspace, at: INSIDE.workspace, write: true },
    { name: "disk", source: directory.disk, at: INSIDE.disk, write: true },
    { name: "home", source: directory.home, at: INSIDE.home, write: true },
    { name: "scratch", source: directory.scratch, at: "/tmp", write: true },
    { name: "agent", source: options.agent, at: INSIDE.agent, write: false },
    { name: "rg", source: await realpath(options.rg), at: INSIDE.rg, write: false },
    ...(isSystemNode ? [] : [{ name: "node", source: node, at: INSIDE.node, write: false }]),
  ];
  const asRoot = process.getuid?.() === 0;
  const drop = asRoot ? await dropCommand(start, owned) : ok([]);
  if (!drop.ok) return drop;
  const sandbox = sandboxArguments({
    mounts: [
      ...systemMounts(),
      ...owned.map(
        ({ name, source, at, write }): Mount => ({
          kind: "bind",
          source: asRoot ? `${STAGE}/${name}` : source,
          at,
          write,
        }),
      ),
    ],
    id: INSIDE_ID,
    hostname: "cell",
    cwd: INSIDE.workspace,
    environment: { ...VARIABLES, [CELL_VARIABLE]: id },
    ptrace: options.ptrace ?? false,
  });
  if (!sandbox.ok) return sandbox;
  const wrapped = [options.bwrap ?? "bwrap", "--args", String(DESCRIPTORS.args), "--"] as const;
  const inner = [
    ...limitCommand(spec.limits, ownLimits()),
    isSystemNode ? node : INSIDE.node,
    INSIDE.agent,
  ];
  const [program = wrapped[0], ...rest] = [...drop.value, ...wrapped, ...inner];
  return ok({
    boundary: "cell",
    command: [program, ...rest],
    // All that the sandbox's own first process can tell of ours.
    environment: { PATH, [CELL_VARIABLE]: id },
    cwd: "/",
    wrapper: { kind: "bubblewrap", ...sandbox.value },
    inside: {
      workspace: INSIDE.workspace,
      spool: INSIDE.spool,
      rg: INSIDE.rg,
      variables: VARIABLES,
    },
  });
}

/** Where the staging below ends up, in a mount namespace that only the cell's chain is in. */
const STAGE = "/tmp";

/**
 * A cell's user may not walk through our directories (root's home, say), and binding by descriptor is
 * not in every bubblewrap. So root binds what the cell needs onto a directory that everybody can walk
 * through, in a mount namespace of its own, before it stops being root. `$1` is the mount point; then
 * come pairs of source and name, `--`, and the command to become.
 */
const STAGING = `set -e
stage=$1; shift
mount -t tmpfs -o mode=0755,size=64k cell "$stage"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$stage/$2"; else : > "$stage/$2"; fi
  mount --bind "$1" "$stage/$2"
  shift 2
done
shift
mount --move "$stage" ${STAGE}
exec "$@"`;

/**
 * The commands that take a root process to one that is nobody, before bubblewrap begins: in a user
 * namespace that root has made, uid 1000 is still root for every file outside.
 */
async function dropCommand(
  { directory, id, spec }: Start,
  owned: readonly Own[],
): Promise<Result<readonly string[]>> {
  const user = outsideId(id);
  const stage = join(directory.path, "stage");
  try {
    await mkdir(stage, { recursive: true });
    const own = [spec.workspace, directory.disk, directory.home, directory.scratch];
    // Nothing of the cell runs now, so nothing can move under it; links are changed, not followed.
    await run("chown", ["-R", "-h", "-P", `${user}:${user}`, "--", ...own]);
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return fail(fault("unavailable", `giving the workspace to the cell: ${words}`, spec.workspace));
  }
  const pairs = owned.flatMap(({ source, name }) => [source, name]);
  return ok([
    ...["unshare", "--mount", "--propagation", "private", "--"],
    ...["sh", "-c", STAGING, "sh", stage, ...pairs, "--"],
    ...["setpriv", "--reuid", String(user), "--regid", String(user), "--clear-groups"],
    ...["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"],
  ]);
}

const run = promisify(execFile);

/** Each cell has its own, so that what gets out of one is nobody in the next. */
function outsideId(id: CellId): number {
  return FIRST_OUTSIDE_ID + createHash("sha256").update(id).digest().readUIntBE(0, 3);
}

/** The system's programs and what they are configured by: nothing that is only for some eyes. */
function systemMounts(): readonly Mount[] {
  const roots = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
  return [
    { kind: "bind", source: "/usr", at: "/usr", write: false },
    ...roots.filter((path) => existsSync(path)).map(rootMount),
    ...CONFIGURATION.filter((path) => existsSync(path)).map(
      (path): Mount => ({ kind: "bind", source: path, at: path, write: false }),
    ),
    { kind: "text", at: "/etc/passwd", text: PASSWD },
    { kind: "text", at: "/etc/group", text: GROUP },
    { kind: "text", at: "/etc/hosts", text: HOSTS },
    { kind: "symlink", to: "../tmp", at: "/var/tmp" },
    ...procMounts(),
    ...DEVICES,
    RUN,
  ];
}

/** On most systems these are links into /usr, on some directories of their own. */
function rootMount(path: string): Mount {
  return lstatSync(path).isSymbolicLink()
    ? { kind: "symlink", to: readlinkSync(path), at: path }
    : { kind: "bind", source: path, at: path, write: false };
}

const CONFIGURATION: readonly string[] = [
  "/etc/alternatives",
  "/etc/bash.bashrc",
  "/etc/ca-certificates",
  "/etc/debian_version",
  "/etc/fonts",
  "/etc/inputrc",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/localtime",
  "/etc/magic",
  "/etc/mime.types",
  "/etc/os-release",
  "/etc/perl",
  "/etc/pki/ca-trust",
  "/etc/pki/tls/certs",
  "/etc/profile",
  "/etc/protocols",
  "/etc/services",
  "/etc/shells",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/terminfo",
];

const PASSWD = `root:x:0:0:root:/root:/usr/sbin/nologin
cell:x:${INSIDE_ID}:${INSIDE_ID}::${INSIDE.home}:/bin/sh
nobody:x:65534:65534::/:/usr/sbin/nologin
`;
const GROUP = `root:x:0:
cell:x:${INSIDE_ID}:
nogroup:x:65534:
`;
const HOSTS = `127.0.0.1 localhost cell
::1 localhost
`;
