import { existsSync, realpathSync } from "node:fs";
import { fail, ok, type Result } from "@dev/protocol";
import { compileSeccomp } from "./seccomp.ts";
import { type Confinement, localVendor, present } from "./vendors/local.ts";
import { isWithin, type Mount, mountArguments } from "./vendors/mount.ts";
import { DEVICES, NAMESPACES, procMounts, RUN } from "./vendors/sandbox.ts";

/** One process that is to be confined, and ended when this one ends. */
export type Jailed = {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** Absolute directories that it may write to; all else on the machine it can only read. */
  readonly writable: readonly string[];
  /** What it may see of the directories for temporary files, which are otherwise its own and empty. */
  readonly visible: readonly string[];
};

export type Jail = {
  /** The filter of system calls, to be open at descriptor 3 of each process. */
  readonly filter: Uint8Array;
  /** The command to start; it inherits the environment. */
  command(jailed: Jailed): readonly [string, ...string[]];
};

/** Own to each process, in place of the machine's. */
const TEMPORARY: readonly string[] = ["/tmp", "/var/tmp"];
const TEMPORARY_BYTES = 1024 * 1024 * 1024;
const FILTER_DESCRIPTOR = 3;

export type JailOptions = {
  readonly bwrap?: string;
  /** Directories and files that are hidden, but for what is `visible` or `writable` in them. */
  readonly masked?: readonly string[];
};

/**
 * A way to start processes that write only where they are told to, reach no network, and die with this
 * one: a local cell's means for a process that is asked nothing. Unlike a cell's agent it writes down
 * nothing that would have to outlive us. Faults: what stands in the way of confinement on this machine.
 */
export async function openJail(options: JailOptions): Promise<Result<Jail>> {
  const found = await confinementOf(options);
  if (found.kind === "none") return fail(found.why);
  const filter = compileSeccomp({ arch: process.arch, ptrace: false });
  if (!filter.ok) return filter;
  const system: readonly Mount[] = [
    { kind: "bind", source: "/", at: "/", write: false },
    ...procMounts(),
    ...DEVICES,
    RUN,
    ...TEMPORARY.filter((at) => existsSync(at)).map(
      (at): Mount => ({
        kind: "tmpfs",
        at: realpathSync(at),
        sizeBytes: TEMPORARY_BYTES,
        mode: "1777",
      }),
    ),
  ];
  const masked = await present(options.masked ?? []);
  const hidden = masked.map(
    ({ path, isDirectory }): Mount =>
      isDirectory
        ? { kind: "hidden", at: path }
        : { kind: "bind", source: "/dev/null", at: path, write: false },
  );
  const isCovered = (path: string): boolean =>
    isTemporary(path) ||
    masked.some((above) => isWithin(path, above.path) && path !== above.path && existsSync(path));
  const command: Jail["command"] = ({ argv, cwd, writable, visible }) => {
    const mounts = [
      ...system,
      ...hidden,
      ...visible.filter(isCovered).map((path) => bound(path, false)),
      ...writable.map((path) => bound(path, true)),
    ];
    return [
      options.bwrap ?? "bwrap",
      ...["--die-with-parent", "--new-session", "--cap-drop", "ALL", ...NAMESPACES],
      ...mountArguments(mounts, FILTER_DESCRIPTOR + 1).args,
      ...["--seccomp", String(FILTER_DESCRIPTOR), "--chdir", cwd, "--", ...argv],
    ];
  };
  return ok({ filter: filter.value, command });
}

function bound(path: string, write: boolean): Mount {
  return { kind: "bind", source: path, at: path, write };
}

function isTemporary(path: string): boolean {
  return TEMPORARY.some((above) => path !== above && isWithin(path, above)) && existsSync(path);
}

function confinementOf({ bwrap }: { readonly bwrap?: string }): Promise<Confinement> {
  const nothing = { agent: "", rg: "", pty: "", home: "", environment: {}, masked: [] };
  return localVendor({ ...nothing, ...(bwrap !== undefined && { bwrap }) }).confinement();
}
