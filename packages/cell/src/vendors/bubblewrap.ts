import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fail, ok, type Result } from "@dev/protocol";
import type { Vendor } from "../vendor.ts";
import { CELL_VARIABLE, childVendor, type Start } from "./child.ts";
import {
  agentCommand,
  giveTo,
  INSIDE,
  INSIDE_ID,
  INSIDE_OF_AGENT,
  type MachineOptions,
  type Own,
  outsideId,
  ownedBy,
  PATH,
  systemMounts,
  VARIABLES,
} from "./environment.ts";
import type { Launch } from "./launch.ts";
import type { Mount } from "./mount.ts";
import { ioFault } from "./record.ts";
import { DESCRIPTORS, limitCommand, ownLimits, sandboxArguments } from "./sandbox.ts";

/**
 * Cells with an environment of their own: namespaces, no network, a read-only system, a filter of
 * system calls, limits. The workspace, at `/workspace`, is a copy that was made for this cell: when we
 * are root it is given to the cell's own user, who is nobody outside.
 */
export function bubblewrapVendor(options: MachineOptions, signal: AbortSignal = NEVER): Vendor {
  return childVendor(
    {
      name: "bubblewrap",
      home: options.home,
      counts: true,
      egress: options.egress,
      prepare: (start) => prepare(options, start),
    },
    signal,
  );
}

const NEVER: AbortSignal = new AbortController().signal;

async function prepare(options: MachineOptions, start: Start): Promise<Result<Launch>> {
  const { id, spec } = start;
  const owned = await ownedBy(options, start);
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
  const inner = [...limitCommand(spec.limits, ownLimits()), ...(await agentCommand(options))];
  const [program = wrapped[0], ...rest] = [...drop.value, ...wrapped, ...inner];
  return ok({
    boundary: "cell",
    command: [program, ...rest],
    // All that the sandbox's own first process can tell of ours.
    environment: { PATH, [CELL_VARIABLE]: id },
    cwd: "/",
    wrapper: { kind: "bubblewrap", ...sandbox.value },
    inside: INSIDE_OF_AGENT,
  });
}

/** Where the staging below ends up, in a mount namespace that only the cell's chain is in. */
const STAGE = "/tmp";

/**
 * A cell's user may not walk through our directories (root's home, say), and binding by descriptor is
 * not in every bubblewrap. So root binds what the cell needs onto a directory that everybody can walk
 * through, in a mount namespace of its own, before it stops being root. `$1` is the table of all that is
 * mounted, so that one process does it; then comes the command to become.
 */
const STAGING = `set -e
mount --all --fstab "$1"
shift
exec "$@"`;

/**
 * The commands that take a root process to one that is nobody, before bubblewrap begins: in a user
 * namespace that root has made, uid 1000 is still root for every file outside.
 */
async function dropCommand(
  start: Start,
  owned: readonly Own[],
): Promise<Result<readonly string[]>> {
  const user = outsideId(start.id);
  const [staged, given] = await Promise.all([
    writeStage(join(start.directory.path, "stage"), owned),
    giveTo(user, start),
  ]);
  if (!staged.ok) return staged;
  if (!given.ok) return given;
  return ok([
    ...["unshare", "--mount", "--propagation", "private", "--"],
    ...["sh", "-c", STAGING, "sh", staged.value],
    ...["setpriv", "--reuid", String(user), "--regid", String(user), "--clear-groups"],
    ...["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"],
  ]);
}

/** Makes a place for each, and the table in the form of fstab(5) that fills it; answers with the table's path. */
async function writeStage(stage: string, owned: readonly Own[]): Promise<Result<string>> {
  const table = `${stage}.fstab`;
  try {
    await mkdir(stage, { recursive: true });
    await chmod(stage, 0o755);
    const lines = await Promise.all(
      owned.map(async ({ name, source }) => {
        const place = join(stage, name);
        const isDirectory = (await stat(source)).isDirectory();
        await (isDirectory ? mkdir(place, { recursive: true }) : writeFile(place, ""));
        return lineOf(source, place, "bind");
      }),
    );
    await writeFile(table, [...lines, lineOf(stage, STAGE, "rbind")].join(""));
    return ok(table);
  } catch (error) {
    return fail(ioFault(error, stage));
  }
}

function lineOf(source: string, at: string, how: "bind" | "rbind"): string {
  return `${escaped(source)} ${escaped(at)} none ${how} 0 0\n`;
}

/** What would end a field. */
function escaped(path: string): string {
  return path.replace(
    /[ \t\n\\#"']/g,
    (one) => `\\${one.charCodeAt(0).toString(8).padStart(3, "0")}`,
  );
}
