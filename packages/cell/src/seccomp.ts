import { type Fault, fail, fault, never, ok, type Result } from "@dev/protocol";

/** What a filter is for. With `ptrace`, debuggers work in the cell, and can stop its agent. */
export type SeccompPolicy = { readonly arch: string; readonly ptrace: boolean };

export type SeccompArch = "x64" | "arm64";

/**
 * Makes a seccomp filter (see seccomp(2)) as classic BPF, ready for the kernel: everything is allowed
 * but the kernel's surfaces that no build or test needs and that namespaces do not cover. `arch` is
 * Node's name for the processor; one without a table is an `unsupported` fault.
 */
export function compileSeccomp(policy: SeccompPolicy): Result<Uint8Array> {
  const { arch } = policy;
  if (arch !== "x64" && arch !== "arm64") return fail(noTable(arch));
  return ok(assemble(program(arch, policy.ptrace)));
}

/** The same filter in the words of the OCI runtime specification (`linux.seccomp`). */
export type SeccompProfile = {
  readonly defaultAction: "SCMP_ACT_ALLOW";
  readonly architectures: readonly string[];
  readonly syscalls: readonly SeccompRule[];
};

type SeccompRule = {
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ERRNO";
  readonly errnoRet: number;
  readonly args?: readonly Comparison[];
};

type Comparison = {
  readonly index: number;
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_GE" | "SCMP_CMP_MASKED_EQ";
  readonly value: number;
  readonly valueTwo?: number;
};

/** What a container runtime makes that filter from. Fault: `unsupported`, as above. */
export function seccompProfile(policy: SeccompPolicy): Result<SeccompProfile> {
  const { arch, ptrace } = policy;
  if (arch !== "x64" && arch !== "arm64") return fail(noTable(arch));
  const named = (verdict: Label): readonly string[] =>
    Object.keys(SYSCALLS)
      .filter((name) => syscallNumber(name, arch) !== undefined && verdictOn(name) === verdict)
      .filter((name) => !(ptrace && DEBUGGING.includes(name)));
  return ok({
    defaultAction: "SCMP_ACT_ALLOW",
    architectures: [arch === "x64" ? "SCMP_ARCH_X86_64" : "SCMP_ARCH_AARCH64"],
    syscalls: [
      refusal(named("eperm"), EPERM),
      refusal(named("enosys"), ENOSYS),
      // A rule's comparisons must all hold, so that any one bit is a rule of its own.
      ...bitsOf(NAMESPACE_FLAGS).map((bit) => refusal(["clone"], EPERM, masked(0, bit, bit))),
      ...[TIOCSTI, TIOCLINUX].map((request) =>
        refusal(["ioctl"], EPERM, masked(1, LOW_HALF, request)),
      ),
      ...refusedFamilies().map((comparison) => refusal(["socket"], EAFNOSUPPORT, comparison)),
    ],
  });
}

function refusal(
  names: readonly string[],
  errnoRet: number,
  ...args: readonly Comparison[]
): SeccompRule {
  const rule = { names, action: "SCMP_ACT_ERRNO", errnoRet } as const;
  return args.length === 0 ? rule : { ...rule, args };
}

/** The kernel looks at no more of an int than this. */
const LOW_HALF = 0xffffffff;
/** Past the last family that there is. */
const FAMILY_END = 64;

function masked(index: number, mask: number, value: number): Comparison {
  return { index, op: "SCMP_CMP_MASKED_EQ", value: mask, valueTwo: value };
}

function refusedFamilies(): readonly Comparison[] {
  const known = Array.from({ length: FAMILY_END }, (_, family) => family);
  return [
    ...known
      .filter((family) => !SOCKET_FAMILIES.includes(family))
      .map((value): Comparison => ({ index: 0, op: "SCMP_CMP_EQ", value })),
    { index: 0, op: "SCMP_CMP_GE", value: FAMILY_END },
  ];
}

function bitsOf(flags: number): readonly number[] {
  return Array.from({ length: 32 }, (_, bit) => 2 ** bit).filter((bit) => (flags & bit) !== 0);
}

function noTable(arch: string): Fault {
  return fault("unsupported", "no system call table for this processor", arch);
}

/** The number of a call that the filter knows of; undefined for others, and where it is no call. */
export function syscallNumber(name: string, arch: SeccompArch): number | undefined {
  return SYSCALLS[name]?.[arch === "x64" ? 0 : 1];
}

/** `[x86_64, arm64]`, from Linux 6.1's asm/unistd_64.h and asm-generic/unistd.h. */
const SYSCALLS: Readonly<Record<string, readonly [number, number | undefined]>> = {
  acct: [163, 89],
  add_key: [248, 217],
  adjtimex: [159, 171],
  bpf: [321, 280],
  chroot: [161, 51],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  clone: [56, 220],
  clone3: [435, 435],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioctl: [16, 29],
  ioperm: [173, undefined],
  iopl: [172, undefined],
  kcmp: [312, 272],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  lookup_dcookie: [212, 18],
  mbind: [237, 235],
  migrate_pages: [256, 238],
  modify_ldt: [154, undefined],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  move_pages: [279, 239],
  name_to_handle_at: [303, 264],
  nfsservctl: [180, 42],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pidfd_getfd: [438, 438],
  pivot_root: [155, 41],
  process_madvise: [440, 440],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  ptrace: [101, 117],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  set_mempolicy: [238, 237],
  set_mempolicy_home_node: [450, 450],
  setns: [308, 268],
  settimeofday: [164, 170],
  socket: [41, 198],
  swapoff: [168, 225],
  swapon: [167, 224],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  userfaultfd: [323, 282],
  vhangup: [153, 58],
};

const DEBUGGING: readonly string[] = ["ptrace", "process_vm_readv", "process_vm_writev"];
/** Programs ask for these and have another way, which "there is no such call" sends them to. */
const ABSENT: readonly string[] = [
  "clone3",
  "io_uring_enter",
  "io_uring_register",
  "io_uring_setup",
];

const AUDIT_ARCH: Readonly<Record<SeccompArch, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };
const X32_BIT = 0x40000000;
/** CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = 0x7e020080;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: the rest, AF_VSOCK among them, escape a net namespace. */
const SOCKET_FAMILIES: readonly number[] = [1, 2, 10, 16];

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** Offsets into struct seccomp_data; both processors are little-endian, so the low half is first. */
const NUMBER = 0;
const ARCH = 4;
const ARGUMENT_0 = 16;
const ARGUMENT_1 = 24;

type Label = "next" | "allow" | "kill" | "eperm" | "enosys" | "family" | Judged;
type Judged = "clone" | "ioctl" | "socket";

type Instruction =
  | { readonly kind: "label"; readonly label: Label }
  | { readonly kind: "load"; readonly offset: number }
  | { readonly kind: "return"; readonly value: number }
  | {
      readonly kind: "jump";
      readonly test: Test;
      readonly value: number;
      readonly then: Label;
      readonly otherwise: Label;
    };

type Test = "equal" | "atLeast" | "anyBit";

function program(arch: SeccompArch, ptrace: boolean): readonly Instruction[] {
  const head: Instruction[] = [
    load(ARCH),
    // A 32-bit call on a 64-bit kernel has other numbers, so this table would not see it.
    jump("equal", AUDIT_ARCH[arch], "next", "kill"),
    load(NUMBER),
  ];
  if (arch === "x64") head.push(jump("atLeast", X32_BIT, "enosys", "next"));
  for (const name of Object.keys(SYSCALLS)) {
    if (ptrace && DEBUGGING.includes(name)) continue;
    const number = syscallNumber(name, arch);
    if (number !== undefined) head.push(jump("equal", number, verdictOn(name), "next"));
  }
  return [...head, returns(ALLOW), ...JUDGEMENTS, ...VERDICTS];
}

function verdictOn(name: string): Label {
  if (name === "clone" || name === "ioctl" || name === "socket") return name;
  return ABSENT.includes(name) ? "enosys" : "eperm";
}

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const ERRNO = 0x00050000;

const JUDGEMENTS: readonly Instruction[] = [
  at("clone"),
  load(ARGUMENT_0),
  jump("anyBit", NAMESPACE_FLAGS, "eperm", "allow"),
  at("ioctl"),
  load(ARGUMENT_1),
  jump("equal", TIOCSTI, "eperm", "next"),
  jump("equal", TIOCLINUX, "eperm", "allow"),
  at("socket"),
  load(ARGUMENT_0),
  ...SOCKET_FAMILIES.map((family) => jump("equal", family, "allow", "next")),
  returns(ERRNO | EAFNOSUPPORT),
];

const VERDICTS: readonly Instruction[] = [
  at("allow"),
  returns(ALLOW),
  at("kill"),
  returns(KILL_PROCESS),
  at("eperm"),
  returns(ERRNO | EPERM),
  at("enosys"),
  returns(ERRNO | ENOSYS),
];

function at(label: Label): Instruction {
  return { kind: "label", label };
}

function load(offset: number): Instruction {
  return { kind: "load", offset };
}

function returns(value: number): Instruction {
  return { kind: "return", value };
}

function jump(test: Test, value: number, then: Label, otherwise: Label): Instruction {
  return { kind: "jump", test, value, then, otherwise };
}

/** BPF_LD|BPF_W|BPF_ABS, BPF_RET|BPF_K, and BPF_JMP|BPF_K with JEQ, JGE, JSET. */
const LOAD_WORD = 0x20;
const RETURN = 0x06;
const JUMP: Readonly<Record<Test, number>> = { equal: 0x15, atLeast: 0x35, anyBit: 0x45 };
/** struct sock_filter: code, both jump distances, an operand. */
const INSTRUCTION_BYTES = 8;
/** A jump's distance is one byte, and only forward. */
const JUMP_LIMIT = 255;

function assemble(instructions: readonly Instruction[]): Uint8Array {
  const places = new Map<Label, number>();
  let length = 0;
  for (const one of instructions) {
    if (one.kind === "label") places.set(one.label, length);
    else length += 1;
  }
  const bytes = new Uint8Array(length * INSTRUCTION_BYTES);
  const view = new DataView(bytes.buffer);
  let index = 0;
  for (const one of instructions) {
    if (one.kind === "label") continue;
    const offset = index * INSTRUCTION_BYTES;
    const distance = (label: Label): number => distanceTo(label, index, places);
    switch (one.kind) {
      case "load":
        view.setUint16(offset, LOAD_WORD, true);
        view.setUint32(offset + 4, one.offset, true);
        break;
      case "return":
        view.setUint16(offset, RETURN, true);
        view.setUint32(offset + 4, one.value, true);
        break;
      case "jump":
        view.setUint16(offset, JUMP[one.test], true);
        view.setUint8(offset + 2, distance(one.then));
        view.setUint8(offset + 3, distance(one.otherwise));
        view.setUint32(offset + 4, one.value, true);
        break;
      default:
        never(one);
    }
    index += 1;
  }
  return bytes;
}

function distanceTo(label: Label, from: number, places: ReadonlyMap<Label, number>): number {
  if (label === "next") return 0;
  const distance = (places.get(label) ?? -1) - from - 1;
  if (distance < 0 || distance > JUMP_LIMIT) throw new Error(`a jump to ${label} is out of reach`);
  return distance;
}
