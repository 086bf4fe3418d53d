import { expect, test } from "vitest";
import { call, escapes, outsideRan, PROBES, type Probe } from "./escape.ts";
import {
  driverHere,
  isRoot,
  linkOf,
  NOBODY,
  newId,
  noBubblewrap,
  optionsIn,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

/** What holds besides for a cell that has an environment of its own. */
const OWN_ENVIRONMENT: readonly Probe[] = [
  [
    "a command finds no file of the machine but the system's",
    async ({ link, outside }) => {
      const roots = outside.files.flatMap((file) => ["", "/proc/1/root"].map((at) => at + file));
      const { stdout } = await ran(link, "sh", "-c", `cat ${roots.join(" ")} 2>/dev/null`);
      expect(stdout).toBe("");
      expect(outsideRan(["cat", ...outside.files])).toContain(outside.canary);
      expect((await ran(link, "ls", "/")).stdout.trim().split("\n")).toEqual(
        expect.not.arrayContaining(["root", "boot", "srv", "mnt", "media", "sys"]),
      );
      expect((await ran(link, "ls", "/home", "/var")).stdout).toBe(
        "/home:\ncell\n\n/var:\ncell\ntmp\n",
      );
    },
  ],
  [
    "a command cannot reach a socket file of the machine",
    async ({ link, outside }) => {
      const connects = ["perl", "-MIO::Socket::UNIX", "-e"];
      const peer = `print IO::Socket::UNIX->new(Peer => "${outside.socketPath}") ? "yes" : "no"`;
      expect(outsideRan([...connects, peer])).toBe("yes");
      expect((await ran(link, ...connects, peer)).stdout).toBe("no");
    },
  ],
  [
    "the first process shows nothing of the machine's paths or variables",
    async ({ link, home, spec, outside }) => {
      const { stdout } = await ran(link, "sh", "-c", "cat /proc/1/environ /proc/1/cmdline");
      expect(stdout).toContain("bwrap");
      for (const secret of [home, spec.workspace, outside.canary, "DEV_CANARY"]) {
        expect(stdout).not.toContain(secret);
      }
      const names = stdout.split("\0").filter((word) => /^\w+=/.test(word));
      const known = ["DEV_CELL", "PATH", "PWD"];
      expect(names.filter((word) => !known.includes(word.replace(/=.*/s, "")))).toEqual([]);
    },
  ],
  [
    "a command is nobody outside, whoever started its cell",
    async ({ link, spec }) => {
      const user = await ran(link, "sh", "-c", "id -u; id -g; id -G; : > mine");
      expect(user.stdout).toBe("1000\n1000\n1000\n");
      const [uid = ""] = outsideRan(["stat", "-c", "%u", `${spec.workspace}/mine`]).split("\n");
      expect(Number(uid)).toBeGreaterThan(0);
    },
  ],
];

const SUBJECTS = [
  { title: "a bubblewrap cell", skip: noBubblewrap },
  {
    title: "a bubblewrap cell of an ordinary user",
    uid: NOBODY,
    skip: noBubblewrap ?? (isRoot ? undefined : "the tests already run as an ordinary user"),
  },
] as const;

for (const subject of SUBJECTS) {
  escapes({ vendor: "bubblewrap", ...subject }, [...PROBES, ...OWN_ENVIRONMENT]);
}

/** A cell with tight limits, for what tries to use up the machine. */
async function bounded(limits: Readonly<Record<string, number>>, argv: readonly string[]) {
  const base = temporary();
  const { vendor } = driverHere("bubblewrap", optionsIn(base));
  const id = newId();
  const spec = specIn(base);
  const its = { ...spec, limits: { ...spec.limits, ...limits } };
  const link = await linkOf((progress) => vendor.create(id, its, progress));
  const answer = await ran(link, ...argv);
  // Whatever was tried, the cell goes on.
  expect(await ran(link, "echo", "alive")).toMatchObject({ stdout: "alive\n" });
  await vendor.delete(id);
  return answer;
}

test("a fork bomb ends at the cell's number of processes", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const bomb =
    'my $n = 0; while (defined(my $p = fork)) { if (!$p) { sleep 60; exit } $n++ } print "$n ", $! + 0; kill 9, -getpgrp';
  const { stdout } = await bounded({ processCount: 64 }, ["perl", "-e", `$| = 1; ${bomb}`]);
  const [forked, errno] = stdout.split(" ").map(Number);
  expect(forked).toBeGreaterThan(10);
  expect(forked).toBeLessThan(64);
  expect(errno).toBe(11);
});

test("descriptors end at the cell's number of open files", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const opens =
    'my @f; while (open(my $f, "<", "/dev/null")) { push @f, $f } print scalar @f, " ", $! + 0';
  const { stdout } = await bounded({ openFileCount: 64 }, ["perl", "-e", opens]);
  const [opened, errno] = stdout.split(" ").map(Number);
  expect(opened).toBeGreaterThan(10);
  expect(opened).toBeLessThan(64);
  expect(errno).toBe(24);
});

test("a file ends at the cell's size of one", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const writes = "dd if=/dev/zero of=big bs=64k count=64 2>/dev/null; stat -c %s big";
  const { stdout } = await bounded({ fileBytes: 1024 * 1024 }, ["sh", "-c", writes]);
  expect(stdout).toBe("1048576\n");
});

test("files in memory end at their file system's size", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const fills =
    "for d in /dev/shm /run; do dd if=/dev/zero of=$d/f bs=1M count=80 2>/dev/null; stat -c %s $d/f; done";
  const { stdout } = await bounded({}, ["sh", "-c", fills]);
  expect(stdout.trim().split("\n").map(Number)).toEqual([64 * 1024 * 1024, 64 * 1024 * 1024]);
});

test("a command can be traced in a cell that is for debugging, and in no other", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const { vendor } = driverHere("bubblewrap", optionsIn(base, { ptrace: true }));
  const id = newId();
  const traced = await bounded({}, call("ptrace", 0, 0, 0, 0));
  expect(traced.stdout).toBe("errno 1");
  const link = await linkOf((progress) => vendor.create(id, specIn(base), progress));
  expect((await ran(link, ...call("ptrace", 0, 0, 0, 0))).stdout).toBe("done");
  expect((await ran(link, ...call("bpf", 0, 0, 0))).stdout).toBe("errno 1");
  await vendor.delete(id);
});
