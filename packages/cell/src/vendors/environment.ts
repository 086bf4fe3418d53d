import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { promisify } from "node:util";
import { type CellId, fail, fault, ok, type Result } from "@dev/protocol";
import type { EgressSeams } from "../egress/ground.ts";
import type { Start } from "./child.ts";
import { GATE_DESCRIPTOR, type Launch } from "./launch.ts";
import { isWithin, type Mount } from "./mount.ts";
import { DESCRIPTORS, DEVICES, procMounts, RUN } from "./sandbox.ts";

/*
 * What a cell of its own finds in it, whatever keeps it apart: the machine's programs, read-only, and
 * the few directories that are its own.
 */

/** What a vendor of cells on this machine needs of it. All paths are absolute. */
export type MachineOptions = {
  /** Where each cell has a directory of its own, for its spool and its record. */
  readonly home: string;
  /** The agent, as one file. */
  readonly agent: string;
  /** The ripgrep program. */
  readonly rg: string;
  /** The addon of @lydell/node-pty for this system (`pty.node`), for terminals in cells. */
  readonly pty: string;
  /** The Node program that runs the agent; by default the one that runs us. */
  readonly node?: string;
  /** By default `bwrap`, from the PATH. */
  readonly bwrap?: string;
  /** Lets debuggers work in the cell, at the price that a command can stop the cell's agent. */
  readonly ptrace?: boolean;
  /** What the cells' networks need of the world; without it a spec cannot ask for one. */
  readonly egress?: EgressSeams;
};

/** Where its own things are, as the cell sees them. */
export const INSIDE = {
  workspace: "/workspace",
  disk: "/var/cell",
  spool: "/var/cell/spool",
  home: "/home/cell",
  agent: "/opt/cell/agent.mjs",
  rg: "/opt/cell/bin/rg",
  pty: "/opt/cell/pty.node",
  node: "/opt/cell/bin/node",
} as const;

/** Of every program in a cell, and of what starts one. */
export const PATH: string =
  "/opt/cell/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** What every command has in its environment. */
export const VARIABLES: Readonly<Record<string, string>> = {
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
export const INSIDE_ID = 1000;
/** Past every range that distributions and systemd hand out, and below what a signed id holds. */
const FIRST_OUTSIDE_ID = 0x7000_0000;

/** Something of ours that a cell has: its place here and there. */
export type Own = {
  readonly name: string;
  readonly source: string;
  readonly at: string;
  readonly write: boolean;
};

/** What is this cell's alone, and the programs that its agent is made of. */
export async function ownedBy(
  options: MachineOptions,
  { directory, spec }: Start,
): Promise<readonly Own[]> {
  const node = await realpath(options.node ?? process.execPath);
  return [
    { name: "workspace", source: spec.workspace, at: INSIDE.workspace, write: true },
    { name: "disk", source: directory.disk, at: INSIDE.disk, write: true },
    { name: "home", source: directory.home, at: INSIDE.home, write: true },
    { name: "scratch", source: directory.scratch, at: "/tmp", write: true },
    { name: "agent", source: options.agent, at: INSIDE.agent, write: false },
    { name: "rg", source: await realpath(options.rg), at: INSIDE.rg, write: false },
    { name: "pty", source: await realpath(options.pty), at: INSIDE.pty, write: false },
    ...(isWithin(node, "/usr")
      ? []
      : [{ name: "node", source: node, at: INSIDE.node, write: false }]),
  ];
}

/** The command that is the agent, where the machine's programs are the cell's. */
export async function agentCommand(options: MachineOptions): Promise<readonly string[]> {
  const node = await realpath(options.node ?? process.execPath);
  return [isWithin(node, "/usr") ? node : INSIDE.node, INSIDE.agent];
}

/**
 * The command of a container's first process: it waits at the gate, so that nothing runs before who
 * started it has written down what it is, becomes the agent's parent, and ends with it. Like any first
 * process it gathers what others leave behind, and no signal from inside ends it. It runs in any shell.
 */
export function gated(command: readonly string[]): readonly string[] {
  return ["/bin/sh", "-c", GATE, "cell", ...command];
}

const GATE = [
  `read -r go <&${GATE_DESCRIPTOR} || exit 1`,
  `exec ${GATE_DESCRIPTOR}<&-`,
  `cd ${INSIDE.workspace} || exit 1`,
  '"$@" &',
  // The link ends with the agent, and not with this process.
  `exec ${DESCRIPTORS.link}<&-`,
  "wait $!",
].join("\n");

/** Where the agent finds what it is told of. */
export const INSIDE_OF_AGENT: Launch["inside"] = {
  workspace: INSIDE.workspace,
  spool: INSIDE.spool,
  rg: INSIDE.rg,
  pty: INSIDE.pty,
  variables: VARIABLES,
};

/**
 * Gives what a cell may write to its own user, who is nobody outside; only root can. Nothing of the
 * cell runs now, so nothing can move under it; links are changed, not followed.
 */
export async function giveTo(user: number, { directory, spec }: Start): Promise<Result<undefined>> {
  const own = [spec.workspace, directory.disk, directory.home, directory.scratch];
  try {
    await run("chown", ["-R", "-h", "-P", `${user}:${user}`, "--", ...own]);
    return ok(undefined);
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return fail(fault("unavailable", `giving the workspace to the cell: ${words}`, spec.workspace));
  }
}

const run = promisify(execFile);

/** Each cell has its own, so that what gets out of one is nobody in the next. */
export function outsideId(id: CellId): number {
  return FIRST_OUTSIDE_ID + createHash("sha256").update(id).digest().readUIntBE(0, 3);
}

/** The system's programs and what they are configured by: nothing that is only for some eyes. */
export function systemMounts(user: number = INSIDE_ID): readonly Mount[] {
  const roots = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
  return [
    { kind: "bind", source: "/usr", at: "/usr", write: false },
    ...roots.filter((path) => existsSync(path)).map(rootMount),
    ...CONFIGURATION.filter((path) => existsSync(path)).map(
      (path): Mount => ({ kind: "bind", source: path, at: path, write: false }),
    ),
    { kind: "text", at: "/etc/passwd", text: passwdOf(user) },
    { kind: "text", at: "/etc/group", text: groupOf(user) },
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

function passwdOf(user: number): string {
  return [
    // The first line of a number is its name, and the cell's may be 0.
    `cell:x:${user}:${user}::${INSIDE.home}:/bin/sh`,
    "root:x:0:0:root:/root:/usr/sbin/nologin",
    "nobody:x:65534:65534::/:/usr/sbin/nologin",
    "",
  ].join("\n");
}

function groupOf(user: number): string {
  return `cell:x:${user}:\nroot:x:0:\nnogroup:x:65534:\n`;
}

const HOSTS = `127.0.0.1 localhost cell
::1 localhost
`;
