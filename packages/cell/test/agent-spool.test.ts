import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type ActionId, actionId, cellId, fail, fault, ok, type Result } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Disk, fileDisk } from "../src/agent/disk.ts";
import { type Evidence, encodeEntries, encodeHeader, readLog } from "../src/agent/log.ts";
import { addSpan, hasId, type Span } from "../src/agent/span.ts";
import { SPOOL_COMPACT_BYTES, Spool, type SpoolOwner } from "../src/agent/spool.ts";
import { scratch } from "./cell.ts";

const CELL = cellId(1, new Uint8Array(10));
const OTHER = cellId(2, new Uint8Array(10));
const COMMAND: Evidence = { kind: "exec", program: "make", startedMs: 5 };

/** A disk that a crash takes everything unsynced from, or any beginning of it. */
class CrashDisk implements Disk {
  synced: Uint8Array = new Uint8Array(0);
  pending: Uint8Array = new Uint8Array(0);
  fails: "append" | "sync" | "replace" | "nothing" = "nothing";
  syncCount = 0;

  read = async () => ok(Uint8Array.from(Buffer.concat([this.synced, this.pending])));
  append = async (bytes: Uint8Array) => {
    if (this.fails === "append") {
      this.pending = Buffer.concat([this.pending, bytes.subarray(0, bytes.length >> 1)]);
      return full();
    }
    this.pending = Buffer.concat([this.pending, bytes]);
    return ok(undefined);
  };
  sync = async () => {
    this.syncCount++;
    if (this.fails === "sync") return full();
    this.synced = Buffer.concat([this.synced, this.pending]);
    this.pending = new Uint8Array(0);
    return ok(undefined);
  };
  replace = async (bytes: Uint8Array) => {
    if (this.fails === "replace") return full();
    this.synced = Uint8Array.from(bytes);
    this.pending = new Uint8Array(0);
    return ok(undefined);
  };
  close = async () => {};

  /** What is left of the disk after a crash that let `kept` unsynced bytes through. */
  crash(kept = 0): CrashDisk {
    const disk = new CrashDisk();
    disk.synced = Buffer.concat([this.synced, this.pending.subarray(0, kept)]);
    return disk;
  }
}

function full(): Result<never> {
  return fail(fault("io", "the disk is full"));
}

function owner(generation = 1, identity = `made-by-${generation}`): SpoolOwner {
  return { cell: CELL, generation, identity };
}

async function open(disk: Disk, as: SpoolOwner = owner()): Promise<Spool> {
  const spool = await Spool.open(disk, as);
  if (!spool.ok) throw new Error(spool.fault.message);
  return spool.value;
}

const id = (value: number): ActionId => actionId(value);
const event = (text: string) => new TextEncoder().encode(text);
const codeOf = (result: Result<unknown>) => (result.ok ? "ok" : result.fault.code);

test("a spool keeps its identity from agent to agent", async () => {
  const disk = new CrashDisk();
  const first = await open(disk, owner(1));
  const second = await open(disk.crash(), owner(2));
  expect(first.identity).toBe("made-by-1");
  expect(second.identity).toBe("made-by-1");
});

test("what is promised survives a crash: started, finished, acknowledged", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  await spool.start(id(1), COMMAND);
  await spool.start(id(2), COMMAND);
  await spool.finish(id(2), event("two"));
  await spool.start(id(3), COMMAND);
  await spool.finish(id(3), event("three"));
  await spool.acknowledge([id(3)]);
  const after = await open(disk.crash(), owner(2));
  expect(after.find(id(1))).toEqual({ kind: "started", evidence: COMMAND });
  expect(after.find(id(2))).toEqual({ kind: "finished", event: event("two") });
  expect(after.find(id(3))).toEqual({ kind: "acknowledged" });
  expect(after.find(id(4))).toEqual({ kind: "never" });
  expect(after.unfinished()).toEqual([{ id: 1, evidence: COMMAND }]);
});

test("an acknowledged id is known for ever", async () => {
  let disk = new CrashDisk();
  for (let generation = 1; generation < 5; generation++) {
    const spool = await open(disk, owner(generation));
    await spool.finish(id(generation), event("x"));
    await spool.acknowledge([id(generation)]);
    disk = disk.crash();
  }
  const spool = await open(disk, owner(5));
  for (const known of [1, 2, 3, 4]) expect(spool.find(id(known)).kind).toBe("acknowledged");
  expect(spool.find(id(5)).kind).toBe("never");
});

test("an id that runs is not acknowledged away", async () => {
  const spool = await open(new CrashDisk());
  await spool.start(id(1), COMMAND);
  await spool.acknowledge([id(1)]);
  expect(spool.find(id(1)).kind).toBe("started");
});

test("a tail that a crash tore is no record, at any byte, and the next one is whole", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  await spool.finish(id(1), event("one"));
  disk.fails = "sync";
  await spool.finish(id(2), event("two"));
  for (let kept = 0; kept < disk.pending.length; kept++) {
    const torn = disk.crash(kept);
    const after = await open(torn, owner(2));
    expect(after.find(id(1)).kind).toBe("finished");
    expect(after.find(id(2)).kind).toBe("never");
    await after.finish(id(3), event("three"));
    expect((await open(torn.crash(), owner(3))).find(id(3)).kind).toBe("finished");
  }
  expect((await open(disk.crash(disk.pending.length), owner(2))).find(id(2)).kind).toBe("finished");
});

test("zeros in place of a torn tail are no record", async () => {
  const disk = new CrashDisk();
  await (await open(disk)).finish(id(1), event("one"));
  disk.synced = Buffer.concat([disk.synced, new Uint8Array(500)]);
  const after = await open(disk, owner(2));
  expect(after.find(id(1)).kind).toBe("finished");
  expect(after.identity).toBe("made-by-1");
});

test("a log that was damaged in front of good records is a lost spool, with a new identity", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  await spool.finish(id(1), event("one"));
  await spool.finish(id(2), event("two"));
  const at = Buffer.from(disk.synced).indexOf("one");
  disk.synced[at] = 0;
  const after = await open(disk, owner(2));
  expect(after.identity).toBe("made-by-2");
  expect(after.find(id(2)).kind).toBe("never");
});

test("any bytes at all are a log, a torn log, a damaged one or an empty one", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.boolean(), (bytes, isOurs) => {
      const start = isOurs ? encodeHeader({ cell: CELL, identity: "x", generation: 1 }) : [];
      const log = readLog(Uint8Array.from([...start, ...bytes]));
      expect(["empty", "log", "damaged", "newer"]).toContain(log.kind);
    }),
  );
});

test("another cell's spool is not this cell's", async () => {
  const disk = new CrashDisk();
  await (await open(disk)).finish(id(1), event("one"));
  const spool = await open(disk, { cell: OTHER, generation: 1, identity: "fresh" });
  expect(spool.identity).toBe("fresh");
  expect(spool.find(id(1)).kind).toBe("never");
});

test("an older generation is refused", async () => {
  const disk = new CrashDisk();
  await open(disk, owner(3));
  expect(codeOf(await Spool.open(disk, owner(2)))).toBe("superseded");
  expect(codeOf(await Spool.open(disk, owner(3)))).toBe("ok");
});

test("a spool of a newer version is refused, and left as it is", async () => {
  const disk = new CrashDisk();
  await open(disk);
  disk.synced[6] = 2;
  const before = Buffer.from(disk.synced);
  expect(codeOf(await Spool.open(disk, owner(2)))).toBe("newer_version");
  expect(before.equals(disk.synced)).toBe(true);
});

/** A log as version 1 wrote it. Its reader is kept for as long as there is such a spool anywhere. */
const VERSION_1 =
  "44455653504c010047000000d5bcf1f67b2263656c6c223a22635f303030303030303030313030303030" +
  "3030303030303030303030222c226964656e74697479223a22616263222c2267656e65726174696f6e22" +
  "3a377d6b000000446858b00101000000000000002e0000007b226b696e64223a2265786563222c227072" +
  "6f6772616d223a226d616b65222c22737461727465644d73223a357d02ffffffffffff1f000100000065" +
  "03030000000000000000000000040400000000000000080000000000000000010000";

test("the log of version 1 is read as it was written", () => {
  const header = { cell: CELL, identity: "abc", generation: 7 };
  const entries = [
    { kind: "started", id: 1, evidence: COMMAND },
    { kind: "finished", id: 2 ** 53 - 1, event: event("e") },
    { kind: "forgotten", id: 3 },
    { kind: "acknowledged", from: 4, to: 2 ** 40 },
  ] as const;
  const golden = Buffer.from(VERSION_1, "hex");
  expect(readLog(golden)).toEqual({ kind: "log", header, entries, torn: false });
  expect(Buffer.concat([encodeHeader(header), encodeEntries(entries)])).toEqual(golden);
});

test("a record that could not be written does not begin, and the next one still can", async () => {
  for (const fails of ["append", "sync"] as const) {
    const disk = new CrashDisk();
    const spool = await open(disk);
    disk.fails = fails;
    expect(codeOf(await spool.start(id(1), COMMAND))).toBe("io");
    expect(spool.find(id(1)).kind).toBe("never");
    disk.fails = "nothing";
    expect(codeOf(await spool.start(id(2), COMMAND))).toBe("ok");
    const after = await open(disk.crash(), owner(2));
    expect(after.find(id(1)).kind).toBe("never");
    expect(after.find(id(2)).kind).toBe("started");
  }
});

test("an outcome that could not be written is known all the same, and written with the next", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  await spool.start(id(1), COMMAND);
  disk.fails = "sync";
  expect(codeOf(await spool.finish(id(1), event("one")))).toBe("io");
  expect(spool.find(id(1)).kind).toBe("finished");
  disk.fails = "nothing";
  await spool.start(id(2), COMMAND);
  expect((await open(disk.crash(), owner(2))).find(id(1)).kind).toBe("finished");
});

test("records that come together share one sync", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  const before = disk.syncCount;
  await Promise.all(Array.from({ length: 50 }, (_, index) => spool.start(id(index), COMMAND)));
  expect(disk.syncCount - before).toBe(1);
});

test("a log is rewritten when it is large and most of it is of no use", async () => {
  const disk = new CrashDisk();
  const spool = await open(disk);
  const large = new Uint8Array(500_000);
  await spool.start(id(0), COMMAND);
  for (let count = 1; count <= 20; count++) {
    await spool.finish(id(count), large);
    await spool.acknowledge([id(count)]);
    expect(disk.synced.length).toBeLessThan(SPOOL_COMPACT_BYTES + 1_100_000);
  }
  const after = await open(disk.crash(), owner(2));
  expect(after.find(id(0)).kind).toBe("started");
  for (let count = 1; count <= 20; count++) {
    expect(after.find(id(count)).kind).toBe("acknowledged");
  }
});

test("a spool is what its records say, wherever it crashes", async () => {
  const step = fc.record({
    id: fc.integer({ min: 0, max: 5 }),
    kind: fc.constantFrom("start", "finish", "forget", "acknowledge", "reopen" as const),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      let disk = new CrashDisk();
      let generation = 1;
      let spool = await open(disk);
      const model = new Map<number, string>();
      for (const { id: number, kind } of steps) {
        const known = model.get(number) ?? "never";
        if (kind === "reopen") {
          disk = disk.crash();
          spool = await open(disk, owner(++generation));
        } else if (kind === "start" && known === "never") {
          await spool.start(id(number), COMMAND);
          model.set(number, "started");
        } else if (kind === "finish" && known === "started") {
          await spool.finish(id(number), event("x"));
          model.set(number, "finished");
        } else if (kind === "forget" && known === "started") {
          await spool.forget(id(number));
          model.set(number, "never");
        } else if (kind === "acknowledge" && known === "finished") {
          await spool.acknowledge([id(number)]);
          model.set(number, "acknowledged");
        }
        for (const [each, kept] of model) expect(spool.find(id(each)).kind).toBe(kept);
      }
    }),
    { numRuns: 300 },
  );
});

test("spans hold exactly the ids that were added", () => {
  const span = fc
    .tuple(fc.nat(60), fc.nat(5))
    .map(([from, length]) => [from, from + length] as const);
  fc.assert(
    fc.property(fc.array(span, { maxLength: 30 }), (added) => {
      let spans: readonly Span[] = [];
      const model = new Set<number>();
      for (const [from, to] of added) {
        spans = addSpan(spans, from, to);
        for (let each = from; each <= to; each++) model.add(each);
      }
      for (let each = 0; each < 70; each++) expect(hasId(spans, each)).toBe(model.has(each));
      for (const [index, one] of spans.entries()) {
        expect(one.from).toBeGreaterThan((spans[index - 1]?.to ?? -2) + 1);
      }
    }),
  );
});

test("a spool on a real disk is there again, with its log replaced as a whole", async () => {
  const directory = join(await scratch(), "made", "here");
  const spool = await open(fileDisk(directory));
  await spool.finish(id(1), event("one"));
  await spool.close();
  const before = await readFile(join(directory, "log"));
  await writeFile(join(directory, "log"), before.subarray(0, before.length - 1));
  const after = await open(fileDisk(directory), owner(2));
  expect(after.find(id(1)).kind).toBe("never");
  expect(after.identity).toBe(spool.identity);
  expect((await stat(join(directory, "log"))).mode & 0o777).toBe(0o600);
  await after.close();
});
