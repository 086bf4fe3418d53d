import { spawnSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from "node:fs";
import {
  chmod,
  mkdir,
  mkdtemp,
  rename,
  rm,
  symlink,
  unlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Copy, remove, type Tree, takeTree, textOf } from "../src/copy.ts";
import { fingerprint, NEVER } from "./trial-notation.ts";

type Place = AsyncDisposable & { readonly origin: string; readonly at: string };

async function place(files: Readonly<Record<string, string>>): Promise<Place> {
  const root = realpathSync(await mkdtemp(join(tmpdir(), "kai-copy-")));
  const origin = join(root, "origin");
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(origin, path)), { recursive: true });
    await writeFile(join(origin, path), text);
  }
  await mkdir(join(root, "at"));
  return {
    origin,
    at: join(root, "at"),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}

async function taken({ origin, at }: Place, isReadOnly = false): Promise<Tree> {
  const tree = await takeTree(origin, at, isReadOnly, NEVER);
  if (!tree.ok) throw new Error(tree.fault.message);
  return tree.value;
}

/** What a test sees of a tree: its names, and what is in them. */
function contents(directory: string, path = ""): readonly string[] {
  return readdirSync(join(directory, path)).flatMap((name) => {
    const below = join(path, name);
    const stat = lstatSync(join(directory, below));
    if (stat.isSymbolicLink()) return [`${below} -> ${readlinkSync(join(directory, below))}`];
    if (stat.isDirectory()) return [`${below}/`, ...contents(directory, below)];
    return [`${below}: ${readFileSync(join(directory, below), "utf8")}`];
  });
}

const FILES = { "a.txt": "one", "b/c.txt": "two", "b/d/e.txt": "three", "f.sh": "echo" };

test("a copy is mended of whatever was done to it", async () => {
  const name = fc.constantFrom("a.txt", "b", "b/c.txt", "b/d", "b/d/e.txt", "new", "b/new");
  const deed = fc.oneof(
    fc.record({ act: fc.constant("write" as const), name, text: fc.string({ maxLength: 3 }) }),
    fc.record({ act: fc.constant("remove" as const), name }),
    fc.record({ act: fc.constant("directory" as const), name }),
    fc.record({ act: fc.constant("link" as const), name }),
    fc.record({ act: fc.constant("lock" as const), name }),
    fc.record({ act: fc.constant("move" as const), name, to: name }),
  );
  await using here = await place(FILES);
  const tree = await taken(here);
  const copy = await Copy.make(tree, join(here.at, "copy"), NEVER);
  // What a deed writes through a link that it made is nothing that a copy could undo.
  const elsewhere = join(here.at, "elsewhere");
  await mkdir(elsewhere);
  const before = fingerprint(here.origin);
  const pristine = contents(tree.dir);
  await fc.assert(
    fc.asyncProperty(fc.array(deed, { maxLength: 8 }), async (deeds) => {
      for (const done of deeds) {
        const path = join(copy.dir, done.name);
        const act = {
          write: () => writeFile(path, done.act === "write" ? done.text : ""),
          remove: () => rm(path, { recursive: true }),
          directory: () => mkdir(path),
          link: () => symlink(elsewhere, path),
          lock: () => chmod(path, 0o500),
          move: () => rename(path, join(copy.dir, done.act === "move" ? done.to : "")),
        }[done.act];
        // What cannot be done has no effect to mend.
        await act().catch(() => {});
      }
      await copy.mend();
      expect(contents(copy.dir)).toEqual(pristine);
      await remove(elsewhere);
      await mkdir(elsewhere);
    }),
    { numRuns: 60 },
  );
  expect(fingerprint(here.origin)).toBe(before);
});

test("what a candidate put there is undone, of the same size and at the same time too", async () => {
  await using here = await place(FILES);
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  for (let round = 0; round < 20; round += 1) {
    await copy.put(new Map([["a.txt", "two"]]));
    expect(readFileSync(join(copy.dir, "a.txt"), "utf8")).toBe("two");
    await copy.mend();
    expect(readFileSync(join(copy.dir, "a.txt"), "utf8")).toBe("one");
  }
});

test("files keep their times, until they are put back", async () => {
  await using here = await place(FILES);
  await utimes(join(here.origin, "a.txt"), 1_000, 1_000);
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  const timeOf = () => lstatSync(join(copy.dir, "a.txt")).mtimeMs;
  expect(timeOf()).toBe(1_000_000);
  await copy.put(new Map([["a.txt", "two"]]));
  await copy.mend();
  expect(timeOf()).toBeGreaterThan(1_000_000);
});

test("a link by its whole path into the tree leads into the copy", async () => {
  await using here = await place(FILES);
  await symlink(join(here.origin, "b/c.txt"), join(here.origin, "inside"));
  await symlink("b/d", join(here.origin, "near"));
  await symlink("/nowhere", join(here.origin, "outside"));
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  expect(realpathSync(join(copy.dir, "inside"))).toBe(join(copy.dir, "b/c.txt"));
  expect(realpathSync(join(copy.dir, "near"))).toBe(join(copy.dir, "b/d"));
  expect(readlinkSync(join(copy.dir, "outside"))).toBe("/nowhere");
});

const PACKAGES = {
  "package.json": "{}",
  "packages/own/index.js": "module.exports = 1;",
  "node_modules/far/index.js": "module.exports = 2;",
  "node_modules/@of/some/index.js": "module.exports = 3;",
  "node_modules/.cache/x": "",
};

test("packages are reached, those of the workspace in the copy, and nothing leads to the original", async () => {
  await using here = await place(PACKAGES);
  await symlink("../packages/own", join(here.origin, "node_modules/own"));
  const before = fingerprint(here.origin);
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  const path = (name: string) => realpathSync(join(copy.dir, "node_modules", name, "index.js"));
  expect(path("own")).toBe(join(copy.dir, "packages/own/index.js"));
  await writeFile(path("far"), "written");
  await writeFile(path("@of/some"), "written");
  await writeFile(join(copy.dir, "node_modules/.cache"), "written");
  expect(fingerprint(here.origin)).toBe(before);
  await copy.mend();
  expect(existsSync(join(copy.dir, "node_modules/.cache"))).toBe(false);
});

test("where nothing can be written to, packages are linked and not copied", async () => {
  await using here = await place(PACKAGES);
  const copy = await Copy.make(await taken(here, true), join(here.at, "copy"), NEVER);
  const far = realpathSync(join(copy.dir, "node_modules/far"));
  expect(far).toBe(join(here.origin, "node_modules/far"));
  expect(existsSync(join(here.at, "large"))).toBe(false);
});

test("git sees the copy as a work tree of its own", async (context) => {
  await using here = await place({ "a.txt": "one" });
  const git = (cwd: string, ...words: string[]) =>
    spawnSync("git", words, { cwd, encoding: "utf8" });
  context.skip(git(here.origin, "init", "-q").status !== 0, "git is not installed");
  const as = ["-c", "user.name=a", "-c", "user.email=a@b"];
  git(here.origin, "add", ".");
  git(here.origin, ...as, "commit", "-qm", "first");
  const before = fingerprint(here.origin);
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  await copy.put(new Map([["a.txt", "two"]]));
  expect(git(copy.dir, "status", "--porcelain").stdout).toBe(" M a.txt\n");
  git(copy.dir, ...as, "commit", "-qam", "second");
  expect(git(copy.dir, "log", "--oneline").stdout.split("\n").length).toBe(3);
  expect(fingerprint(here.origin)).toBe(before);
});

test("what a run makes anew is left out, and what a build keeps is kept", async () => {
  await using here = await place({
    "__pycache__/a.pyc": "",
    "Cargo.toml": "",
    "target/debug/deps": "built",
    "other/target/debug": "source",
  });
  const copy = await Copy.make(await taken(here), join(here.at, "copy"), NEVER);
  expect(existsSync(join(copy.dir, "__pycache__"))).toBe(false);
  await writeFile(join(copy.dir, "target/debug/deps"), "built anew");
  await unlink(join(copy.dir, "other/target/debug"));
  await copy.mend();
  expect(readFileSync(join(copy.dir, "target/debug/deps"), "utf8")).toBe("built anew");
  expect(readFileSync(join(copy.dir, "other/target/debug"), "utf8")).toBe("source");
});

test("a text is UTF-8, or none", async () => {
  await using here = await place({ "a.txt": "é" });
  await writeFile(join(here.origin, "b.txt"), Buffer.from([0xe9]));
  const tree = await taken(here);
  expect(await textOf(tree, "a.txt")).toBe("é");
  expect(await textOf(tree, "b.txt")).toBe(null);
  expect(await textOf(tree, "../at")).toBe(null);
});

test("a tree that is not there is a fault, and so is one that is too deep", async () => {
  await using here = await place({ [`${"d/".repeat(70)}a.txt`]: "" });
  const deep = await takeTree(here.origin, here.at, false, NEVER);
  expect(deep).toMatchObject({ ok: false, fault: { code: "too_large" } });
  const whole = await takeTree("/", join(here.at, "whole"), false, NEVER);
  expect(whole).toMatchObject({ ok: false, fault: { code: "too_large" } });
  expect(existsSync(join(here.at, "whole"))).toBe(false);
  const gone = await takeTree(join(here.origin, "gone"), here.at, false, NEVER);
  expect(gone).toMatchObject({ ok: false, fault: { code: "io" } });
});
