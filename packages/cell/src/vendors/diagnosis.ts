import { existsSync } from "node:fs";
import { type Fault, fault } from "@dev/protocol";

/**
 * Reads what a sandbox said when it did not start, and finds the way to mend it. The words themselves
 * stay in the fault: they are the only certain thing in it.
 */
export function diagnose(what: string, words: string): Fault {
  const said = words.trim();
  const known = CAUSES.find((cause) => cause.sign.test(said));
  const message = said === "" ? `${what} did not start, and said nothing` : `${what}: ${said}`;
  return fault("unavailable", message, known?.subject ?? "", known?.mend ?? "");
}

/** A program that was to be started is not there. */
export function missingProgram(program: string): Fault {
  const known = PROGRAMS.find((one) => one.name.test(program));
  return fault(
    "unavailable",
    `${known?.what ?? program} is not installed`,
    program,
    known?.mend ?? `install ${program}`,
  );
}

/** The same, found out before anything is begun; null when it is there. */
export function lookFor(program: string, path: string): Fault | null {
  const places = program.includes("/")
    ? [program]
    : path.split(":").map((directory) => `${directory}/${program}`);
  return places.some((place) => existsSync(place)) ? null : missingProgram(program);
}

type Cause = { readonly sign: RegExp; readonly subject: string; readonly mend: string };

const UTIL_LINUX = "apt-get install util-linux, or your system's package of that name";
const BUBBLEWRAP = "apt-get install bubblewrap, or your system's package of that name";

const PROGRAMS = [
  { name: /bwrap[^/]*$/, what: "bubblewrap", mend: BUBBLEWRAP },
  {
    name: /runsc[^/]*$/,
    what: "gVisor",
    mend:
      "install gVisor's runsc, of 2024 or later: its install page has packages, and Go builds it " +
      "from the module gvisor.dev/gvisor; or name the program as `binary` under [gvisor]",
  },
  {
    name: /runc[^/]*$/,
    what: "runc",
    mend: "apt-get install runc, or your system's package of that name",
  },
  {
    name: /podman[^/]*$/,
    what: "podman",
    mend: "apt-get install podman, or your system's package of that name",
  },
  { name: /(^|\/)(unshare|setpriv|prlimit|mount)$/, what: "util-linux", mend: UTIL_LINUX },
] as const;

/** In order: an earlier one is more exact. */
const CAUSES: readonly Cause[] = [
  {
    sign: /containerManager\.StartRoot|\/dev\/kvm/,
    subject: "gVisor's platform",
    mend: 'name another under [gvisor]: platform = "systrap", or "ptrace"',
  },
  {
    sign: /image not known|manifest unknown|short-name|initializing source/,
    subject: "image",
    mend: "pull the image, or name another one under [container]",
  },
  {
    sign: /newuidmap|newgidmap|subuid|subgid/,
    subject: "/etc/subuid",
    mend: "apt-get install uidmap, and give this account a range in /etc/subuid and /etc/subgid",
  },
  {
    sign: /cgroup/,
    subject: "cgroups",
    mend: "mount cgroups with their memory and pids controllers, or do not run as root",
  },
  {
    sign: /(failed to execute|cannot execute|not found|exec\w*) .*bwrap|bwrap: (not found|No such)/i,
    subject: "bubblewrap",
    mend: BUBBLEWRAP,
  },
  {
    sign: /(unshare|setpriv|prlimit|mount): (not found|No such file)|execvp (setpriv|prlimit)/,
    subject: "util-linux",
    mend: UTIL_LINUX,
  },
  {
    sign: /Unknown option/,
    subject: "bubblewrap",
    mend: "bubblewrap 0.8 or later is needed",
  },
  {
    sign: /max_\S*_namespaces|ENOSPC|No space left on device/,
    subject: "/proc/sys/user/max_user_namespaces",
    mend: "allow user namespaces: sysctl user.max_user_namespaces=10000",
  },
  {
    sign: /uid map: (Permission denied|Operation not permitted)|RTM_NEWADDR/,
    subject: "AppArmor",
    mend:
      "on Ubuntu 24.04 and later, give bwrap an AppArmor profile that allows userns, " +
      "or: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
  },
  {
    sign: /[Nn]o permissions? to creat\w+ (a )?new namespace|kernel\.unprivileged_userns_clone/,
    subject: "user namespaces",
    mend:
      "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1; in a container, run it " +
      "with a seccomp profile that lets unshare and clone make them",
  },
  {
    sign: /Creating new namespace failed|unshare failed|Operation not permitted/,
    subject: "namespaces",
    mend: "let this account make namespaces; a container needs a seccomp profile that allows it",
  },
];
