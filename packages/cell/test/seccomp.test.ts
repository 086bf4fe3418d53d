import { existsSync, readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  compileSeccomp,
  type SeccompArch,
  type SeccompProfile,
  seccompProfile,
  syscallNumber,
} from "../src/seccomp.ts";

const ARCHES: readonly SeccompArch[] = ["x64", "arm64"];
const AUDIT: Readonly<Record<SeccompArch, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };
const HEADERS: Readonly<Record<SeccompArch, readonly string[]>> = {
  x64: ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"],
  arm64: ["/usr/include/asm-generic/unistd.h"],
};
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;
const EAFNOSUPPORT = 0x00050061;
/** Past the last call of any kernel so far. */
const SYSCALL_END = 600;

/** What the kernel's own interpreter would answer: classic BPF, the five instructions in use. */
function judge(
  program: Uint8Array,
  call: { arch: number; nr: number; args?: readonly number[] },
): number {
  const view = new DataView(program.buffer, program.byteOffset, program.byteLength);
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, call.nr, true);
  data.setUint32(4, call.arch, true);
  for (const [index, arg] of (call.args ?? []).entries()) data.setUint32(16 + index * 8, arg, true);
  let accumulator = 0;
  for (let at = 0; at < program.byteLength / 8; at++) {
    const code = view.getUint16(at * 8, true);
    const operand = view.getUint32(at * 8 + 4, true);
    const branch = (taken: boolean): void => {
      at += view.getUint8(at * 8 + (taken ? 2 : 3));
    };
    if (code === 0x20) accumulator = data.getUint32(operand, true);
    else if (code === 0x15) branch(accumulator === operand);
    else if (code === 0x35) branch(accumulator >= operand);
    else if (code === 0x45) branch((accumulator & operand) !== 0);
    else if (code === 0x06) return operand;
    else throw new Error(`unknown instruction ${code}`);
  }
  throw new Error("ran past the end");
}

function compiled(arch: SeccompArch, ptrace = false): Uint8Array {
  const program = compileSeccomp({ arch, ptrace });
  if (!program.ok) throw new Error(program.fault.message);
  return program.value;
}

/** The kernel's own names and numbers, as its headers have them. */
function header(arch: SeccompArch): ReadonlyMap<string, number> | undefined {
  const path = HEADERS[arch].find((candidate) => existsSync(candidate));
  if (path === undefined) return undefined;
  const numbers = new Map<string, number>();
  for (const match of readFileSync(path, "utf8").matchAll(
    /^#define __NR(?:3264)?_(\w+)[ \t]+(\d+)$/gm,
  )) {
    numbers.set(match[1] ?? "", Number(match[2]));
  }
  return numbers;
}

/** What the kernel would answer with the filter that libseccomp makes of a profile. */
function ruled(profile: SeccompProfile, name: string, args: readonly number[]): number {
  for (const rule of profile.syscalls) {
    const holds = (rule.args ?? []).every(({ index, op, value, valueTwo }) => {
      const arg = args[index] ?? 0;
      if (op === "SCMP_CMP_EQ") return arg === value;
      if (op === "SCMP_CMP_GE") return arg >= value;
      return (arg & value) >>> 0 === valueTwo;
    });
    if (holds && rule.names.includes(name)) return 0x00050000 | rule.errnoRet;
  }
  return ALLOW;
}

const DENIED = [
  ..."acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module".split(" "),
  ..."fanotify_init finit_module fsconfig fsmount fsopen fspick init_module ioperm iopl".split(" "),
  ..."kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages".split(" "),
  ..."modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at".split(" "),
  ..."nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root".split(" "),
  ..."process_madvise process_vm_readv process_vm_writev ptrace quotactl".split(" "),
  ..."quotactl_fd reboot request_key set_mempolicy set_mempolicy_home_node setns".split(" "),
  ..."settimeofday swapoff swapon syslog umount2 unshare userfaultfd vhangup".split(" "),
];
const ABSENT = ["clone3", "io_uring_enter", "io_uring_register", "io_uring_setup"];

for (const arch of ARCHES) {
  const numbers = header(arch);
  test(`every syscall number on ${arch} is the kernel header's, and each call's verdict is the list's`, (context) => {
    context.skip(numbers === undefined, `there is no header of the kernel's for ${arch}`);
    const program = compiled(arch);
    const verdicts = new Map<number, number>();
    for (const name of DENIED) verdicts.set(numbers?.get(name) ?? -1, EPERM);
    for (const name of ABSENT) verdicts.set(numbers?.get(name) ?? -1, ENOSYS);
    // A socket of family 0 is not one of the families that are let through.
    verdicts.set(numbers?.get("socket") ?? -1, EAFNOSUPPORT);
    for (let nr = 0; nr < SYSCALL_END; nr++) {
      expect({ nr, verdict: judge(program, { arch: AUDIT[arch], nr }) }).toEqual({
        nr,
        verdict: verdicts.get(nr) ?? ALLOW,
      });
    }
  });

  test(`on ${arch} a clone into any new namespace is refused, and a thread is not`, () => {
    const program = compiled(arch);
    const nr = syscallNumber("clone", arch) ?? -1;
    const verdict = (flags: number): number =>
      judge(program, { arch: AUDIT[arch], nr, args: [flags] });
    for (const flag of [7, 17, 25, 26, 27, 28, 29, 30]) {
      expect(verdict((1 << flag) >>> 0)).toBe(EPERM);
    }
    // What glibc's pthread_create and fork ask for.
    expect(verdict(0x003d0f00)).toBe(ALLOW);
    expect(verdict(0x01200011)).toBe(ALLOW);
  });

  test(`on ${arch} only local, internet and netlink sockets can be made`, () => {
    const program = compiled(arch);
    const nr = syscallNumber("socket", arch) ?? -1;
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 64 }), (family) => {
        expect(judge(program, { arch: AUDIT[arch], nr, args: [family] })).toBe(
          [1, 2, 10, 16].includes(family) ? ALLOW : EAFNOSUPPORT,
        );
      }),
    );
  });

  test(`on ${arch} a terminal cannot be typed into, and other ioctls work`, () => {
    const program = compiled(arch);
    const nr = syscallNumber("ioctl", arch) ?? -1;
    const verdict = (request: number): number =>
      judge(program, { arch: AUDIT[arch], nr, args: [0, request] });
    expect([0x5412, 0x541c, 0x5413, 0x5401].map(verdict)).toEqual([EPERM, EPERM, ALLOW, ALLOW]);
  });

  test(`on ${arch} a process that calls as another processor is killed`, () => {
    const program = compiled(arch);
    for (const audit of [0x40000003, 0x40000028, AUDIT[arch === "x64" ? "arm64" : "x64"]]) {
      expect(judge(program, { arch: audit, nr: 39 })).toBe(KILL);
    }
  });

  test(`on ${arch} a runtime is told to make the very same filter`, () => {
    for (const ptrace of [false, true]) {
      const program = compiled(arch, ptrace);
      const profile = seccompProfile({ arch, ptrace });
      if (!profile.ok) throw new Error(profile.fault.message);
      const names = [...DENIED, "clone", "clone3", "ioctl", "socket", "io_uring_setup"];
      const number = fc.oneof(fc.nat(64), fc.constantFrom(0x5412, 0x541c), fc.integer({ min: 0 }));
      const flags = fc.nat(31).map((bit) => (1 << bit) >>> 0);
      fc.assert(
        fc.property(
          fc.constantFrom(...names),
          fc.oneof(number, flags),
          number,
          (name, one, two) => {
            const nr = syscallNumber(name, arch);
            if (nr === undefined) return;
            const judged = judge(program, { arch: AUDIT[arch], nr, args: [one, two] });
            expect(ruled(profile.value, name, [one, two])).toBe(judged);
          },
        ),
        { numRuns: 2_000 },
      );
    }
  });

  test(`on ${arch} the option for debuggers opens ptrace and nothing else`, () => {
    const strict = compiled(arch);
    const open = compiled(arch, true);
    const opened: number[] = [];
    for (let nr = 0; nr < SYSCALL_END; nr++) {
      const call = { arch: AUDIT[arch], nr };
      if (judge(strict, call) !== judge(open, call)) opened.push(nr);
    }
    expect(opened).toEqual(
      ["ptrace", "process_vm_readv", "process_vm_writev"]
        .map((name) => syscallNumber(name, arch))
        .sort((a, b) => (a ?? 0) - (b ?? 0)),
    );
  });
}

test("an x32 call is no call at all", () => {
  expect(judge(compiled("x64"), { arch: AUDIT.x64, nr: 0x40000000 + 101 })).toBe(ENOSYS);
});

test("a processor without a table is a fault that names it", () => {
  const program = compileSeccomp({ arch: "riscv64", ptrace: false });
  expect(program.ok ? "" : `${program.fault.code} ${program.fault.subject}`).toBe(
    "unsupported riscv64",
  );
});
