import { expect, test } from "vitest";
import type { CellLimits, Link } from "../src/vendor.ts";
import type { VendorOptions } from "../src/vendors/registry.ts";
import {
  driverHere,
  execAction,
  linkOf,
  newId,
  optionsIn,
  perform,
  ran,
  ranOf,
  specIn,
  temporary,
} from "./machine.ts";

/**
 * What becomes of a bomb. `refused`: the command is told that there is no more, and goes on. `killed`: the
 * command ends, and the cell goes on. `lost`: the cell ends, and is there again for whoever asks for it.
 * `unbounded`: nothing of ours ends it, so it is not set off.
 */
export type End = "refused" | "killed" | "lost" | "unbounded";

/** A kind of cell, and what it promises of each bomb. */
export type Bombed = {
  readonly title: string;
  readonly vendor: string;
  readonly options?: Partial<VendorOptions>;
  readonly skip: string | undefined;
  readonly ends: Readonly<Record<BombName, End>>;
};

export type BombName =
  | "processes"
  | "descriptors"
  | "file"
  | "memory files"
  | "memory"
  | "disk"
  | "output";

/** Sets off every bomb that the kind promises an end of, each in a cell of its own. */
export function bombs(bombed: Bombed): void {
  for (const [name, bomb] of Object.entries(BOMBS) as [BombName, Bomb][]) {
    const end = bombed.ends[name];
    if (end === "unbounded") continue;
    test(`${bombed.title}: ${bomb.sentence}: ${end}`, async (context) => {
      context.skip(bombed.skip !== undefined, `${bombed.skip}`);
      await setOff(bombed, bomb, end);
    });
  }
}

type Bomb = {
  readonly sentence: string;
  readonly limits: Partial<CellLimits>;
  readonly argv: readonly string[];
  /** What it says when it was told that there is no more. */
  readonly refused: (stdout: string) => void;
};

async function setOff(bombed: Bombed, bomb: Bomb, end: Exclude<End, "unbounded">): Promise<void> {
  const base = temporary();
  const { vendor } = driverHere(bombed.vendor, optionsIn(base, bombed.options));
  const id = newId();
  const spec = specIn(base);
  const its = { ...spec, limits: { ...spec.limits, ...bomb.limits } };
  const link = await linkOf((progress) => vendor.create(id, its, progress));
  const answer = await perform(link, execAction(bomb.argv));
  if (end === "refused") bomb.refused(ranOf(answer).stdout);
  if (end === "killed") expect(ranOf(answer).code).not.toBe(0);
  if (end === "lost") expect(answer).toMatchObject({ ok: false, fault: { code: "link_lost" } });
  const after = end === "lost" ? await linkOf((progress) => vendor.get(id, its, progress)) : link;
  await expectAlive(after, end === "lost" ? 2 : 1);
  expect(await vendor.delete(id)).toEqual({ ok: true, value: { kind: "gone" } });
}

async function expectAlive(link: Link, generation: number): Promise<void> {
  expect(link.generation).toBe(generation);
  expect(await ran(link, "echo", "alive")).toMatchObject({ stdout: "alive\n" });
}

const MIB = 1024 * 1024;
const EAGAIN = 11;
const EMFILE = 24;

const FORKS = `$| = 1; my $n = 0;
while (defined(my $p = fork)) { if (!$p) { sleep 60; exit } $n++ }
print "$n ", $! + 0; $SIG{TERM} = "IGNORE"; kill 9, -getpgrp`;
const OPENS = `my @f; while (open(my $f, "<", "/dev/null")) { push @f, $f }
print scalar @f, " ", $! + 0`;
const FILLS = `for d in /dev/shm /run; do
dd if=/dev/zero of=$d/f bs=1M count=80 2>/dev/null; stat -c %s $d/f; done`;

/** A count, and the number of the error that ended it. */
function counted(most: number, errno: number): (stdout: string) => void {
  return (stdout) => {
    const [count, said] = stdout.split(" ").map(Number);
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThan(most);
    expect(said).toBe(errno);
  };
}

const BOMBS: Readonly<Record<BombName, Bomb>> = {
  processes: {
    sentence: "a fork bomb ends at the cell's number of processes",
    limits: { processCount: 64 },
    argv: ["perl", "-e", FORKS],
    refused: counted(64, EAGAIN),
  },
  descriptors: {
    sentence: "descriptors end at the cell's number of open files",
    limits: { openFileCount: 64 },
    argv: ["perl", "-e", OPENS],
    refused: counted(64, EMFILE),
  },
  file: {
    sentence: "a file ends at the cell's size of one",
    limits: { fileBytes: MIB },
    argv: ["sh", "-c", "dd if=/dev/zero of=big bs=64k count=64 2>/dev/null; stat -c %s big"],
    refused: (stdout) => expect(stdout).toBe(`${MIB}\n`),
  },
  "memory files": {
    sentence: "files in memory end at their file system's size",
    limits: {},
    argv: ["sh", "-c", FILLS],
    refused: (stdout) =>
      expect(stdout.trim().split("\n").map(Number)).toEqual([64 * MIB, 64 * MIB]),
  },
  memory: {
    sentence: "memory ends at the cell's size of it",
    limits: { memoryBytes: 256 * MIB },
    argv: ["perl", "-e", "my @a; push @a, 'x' x 1048576 for 1 .. 1024; print scalar @a"],
    refused: (stdout) => expect(stdout).toBe(""),
  },
  disk: {
    sentence: "many files end at what one command may write",
    limits: { diskBytes: 32 * MIB },
    argv: [
      "sh",
      "-c",
      "i=0; while :; do dd if=/dev/urandom of=f$i bs=1M count=4 2>/dev/null; i=$((i+1)); done",
    ],
    refused: (stdout) => expect(stdout).toBe(""),
  },
  output: {
    sentence: "output ends at what an outcome may hold",
    limits: { outputBytes: 64 * 1024 },
    argv: ["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' x"],
    refused: (stdout) => {
      expect(stdout.length).toBeGreaterThan(1024);
      expect(stdout.length).toBeLessThan(80 * 1024);
    },
  },
};
