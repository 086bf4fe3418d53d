import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import {
  type Blobs,
  directoryBlobs,
  Objects,
  type RestoreOptions,
  restoreSnapshot,
  type SnapshotId,
  StatCache,
  type TakenSnapshot,
  TREE_LIMITS,
  takeSnapshot,
} from "@dev/workspace";
import fc from "fast-check";
import { must, type Place } from "./tree.ts";

/** A process that is never alive when another looks. */
export const ME = { holder: "host/1/1", isAlive: (): boolean => false };

/** A store and a directory that snapshots are taken of. */
export type Studio = {
  readonly blobs: Blobs;
  readonly tree: string;
  readonly cache: StatCache;
  readonly open: () => Promise<Objects>;
  readonly take: (nowMs?: number) => Promise<TakenSnapshot>;
  readonly restore: (id: SnapshotId, to: string) => ReturnType<typeof restoreSnapshot>;
};

export function studio(place: Place, blobs: Blobs = directoryBlobs(place.at("store"))): Studio {
  const tree = place.at("tree");
  mkdirSync(tree, { recursive: true });
  const cache = new StatCache(place.at("cache"));
  const open = async () => must(await Objects.open(blobs));
  return {
    blobs,
    tree,
    cache,
    open,
    take: async (nowMs = 1_000) =>
      must(await takeSnapshot(await open(), tree, { ...LOOKING, cache, nowMs })),
    restore: async (id, to) => {
      mkdirSync(to, { recursive: true });
      return restoreSnapshot(await open(), id, to, restoring());
    },
  };
}

export const LOOKING = { limits: TREE_LIMITS, onProgress: (): void => undefined };

export function restoring(cache: StatCache | null = null): RestoreOptions {
  return { ...ME, ...LOOKING, cache };
}

/** All that is in a tree, names and targets as bytes, read by other means than the package's. */
export function bytesSeen(root: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  const look = (prefix: Buffer): void => {
    const at = (name: Buffer): Buffer => Buffer.concat([prefix, Buffer.from("/"), name]);
    for (const name of readdirSync(prefix, { encoding: "buffer" })) {
      const path = at(name);
      const stat = lstatSync(path, { bigint: true });
      const key = path.toString("latin1").slice(root.length + 1);
      const time = stat.mtimeNs / 1000n;
      const mode = (stat.mode & 0o777n).toString(8);
      if (stat.isSymbolicLink()) {
        found[key] = `-> ${readlinkSync(path, "latin1")} ${time}`;
      } else if (stat.isDirectory()) {
        found[key] = `directory ${mode} ${time}`;
        look(path);
      } else if (stat.isFile()) {
        found[key] = `${mode} ${time} ${readFileSync(path).toString("hex")}`;
      } else found[key] = "special";
    }
  };
  look(Buffer.from(root));
  return found;
}

/** What a test does at a path of bytes. */
export type Deed = {
  readonly path: readonly string[];
  readonly to:
    | "file"
    | "program"
    | "secret"
    | "directory"
    | "readonly"
    | "loop"
    | "dangling"
    | "sparse"
    | "hardlink"
    | "fifo"
    | "old"
    | "nothing";
  readonly text: string;
};

const name: fc.Arbitrary<string> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("a", "b", "c", "d e", "größe", "__proto__", "-rf", "*") },
  { weight: 2, arbitrary: fc.constantFrom("new\nline", 'say "x"', "back\\slash", "n".repeat(255)) },
  { weight: 2, arbitrary: fc.constantFrom("\xff\xfe", "a\x80", "\xc3", "\x01") },
);

export const deeds: fc.Arbitrary<Deed[]> = fc.array(
  fc.record({
    path: fc.array(name, { minLength: 1, maxLength: 4 }),
    to: fc.constantFrom<Deed["to"][]>(
      "file",
      "file",
      "file",
      "program",
      "secret",
      "directory",
      "readonly",
      "loop",
      "dangling",
      "sparse",
      "hardlink",
      "fifo",
      "old",
      "nothing",
    ),
    text: fc.string({ maxLength: 40 }),
  }),
  { maxLength: 24 },
);

/** Does each deed, where it can be done. */
export function perform(root: string, all: readonly Deed[]): void {
  for (const { path, to, text } of all) {
    const names = path.map((each) => (isUtf8Name(each) ? Buffer.from(each) : bytesOf(each)));
    const full = joined(root, names);
    const parent = joined(root, names.slice(0, -1));
    try {
      if (to !== "readonly" && to !== "old") rmSync(full, RM);
      mkdirSync(parent, { recursive: true });
      done(full, to, text, joined(root, [Buffer.from("a")]));
    } catch {
      // What stands there, or above it, does not let it be done.
    }
  }
}

const RM = { recursive: true, force: true } as const;

function done(full: Buffer, to: Deed["to"], text: string, first: Buffer): void {
  switch (to) {
    case "file":
    case "program":
    case "secret":
      writeFileSync(full, text, { flag: "wx" });
      chmodSync(full, { file: 0o644, program: 0o755, secret: 0o400 }[to]);
      return;
    case "directory":
      mkdirSync(full, { recursive: true });
      return;
    case "readonly":
      chmodSync(full, lstatSync(full).isDirectory() ? 0o555 : 0o444);
      return;
    case "loop":
      symlinkSync(bytesOf("../\xff/."), full);
      return;
    case "dangling":
      symlinkSync("/nowhere/at all", full);
      return;
    case "sparse":
      writeFileSync(full, text, { flag: "wx" });
      truncateSync(full, 3 * 1024 * 1024 + 7);
      return;
    case "hardlink":
      linkSync(first, full);
      return;
    case "fifo":
      execFileSync("mkfifo", [full.toString()], { stdio: "ignore" });
      return;
    case "old":
      utimesSync(full, 12_345.678901, 12_345.678901);
      return;
    case "nothing":
      return;
  }
}

function joined(root: string, names: readonly Buffer[]): Buffer {
  const slash = Buffer.from("/");
  return Buffer.concat([Buffer.from(root), ...names.flatMap((each) => [slash, each])]);
}

function isUtf8Name(text: string): boolean {
  return !/[\x80-\xff]/.test(text) || text === "größe";
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
