import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  closeSync,
  openSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type ListenOptions, type Server, type Socket } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import type { CellId } from "@dev/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type SeccompArch, syscallNumber } from "../src/seccomp.ts";
import type { CellSpec, Link } from "../src/vendor.ts";
import { directoryOf } from "../src/vendors/record.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import {
  agentOf,
  atEnd,
  type Driver,
  driverApart,
  isRoot,
  linkOf,
  newId,
  optionsIn,
  processesOf,
  ran,
  specIn,
  temporary,
} from "./machine.ts";
import { RACE } from "./race.ts";

/** A kind of cell to break out of. */
export type Captive = {
  readonly title: string;
  readonly vendor: string;
  readonly options?: Partial<VendorOptions>;
  readonly uid?: number;
  /** It refuses in its own words, and has none of the machine's kernel to reach. */
  readonly kernel?: "own";
  readonly skip: string | undefined;
};

/** Inside a cell, with everything outside that a probe looks for. */
type Inside = {
  readonly link: Link;
  readonly id: CellId;
  readonly kernel: "own" | "shared";
  readonly home: string;
  readonly spec: CellSpec;
  readonly driver: Driver;
  readonly outside: Outside;
};

/** What is on the machine, is found from outside, and must not be found from inside. */
type Outside = {
  readonly canary: string;
  /** Files whose text is the canary. */
  readonly files: readonly string[];
  /** A process with the canary in its environment. */
  readonly victim: ChildProcess;
  readonly tcpPort: number;
  readonly socketPath: string;
  readonly abstractName: string;
};

export type Probe = readonly [sentence: string, tries: (inside: Inside) => Promise<void>];

/** Tries every probe from inside one cell. */
export function escapes(captive: Captive, probes: readonly Probe[]): void {
  const base = temporary(captive.uid);
  const options = optionsIn(base, captive.options);
  let inside: Inside | undefined;
  beforeAll(async () => {
    if (captive.skip === undefined) inside = await enter(captive, base, options);
  });
  // Before the driver ends: what a runtime keeps of a cell only the vendor has it forget.
  afterAll(async () => {
    await inside?.driver.vendor.delete(inside.id);
  });
  for (const [sentence, tries] of probes) {
    test(`${captive.title}: ${sentence}`, async (context) => {
      context.skip(captive.skip !== undefined, `${captive.skip}`);
      if (inside === undefined) throw new Error("the cell did not start");
      await tries(inside);
    });
  }
}

/** Where the driver's leaked descriptor is: past those that Node finds and closes by itself. */
const LEAKED = 42;

async function enter(captive: Captive, base: string, options: VendorOptions): Promise<Inside> {
  const outside = await outsideOf(base);
  const from = openSync(outside.files[0] ?? "", "r");
  const driver = driverApart(captive.vendor, options, captive.uid, {
    environment: { DEV_CANARY: outside.canary },
    leak: { from, to: LEAKED },
  });
  closeSync(from);
  const id = newId();
  const spec = specIn(base, {}, captive.uid);
  const link = await linkOf((progress) => driver.vendor.create(id, spec, progress));
  return {
    link,
    id,
    kernel: captive.kernel ?? "shared",
    home: join(options.home, captive.vendor),
    spec,
    driver,
    outside,
  };
}

async function outsideOf(base: string): Promise<Outside> {
  const canary = `canary-${newId()}`;
  const files = [base, homedir(), tmpdir()].map((directory) => join(directory, `.${canary}`));
  for (const file of files) writeFileSync(file, canary);
  const victim = spawn("sleep", ["600"], { env: { PATH: process.env.PATH, DEV_CANARY: canary } });
  const socketPath = join(base, "outside.sock");
  const abstractName = `dev-outside-${newId()}`;
  const servers = await Promise.all([
    listening({ host: "127.0.0.1", port: 0 }),
    listening({ path: socketPath }),
    listening({ path: `\0${abstractName}` }),
  ]);
  chmodSync(socketPath, 0o777);
  atEnd(() => {
    victim.kill("SIGKILL");
    for (const server of servers) server.close();
    for (const file of files) rmSync(file, { force: true });
  });
  const address = servers[0]?.address();
  if (address === null || typeof address !== "object") throw new Error("no port");
  return { canary, files, victim, tcpPort: address.port, socketPath, abstractName };
}

function listening(where: ListenOptions): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer((socket: Socket) => socket.destroy());
    server.listen(where, () => resolve(server));
  });
}

/** Runs a program outside, with the same words as in the cell. */
export function outsideRan(argv: readonly string[]): string {
  const [program = "", ...rest] = argv;
  try {
    return execFileSync(program, rest, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 10_000,
      killSignal: "SIGKILL",
    });
  } catch (error) {
    return error instanceof Error && "stdout" in error ? String(error.stdout) : "";
  }
}

/** What a sandbox without our care would do: namespaces with every capability in them. */
function carelessRan(argv: readonly string[]): string {
  const careless = ["--unshare-all", "--uid", "0", "--cap-add", "ALL", "--dev-bind", "/", "/"];
  return outsideRan(["bwrap", ...careless, "--", ...argv]);
}

const CALL = [
  "my ($number, @rest) = map { /^-?\\d+$/ ? 0 + $_ : $_ } @ARGV;",
  "my $answer = syscall($number, @rest);",
  'print $answer == -1 ? "errno " . ($! + 0) : "done"',
].join(" ");

/** One system call: the words for a Perl that makes it and prints what came of it. */
export function call(name: string, ...args: readonly (number | string)[]): readonly string[] {
  const number = syscallNumber(name, process.arch as SeccompArch);
  if (number === undefined) throw new Error(`${name} is no call of ${process.arch}`);
  return ["perl", "-e", CALL, String(number), ...args.map(String)];
}

const EPERM = "errno 1";
const ENOSYS = "errno 38";
const EAFNOSUPPORT = "errno 97";
const CLONE_NEWUSER = 0x10000000;
const SIGCHLD = 17;
/** Unlike PTRACE_ATTACH it does not stop what it holds, which would hang the control. */
const PTRACE_SEIZE = 0x4206;
const AT_FDCWD = -100;

type Refused = {
  readonly what: string;
  readonly argv: readonly string[];
  readonly answer: string;
  /** Where the same call is answered otherwise; `root` is outside, where only root has an answer. */
  readonly control: "careless" | "root";
};

const REFUSED: readonly Refused[] = [
  refused("mount", call("mount", "x", "/tmp", "tmpfs", 0, 0), "careless"),
  refused("remount", call("mount", "x", "/tmp", "x", 0x1020, 0), "careless"),
  refused("unmount", call("umount2", "/proc/sys", 2), "careless"),
  refused("open a file system", call("fsopen", "tmpfs", 0), "careless"),
  refused("copy a mount", call("open_tree", AT_FDCWD, "/usr", 1), "careless"),
  refused("change its root", call("chroot", "/tmp"), "careless"),
  refused("enter a namespace", call("setns", 0, 0), "careless"),
  refused("make a user namespace", call("unshare", CLONE_NEWUSER), "careless"),
  refused("fork into a user namespace", call("clone", CLONE_NEWUSER + SIGCHLD, 0), "careless"),
  refused("trace process 1", call("ptrace", PTRACE_SEIZE, 1, 0, 0), "careless"),
  refused("read another's memory", call("process_vm_readv", 1, 0, 0, 0, 0, 0), "careless"),
  refused("take another's descriptor", call("pidfd_getfd", -1, 0, 0), "careless"),
  refused("read the kernel's keyring", call("keyctl", 0, -3, 1), "careless"),
  refused("add a key", call("add_key", "user", "dev", "x", 1, -3), "careless"),
  refused("load a BPF program", call("bpf", 0, 0, 0), "root"),
  refused("count events", call("perf_event_open", 0, 0, -1, -1, 0), "careless"),
  refused("handle page faults", call("userfaultfd", 1), "careless"),
  refused("open by handle", call("open_by_handle_at", AT_FDCWD, "xxxxxxxxxxxx", 0), "root"),
  refused("type into a terminal", call("ioctl", 0, 0x5412, "x"), "careless"),
  refused("have an io_uring", call("io_uring_setup", 1, 0), "careless", ENOSYS),
  refused("clone by structure", call("clone3", 0, 0), "careless", ENOSYS),
  refused("make a packet socket", call("socket", 17, 3, 0), "careless", EAFNOSUPPORT),
];

function refused(
  what: string,
  argv: readonly string[],
  control: Refused["control"],
  answer: string = EPERM,
): Refused {
  return { what, argv, answer, control };
}

const CALLS: readonly Probe[] = REFUSED.map(({ what, argv, answer, control }) => [
  `a command cannot ${what}`,
  async ({ link, kernel }) => {
    const { stdout } = await ran(link, ...argv);
    // A kernel of its own refuses in its own words, and is not the machine's to be asked.
    if (kernel === "own") expect(stdout).toMatch(/^errno (1|22|38|97)$/);
    else expect(stdout).toBe(answer);
    if (control === "root" && !isRoot) return;
    const seen = control === "careless" ? carelessRan(argv) : outsideRan(argv);
    expect(seen).toMatch(/^(errno \d+|done)+$/);
    expect(seen).not.toBe(answer);
  },
]);

/** Whether this kernel has sockets to a virtual machine's host at all. */
const hasVsock: boolean = readFileSync("/proc/net/protocols", "utf8").includes("AF_VSOCK");

const CONNECT = `const s = require("net").connect(JSON.parse(process.argv[1]));
s.on("connect", () => { process.stdout.write("connected"); process.exit() });
s.on("error", (e) => { process.stdout.write(e.code); process.exit() });`;

function connects(where: ListenOptions): readonly string[] {
  return ["node", "-e", CONNECT, JSON.stringify(where)];
}

async function expectUnreachable(link: Link, where: ListenOptions): Promise<void> {
  expect(outsideRan(connects(where))).toBe("connected");
  expect((await ran(link, ...connects(where))).stdout).toMatch(/^(ECONNREFUSED|ENOENT|EACCES)$/);
}

/** What holds for every cell that stands apart from the machine. */
export const PROBES: readonly Probe[] = [
  ...CALLS,
  RACE,
  [
    "a command cannot make a socket to the machine's hypervisor",
    async ({ link }) => {
      const argv = call("socket", 40, 1, 0);
      expect((await ran(link, ...argv)).stdout).toBe(EAFNOSUPPORT);
      if (hasVsock) expect(outsideRan(argv)).toBe("done");
    },
  ],
  [
    "a command cannot write in the system, and can in its workspace and in /tmp",
    async ({ link, spec }) => {
      const tries =
        "for d in /usr /usr/bin /etc / /proc/sys/kernel /sys . /tmp; do (: > $d/.probe) 2>/dev/null && echo $d; done";
      expect((await ran(link, "sh", "-c", tries)).stdout).toBe(".\n/tmp\n");
      expect(readFileSync(join(spec.workspace, ".probe"), "utf8")).toBe("");
    },
  ],
  [
    "a command cannot read the machine's passwords",
    async ({ link }) => {
      const { stdout } = await ran(link, "sh", "-c", "cat /etc/shadow /etc/gshadow");
      expect(stdout).toBe("");
      if (isRoot) expect(outsideRan(["cat", "/etc/shadow"])).toContain("root:");
    },
  ],
  [
    "a command cannot set where the kernel sends crashes",
    async ({ link }) => {
      const opens = (path: string): readonly string[] => ["sh", "-c", `: >> ${path} && echo open`];
      const path = "/proc/sys/kernel/core_pattern";
      expect((await ran(link, ...opens("/proc/self/comm"))).stdout).toBe("open\n");
      expect((await ran(link, ...opens(path))).stdout).toBe("");
      if (isRoot) expect(outsideRan(opens(path))).toBe("open\n");
    },
  ],
  [
    "a command sees no process of the machine, and no variable of one",
    async ({ link, outside }) => {
      const looks = ["sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null"];
      const { stdout } = await ran(link, ...looks);
      expect(stdout).toContain("DEV_CELL=");
      expect(stdout).not.toContain(outside.canary);
      expect(readFileSync(`/proc/${outside.victim.pid}/environ`, "latin1")).toContain(
        outside.canary,
      );
    },
  ],
  [
    "a command cannot kill a process of the machine",
    async ({ link, outside }) => {
      await ran(link, "sh", "-c", `kill -9 ${outside.victim.pid}`);
      expect(outside.victim.exitCode ?? outside.victim.signalCode).toBe(null);
      // The control: it is there to be killed.
      expect(outside.victim.kill(0)).toBe(true);
    },
  ],
  [
    "a command cannot reach a server of the machine over TCP",
    ({ link, outside }) => expectUnreachable(link, { host: "127.0.0.1", port: outside.tcpPort }),
  ],
  [
    "a command cannot reach an abstract socket of the machine",
    ({ link, outside }) => expectUnreachable(link, { path: `\0${outside.abstractName}` }),
  ],
  [
    "a command has no network but its own loopback",
    async ({ link }) => {
      const { stdout } = await ran(link, "sh", "-c", "tail -n +3 /proc/net/dev");
      expect(stdout.trim()).toMatch(/^lo:[\s\d]+$/);
    },
  ],
  [
    "a command cannot make a device, and can make a pipe",
    async ({ link }) => {
      const makes = "mknod /tmp/pipe p && echo pipe; mknod /tmp/disk b 8 0 && echo disk; true";
      expect((await ran(link, "sh", "-c", makes)).stdout).toBe("pipe\n");
    },
  ],
  [
    "a command finds no device but sources, sinks and terminals",
    async ({ link, kernel }) => {
      const { stdout } = await ran(
        link,
        "sh",
        "-c",
        "for f in /dev/* /dev/pts/*; do [ ! -L $f ] && [ -b $f -o -c $f ] && echo $f; done",
      );
      const allowed = ["null", "zero", "full", "random", "urandom", "tty", "pts/ptmx"];
      // A file system that a command would serve to itself.
      if (kernel === "own") allowed.push("fuse");
      expect(stdout.trim().split("\n").sort()).toEqual(
        allowed.map((name) => `/dev/${name}`).sort(),
      );
    },
  ],
  [
    "a command has three descriptors, and none of the driver's",
    async ({ link, driver, outside }) => {
      expect(readlinkSync(`/proc/${driver.pid}/fd/${LEAKED}`)).toBe(outside.files[0]);
      const { stdout } = await ran(link, "ls", "-l", "/proc/self/fd");
      const open = [...stdout.matchAll(/ (\d+) -> (.*)$/gm)].map((match) => match.slice(1));
      expect(open.map(([number]) => number)).toEqual(expect.arrayContaining(["0", "1", "2"]));
      // One that would have leaked is /dev/null, and `ls` has the directory itself.
      const others = open
        .filter(([number]) => Number(number) > 2)
        .filter(([, to = ""]) => to !== "/dev/null" && !/^\/proc\/\d+\/fd$/.test(to));
      expect(others).toEqual([]);
    },
  ],
  [
    "the agent itself holds its link, its log, its spool and nothing of the driver's",
    async ({ home, id, kernel, outside }) => {
      const { log, disk } = directoryOf(home, id);
      const opened = (pid: number): string =>
        execFileSync("sh", ["-c", `readlink /proc/${pid}/fd/* || true`], { encoding: "utf8" });
      if (kernel === "own") {
        // The agent has no descriptor of the machine's: those of its kernel are looked at.
        const all = processesOf(id).map(opened).join("");
        expect(all).toContain("socket:");
        for (const path of outside.files) expect(all).not.toContain(path);
        return;
      }
      const links = opened(agentOf(id));
      const own = /^(\/dev\/null|(socket|pipe):\[\d+\]|anon_inode:\[?\w+\]?|\/var\/cell\/.*)$/;
      const foreign = links
        .trim()
        .split("\n")
        .filter((to) => !own.test(to) && to !== log && !to.startsWith(disk));
      expect(foreign).toEqual([]);
    },
  ],
  [
    "no command can gain privileges",
    async ({ link, kernel }) => {
      const { stdout } = await ran(link, "cat", "/proc/self/status");
      expect(stdout).toMatch(/^Seccomp:\s+2$/m);
      // gVisor tells neither of these two.
      if (kernel === "shared") expect(stdout).toMatch(/^NoNewPrivs:\s+1$/m);
      const sets = ["CapInh", "CapPrm", "CapEff", "CapBnd"];
      for (const set of kernel === "own" ? sets : [...sets, "CapAmb"]) {
        expect(stdout).toMatch(new RegExp(`^${set}:\\s+0+$`, "m"));
      }
    },
  ],
  [
    "what the kernel tells of the whole machine is empty or closed",
    async ({ link, kernel }) => {
      const reads = "cat /proc/kcore /proc/keys /proc/timer_list /proc/sysrq-trigger /proc/cmdline";
      const { stdout } = await ran(link, "sh", "-c", `${reads} 2>/dev/null | head -c 100`);
      // That is gVisor's, and the same on every machine.
      const own = kernel === "own" ? "BOOT_IMAGE=/vmlinuz-4.4.0-gvisor quiet\n" : "";
      expect(stdout).toBe(own);
    },
  ],
];
