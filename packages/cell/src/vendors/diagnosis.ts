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

type Cause = { readonly sign: RegExp; readonly subject: string; readonly mend: string };

const UTIL_LINUX = "apt-get install util-linux, or your system's package of that name";
const BUBBLEWRAP = "apt-get install bubblewrap, or your system's package of that name";

const PROGRAMS = [
  { name: /bwrap[^/]*$/, what: "bubblewrap", mend: BUBBLEWRAP },
  { name: /(^|\/)(unshare|setpriv|prlimit|mount)$/, what: "util-linux", mend: UTIL_LINUX },
] as const;

/** In order: an earlier one is more exact. */
const CAUSES: readonly Cause[] = [
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
