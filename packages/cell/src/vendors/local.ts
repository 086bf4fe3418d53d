import { execFile } from "node:child_process";
import { lstat, realpath } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Fault, fail, fault, ok, type Result } from "@dev/protocol";
import type { Vendor } from "../vendor.ts";
import { CELL_VARIABLE, childVendor, type Start } from "./child.ts";
import { diagnose, missingProgram } from "./diagnosis.ts";
import type { MachineOptions } from "./environment.ts";
import type { Launch } from "./launch.ts";
import { isWithin, type Mount } from "./mount.ts";
import { codeOf } from "./record.ts";
import {
  DESCRIPTORS,
  DEVICES,
  limitCommand,
  NAMESPACES,
  ownLimits,
  procMounts,
  RUN,
  sandboxArguments,
} from "./sandbox.ts";

export type LocalOptions = MachineOptions & {
  /** The person's own; of these only the ones that a build needs are passed on. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Directories and files that no command may see, such as Dev's own settings and state. */
  readonly masked: readonly string[];
  /** `false`: nothing stands between a command and the machine, because the person said so. */
  readonly confine?: boolean;
};

/** What stands between the person's machine and a local cell's commands, and why it is no more. */
export type Confinement =
  | { readonly kind: "process" }
  | { readonly kind: "none"; readonly why: Fault };

export type LocalVendor = Vendor & {
  /** What a cell that is started now would have; found out by trying, whenever it is asked. */
  readonly confinement: () => Promise<Confinement>;
};

/**
 * Cells that work in the person's own directory, in place, under the same path. Where bubblewrap works
 * the rest of the machine is read-only, credentials are hidden, and there is no network (`process`).
 * Where it does not, a cell is an ordinary child process, and its link's boundary says `none`.
 */
export function localVendor(options: LocalOptions, signal: AbortSignal = NEVER): LocalVendor {
  const confinement = (): Promise<Confinement> => findConfinement(options);
  const vendor = childVendor(
    {
      name: "local",
      home: options.home,
      counts: true,
      egress: options.egress,
      prepare: async (start) => {
        const found = await confinement();
        if (found.kind === "process") return confined(options, start);
        // What was decided about commands was decided for a cell that confines them.
        const isWeaker = start.before === "process" && options.confine !== false;
        return isWeaker ? fail(weaker(found.why)) : plain(options, start);
      },
    },
    signal,
  );
  return { ...vendor, confinement };
}

function weaker({ message, mend }: Fault): Fault {
  const what = `the cell was confined, and cannot be now: ${message}`;
  return fault("unavailable", what, "", `${mend}; or set \`confine = false\` under [local]`);
}

const NEVER: AbortSignal = new AbortController().signal;
/** A sandbox that takes longer to run nothing does not work. */
const TRIAL_LIMIT_MS = 10_000;

async function findConfinement(options: LocalOptions): Promise<Confinement> {
  if (options.confine === false) {
    const why = fault("unsupported", "confinement was switched off", "", "leave `confine` out");
    return { kind: "none", why };
  }
  if (process.platform !== "linux") {
    const why = fault("unsupported", "bubblewrap runs on Linux only", process.platform);
    return { kind: "none", why };
  }
  const bwrap = options.bwrap ?? "bwrap";
  const root = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"];
  const trial = [...NAMESPACES, ...root, "--", "prlimit", "--core=0", "--", "true"];
  try {
    await run(bwrap, trial, { timeout: TRIAL_LIMIT_MS });
    return { kind: "process" };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { kind: "none", why: missingProgram(bwrap) };
    const words = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
    return { kind: "none", why: diagnose("bubblewrap", words) };
  }
}

const run = promisify(execFile);

/**
 * What the person's own git and Dev obey outside the cell is theirs to write: hooks, configuration, what
 * sub-agents are told. The rest of `.git` and of `.agents` stays writable, for commits and notes; each is
 * a mount of its own, so that it cannot be moved away and another put into its place. Repositories inside the workspace are not guarded.
 */
async function steering(workspace: string): Promise<readonly Mount[]> {
  const [git, settings] = [join(workspace, ".git"), join(workspace, ".dev")];
  const [config, hooks] = [join(git, "config"), join(git, "hooks")];
  const mounts: Mount[] = [];
  if (await isOwn(settings)) mounts.push(bound(settings, false));
  const shared = join(workspace, ".agents");
  const agents = join(shared, "agents");
  if ((await isOwn(shared)) && (await isOwn(agents))) {
    mounts.push(bound(shared, true), bound(agents, false));
  }
  // A link is left alone: what it leads to is outside, and read-only, or inside, and not git's own.
  if (!(await isOwn(git)) || !(await lstat(git)).isDirectory()) return mounts;
  mounts.push(bound(git, true));
  if (await isOwn(config)) mounts.push(bound(config, false));
  mounts.push((await isOwn(hooks)) ? bound(hooks, false) : { kind: "hidden", at: hooks });
  return mounts;
}

function bound(path: string, write: boolean): Mount {
  return { kind: "bind", source: path, at: path, write };
}

/** Whether there is something of this name, and no link to something else. */
async function isOwn(path: string): Promise<boolean> {
  try {
    return !(await lstat(path)).isSymbolicLink();
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return false;
    throw error;
  }
}

async function confined(options: LocalOptions, start: Start): Promise<Result<Launch>> {
  const { directory, id, spec } = start;
  const programs = await programsOf(options);
  const environment: Readonly<Record<string, string>> = {
    ...passedOn(options.environment),
    ...CACHES,
    [CELL_VARIABLE]: id,
  };
  const masked = await present([...credentialsOf(options.environment.HOME), ...options.masked]);
  const hidden = [...masked.map(({ path }) => path), options.home, ...COVERED];
  const mounts: readonly Mount[] = [
    { kind: "bind", source: "/", at: "/", write: false },
    ...procMounts(),
    ...DEVICES,
    RUN,
    { kind: "bind", source: directory.scratch, at: "/tmp", write: true },
    { kind: "bind", source: directory.scratch, at: "/var/tmp", write: true },
    ...masked.map(
      ({ path, isDirectory }): Mount =>
        isDirectory ? { kind: "hidden", at: path } : { kind: "text", at: path, text: "" },
    ),
    { kind: "hidden", at: await realpath(options.home) },
    { kind: "bind", source: directory.disk, at: directory.disk, write: true },
    // A program in the workspace stays the person's to build anew.
    ...Object.values(programs)
      .filter((path) =>
        hidden.some((above) => {
          // The workspace, which is bound last, brings along what lies in it.
          const isBrought = isWithin(spec.workspace, above) && isWithin(path, spec.workspace);
          return isWithin(path, above) && !isBrought;
        }),
      )
      .map((path): Mount => ({ kind: "bind", source: path, at: path, write: false })),
    // The last word: working in a directory that would be hidden is what was asked for.
    { kind: "bind", source: spec.workspace, at: spec.workspace, write: true },
    ...(await steering(spec.workspace)),
  ];
  const sandbox = sandboxArguments({
    mounts,
    id: undefined,
    hostname: undefined,
    cwd: spec.workspace,
    environment,
    ptrace: options.ptrace ?? false,
  });
  if (!sandbox.ok) return sandbox;
  return ok({
    boundary: "process",
    command: [
      options.bwrap ?? "bwrap",
      ...["--args", String(DESCRIPTORS.args), "--"],
      ...limitCommand(spec.limits, ownLimits()),
      ...[programs.node, programs.agent],
    ],
    environment: { PATH: environment.PATH ?? DEFAULT_PATH, [CELL_VARIABLE]: id },
    cwd: "/",
    wrapper: { kind: "bubblewrap", ...sandbox.value },
    inside: {
      workspace: spec.workspace,
      spool: directory.spool,
      rg: programs.rg,
      pty: programs.pty,
      variables: environment,
    },
  });
}

async function plain(options: LocalOptions, start: Start): Promise<Result<Launch>> {
  const { directory, id, spec } = start;
  const programs = await programsOf(options);
  const environment = { ...passedOn(options.environment), [CELL_VARIABLE]: id };
  return ok({
    boundary: "none",
    command: [programs.node, programs.agent],
    environment,
    cwd: spec.workspace,
    wrapper: { kind: "none" },
    inside: {
      workspace: spec.workspace,
      spool: directory.spool,
      rg: programs.rg,
      pty: programs.pty,
      variables: environment,
    },
  });
}

type Programs = Readonly<Record<"node" | "agent" | "rg" | "pty", string>>;

async function programsOf(options: LocalOptions): Promise<Programs> {
  const [node, agent, rg, pty] = await Promise.all([
    realpath(options.node ?? process.execPath),
    realpath(options.agent),
    realpath(options.rg),
    realpath(options.pty),
  ]);
  return { node, agent, rg, pty };
}

/** Directories of the machine's that a cell has its own of. */
const COVERED: readonly string[] = ["/tmp", "/var/tmp", "/run", "/dev", "/proc"];

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * What a command is told of the person's environment. A list of what is known to be harmless: a
 * variable that nobody thought of may be a key.
 */
const PASSED_ON =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLORTERM|EDITOR|JAVA_HOME|GOROOT|GOPATH|GOBIN|GOFLAGS|CARGO_HOME|RUSTUP_HOME|NVM_DIR|NVM_BIN|VOLTA_HOME|PNPM_HOME|BUN_INSTALL|PYENV_ROOT|VIRTUAL_ENV|CONDA_PREFIX|PYTHONPATH|RBENV_ROOT|GEM_HOME|MANPATH|PKG_CONFIG_PATH|LD_LIBRARY_PATH|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|MAKEFLAGS|NODE_ENV)$/;

/** Of the person's environment, what a command may be told. */
export function passedOn(
  environment: LocalOptions["environment"],
): Readonly<Record<string, string>> {
  const passed: Record<string, string> = { PATH: DEFAULT_PATH, LANG: "C.UTF-8" };
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && PASSED_ON.test(name)) passed[name] = value;
  }
  return passed;
}

/** The person's home is read-only, so what tools keep for speed goes where it is not. */
const CACHES: Readonly<Record<string, string>> = {
  TMPDIR: "/tmp",
  XDG_CACHE_HOME: "/tmp/cache",
  XDG_STATE_HOME: "/tmp/state",
  GOCACHE: "/tmp/cache/go-build",
  npm_config_cache: "/tmp/cache/npm",
  PIP_CACHE_DIR: "/tmp/cache/pip",
  PYTHONPYCACHEPREFIX: "/tmp/cache/python",
};

/** Below the person's home, where programs are known to keep what lets them act as the person. */
const CREDENTIALS: readonly string[] = [
  ".ssh",
  ".aws",
  ".azure",
  ".gnupg",
  ".kube",
  ".docker",
  ".podman",
  ".config/containers/auth.json",
  ".config/gcloud",
  ".config/gh",
  ".config/glab-cli",
  ".config/hub",
  ".config/git/credentials",
  ".config/op",
  ".config/rclone",
  ".config/sops",
  ".config/doctl",
  ".config/heroku",
  ".config/google-chrome",
  ".config/chromium",
  ".config/BraveSoftware",
  ".config/microsoft-edge",
  ".mozilla",
  ".thunderbird",
  ".password-store",
  ".local/share/keyrings",
  ".local/share/kwalletd",
  ".env",
  ".netrc",
  ".git-credentials",
  // A registry's token is an ordinary line of it, and there is no network that it would be for.
  ".npmrc",
  ".yarnrc.yml",
  ".pypirc",
  ".gem/credentials",
  ".cargo/credentials",
  ".cargo/credentials.toml",
  ".m2/settings.xml",
  ".gradle/gradle.properties",
  ".terraform.d",
  ".terraformrc",
  ".vault-token",
  ".pgpass",
  ".my.cnf",
  ".boto",
  ".s3cfg",
  // Commands that had a password in them.
  ".bash_history",
  ".zsh_history",
  ".python_history",
  ".node_repl_history",
  ".psql_history",
];

/** To a person these are closed already; to root they are not, in a sandbox either. */
const MACHINE_SECRETS: readonly string[] = [
  "/etc/shadow",
  "/etc/shadow-",
  "/etc/gshadow",
  "/etc/gshadow-",
  "/etc/sudoers",
  "/etc/ssh",
  "/etc/ssl/private",
  "/root/.ssh",
  "/var/run/secrets",
];

/** Where programs keep what lets them act as the person. */
export function credentialsOf(home: string | undefined): readonly string[] {
  const own = home === undefined ? [] : CREDENTIALS.map((name) => join(home, name));
  return [...own, ...MACHINE_SECRETS];
}

/** Those that are there, under their real paths: a mount does not go through a link. */
export async function present(
  paths: readonly string[],
): Promise<readonly { readonly path: string; readonly isDirectory: boolean }[]> {
  const found = await Promise.all(
    paths.map(async (path) => {
      try {
        const real = await realpath(path);
        return [{ path: real, isDirectory: (await lstat(real)).isDirectory() }];
      } catch {
        // It is not there, or closed to us, and so to the cell as well.
        return [];
      }
    }),
  );
  return found.flat();
}
