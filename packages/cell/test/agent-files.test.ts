import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmod,
  link,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import type { Digest, Expect, Outcome, ReadResult, Result, WriteResult } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  CHANGE_LIMIT_BYTES,
  commit,
  FILE_LIMIT_BYTES,
  judge,
  prepare,
  READ_LIMIT_BYTES,
  readLines,
} from "../src/agent/files.ts";
import { Tree } from "../src/agent/tree.ts";
import { scratch } from "./cell.ts";

type Files = Readonly<Record<string, string | Uint8Array>>;

/** A workspace with these files. */
async function files(given: Files): Promise<Desk> {
  const root = await scratch();
  for (const [path, bytes] of Object.entries(given)) {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), bytes);
  }
  const tree = new Tree(root);
  return {
    root,
    tree,
    read: async (path, from = 0, to = 0) => readLines(tree, { kind: "read", path, from, to }),
    write: async (path, text, expect = "any") => {
      const made = await prepare(tree, { kind: "write", path, text, expect });
      if (!made.ok) return made;
      const done = await commit(tree, made.value, "test");
      return done.ok ? { ok: true, value: made.value.result } : done;
    },
    bytes: async (path) => (await readFile(join(root, path))).toString("latin1"),
  };
}

type Desk = {
  readonly root: string;
  readonly tree: Tree;
  read(path: string, from?: number, to?: number): Promise<Outcome>;
  write(path: string, text: string, expect?: Expect): Promise<Result<WriteResult>>;
  bytes(path: string): Promise<string>;
};

const codeOf = (result: Result<unknown>) => (result.ok ? "ok" : result.fault.code);
const faultOf = (outcome: Outcome) => (outcome.kind === "failed" ? outcome.fault.code : "none");
const digest = (text: string) => createHash("sha256").update(text).digest("hex") as Digest;

function resultOf(outcome: Outcome): ReadResult {
  if (outcome.kind !== "ok" || outcome.result.kind !== "read") {
    throw new Error(JSON.stringify(outcome));
  }
  return outcome.result;
}

test("a read gives the lines asked for, and tells of the whole file", async () => {
  const desk = await files({ f: "one\ntwo\r\nthree" });
  expect(resultOf(await desk.read("f"))).toEqual({
    kind: "read",
    text: "one\ntwo\r\nthree",
    lossy: false,
    sizeBytes: 14,
    lineCount: 3,
    digest: digest("one\ntwo\r\nthree"),
    cut: false,
  });
  expect(resultOf(await desk.read("f", 2, 2)).text).toBe("two\r\n");
  expect(resultOf(await desk.read("f", 2)).text).toBe("two\r\nthree");
  expect(resultOf(await desk.read("f", 0, 1)).text).toBe("one\n");
  expect(resultOf(await desk.read("f", 3, 99)).text).toBe("three");
  expect(resultOf(await desk.read("f", 7, 9))).toMatchObject({
    text: "",
    lineCount: 3,
    cut: false,
  });
  expect(faultOf(await desk.read("f", 3, 2))).toBe("bad_call");
});

test("an empty file has no lines", async () => {
  const desk = await files({ f: "" });
  expect(resultOf(await desk.read("f"))).toMatchObject({ text: "", sizeBytes: 0, lineCount: 0 });
});

test("a long read is cut behind a whole line, and says so", async () => {
  const line = `${"é".repeat(99)}\n`;
  const count = Math.ceil(READ_LIMIT_BYTES / 199) + 10;
  const desk = await files({ f: line.repeat(count), g: "é".repeat(READ_LIMIT_BYTES) });
  const read = resultOf(await desk.read("f"));
  expect(read.cut).toBe(true);
  expect(read.text).toBe(line.repeat(Math.floor(READ_LIMIT_BYTES / 199)));
  expect(read.lineCount).toBe(count);
  const one = resultOf(await desk.read("g"));
  expect(one).toMatchObject({ cut: true, lossy: false, text: "é".repeat(READ_LIMIT_BYTES / 2) });
});

test("bytes that are not UTF-8 are replaced, and the answer says so", async () => {
  const desk = await files({ f: Buffer.from("ok\ncaf\xe9\n", "latin1") });
  expect(resultOf(await desk.read("f"))).toMatchObject({ text: "ok\ncaf\ufffd\n", lossy: true });
  expect(resultOf(await desk.read("f", 1, 1)).lossy).toBe(false);
});

test("a byte order mark is part of what is read", async () => {
  const desk = await files({ f: "\ufeffa" });
  expect(resultOf(await desk.read("f")).text).toBe("\ufeffa");
});

test("what is no text is refused with its size", async () => {
  const desk = await files({ f: Buffer.from([1, 2, 0, 3]) });
  const outcome = await desk.read("f");
  expect(outcome).toMatchObject({ fault: { code: "not_text", subject: "f" } });
  expect(JSON.stringify(outcome)).toContain("4 bytes");
});

test("what is no file is refused: directories, named pipes, devices, what is absent", async () => {
  const desk = await files({ "d/f": "" });
  execFileSync("mkfifo", [join(desk.root, "pipe")]);
  expect(faultOf(await desk.read("d"))).toBe("not_a_file");
  expect(faultOf(await desk.read("."))).toBe("not_a_file");
  expect(faultOf(await desk.read("pipe"))).toBe("not_a_file");
  expect(faultOf(await desk.read("none"))).toBe("not_found");
  expect(faultOf(await desk.read("d/f/g"))).toBe("not_found");
  expect(codeOf(await desk.write("d", "x"))).toBe("not_a_file");
  expect(codeOf(await desk.write("pipe", "x"))).toBe("not_a_file");
  expect(codeOf(await desk.write("d/f/g", "x"))).not.toBe("ok");
});

test("a file above the limit is refused, not read in part", async () => {
  const desk = await files({ f: "" });
  await truncate(join(desk.root, "f"), FILE_LIMIT_BYTES + 1);
  expect(faultOf(await desk.read("f"))).toBe("too_large");
  await truncate(join(desk.root, "f"), CHANGE_LIMIT_BYTES + 1);
  expect(codeOf(await desk.write("f", "x"))).toBe("too_large");
  expect(codeOf(await desk.write("g", "x".repeat(CHANGE_LIMIT_BYTES + 1)))).toBe("too_large");
  expect(await readdir(desk.root)).toEqual(["f"]);
});

test("a write makes the directories above it, and tells what it did", async () => {
  const desk = await files({});
  expect(await desk.write("a/b/c.txt", "x\ny\n", "absent")).toEqual({
    ok: true,
    value: {
      kind: "write",
      before: "absent",
      after: digest("x\ny\n"),
      sizeBytes: 4,
      addedLines: 2,
      removedLines: 0,
    },
  });
  expect(await desk.bytes("a/b/c.txt")).toBe("x\ny\n");
  expect((await stat(join(desk.root, "a/b/c.txt"))).mode & 0o777).toBe(0o644);
  expect(await readdir(join(desk.root, "a/b"))).toEqual(["c.txt"]);
});

test("a file that is written again keeps its mode", async () => {
  const desk = await files({ run: "old" });
  await chmod(join(desk.root, "run"), 0o751);
  expect(codeOf(await desk.write("run", "new"))).toBe("ok");
  expect((await stat(join(desk.root, "run"))).mode & 0o777).toBe(0o751);
});

test("what is expected is checked first, and the answer says what was found", async () => {
  const desk = await files({ f: "old" });
  const exists = await desk.write("f", "new", "absent");
  expect(exists).toMatchObject({ fault: { code: "exists" } });
  expect(JSON.stringify(exists)).toContain(digest("old"));
  const changed = await desk.write("f", "new", digest("other"));
  expect(changed).toMatchObject({ fault: { code: "changed" } });
  expect(JSON.stringify(changed)).toContain(digest("old"));
  expect(codeOf(await desk.write("none", "new", digest("old")))).toBe("changed");
  expect(await desk.bytes("f")).toBe("old");
  expect(codeOf(await desk.write("f", "new", digest("old")))).toBe("ok");
});

test("a file that changes between the look and the write is not written over", async () => {
  const desk = await files({ f: "old" });
  const op = { kind: "write", path: "f", text: "mine", expect: "any" } as const;
  const made = await prepare(desk.tree, op);
  const fresh = await prepare(desk.tree, { ...op, path: "g" });
  await writeFile(join(desk.root, "f"), "theirs");
  await writeFile(join(desk.root, "g"), "theirs");
  if (!made.ok || !fresh.ok) throw new Error("both can be prepared");
  expect(codeOf(await commit(desk.tree, made.value, "test"))).toBe("changed");
  expect(codeOf(await commit(desk.tree, fresh.value, "test"))).toBe("changed");
  expect(await desk.bytes("f")).toBe("theirs");
  expect(await readdir(desk.root)).toEqual(["f", "g"]);
});

test("a file of CR LF lines stays one when the model writes LF, and only then", async () => {
  const desk = await files({ crlf: "a\r\nb\r\n", lf: "a\n", mixed: "a\r\nb\n" });
  await desk.write("crlf", "x\ny\n");
  expect(await desk.bytes("crlf")).toBe("x\r\ny\r\n");
  await desk.write("lf", "x\ny\n");
  expect(await desk.bytes("lf")).toBe("x\ny\n");
  await desk.write("mixed", "x\ny\n");
  expect(await desk.bytes("mixed")).toBe("x\ny\n");
  await desk.write("lf", "x\r\ny\r\n");
  expect(await desk.bytes("lf")).toBe("x\r\ny\r\n");
});

test("a byte order mark stays when the model leaves it out, and is not doubled", async () => {
  const desk = await files({ f: "\ufeffa\n" });
  await desk.write("f", "b\n");
  expect(await desk.bytes("f")).toBe("\xef\xbb\xbfb\n");
  await desk.write("f", "\ufeffc\n");
  expect(await desk.bytes("f")).toBe("\xef\xbb\xbfc\n");
});

test("a write through a symbolic link within the workspace writes its target", async () => {
  const desk = await files({ "real/f": "old" });
  await symlink("real/f", join(desk.root, "link"));
  await symlink("real/new", join(desk.root, "dangling"));
  expect(codeOf(await desk.write("link", "new"))).toBe("ok");
  expect(codeOf(await desk.write("dangling", "made"))).toBe("ok");
  expect(await desk.bytes("real/f")).toBe("new");
  expect(await desk.bytes("real/new")).toBe("made");
});

test("links that stay in the workspace are followed: relative, absolute, by way of `..`", async () => {
  const desk = await files({ "a/b/f": "text" });
  await symlink("../b/f", join(desk.root, "a/b/up"));
  await symlink(join(desk.root, "a"), join(desk.root, "absolute"));
  await symlink("a/b", join(desk.root, "dir"));
  expect(resultOf(await desk.read("a/b/up")).text).toBe("text");
  expect(resultOf(await desk.read("absolute/b/f")).text).toBe("text");
  expect(resultOf(await desk.read("dir/../b/f")).text).toBe("text");
});

test("nothing that leaves the workspace is read, written, listed or made", async () => {
  const desk = await files({ "in/f": "" });
  const outside = await scratch();
  await writeFile(join(outside, "secret"), "secret");
  await symlink(outside, join(desk.root, "out"));
  await symlink(join(outside, "secret"), join(desk.root, "secret"));
  await symlink(`../${outside.split("/").at(-1)}/secret`, join(desk.root, "relative"));
  await symlink("loop", join(desk.root, "loop"));
  await symlink("../..", join(desk.root, "in/up"));
  const paths = ["out/secret", "secret", "relative", "../x", "in/up/x", "/etc/passwd", "loop"];
  for (const path of [...paths, "", "a\0b", "in/../../x", "x/".repeat(3_000)]) {
    expect([path, faultOf(await desk.read(path))]).toEqual([path, "path_escape"]);
    expect([path, codeOf(await desk.write(path, "x"))]).toEqual([path, "path_escape"]);
  }
  expect(codeOf(await desk.write("out/made/f", "x"))).toBe("path_escape");
  expect(desk.tree.directory("out")).toMatchObject({ fault: { code: "path_escape" } });
  expect(await readdir(outside)).toEqual(["secret"]);
});

/** Puts a link in the directory's place and takes it away again, whatever a write makes meanwhile. */
const SWAP = `
  const { renameSync } = require("node:fs");
  const move = (from, to) => { try { renameSync(from, to); } catch { return false; } return true; };
  for (let count = 0; ; count++) {
    move("d", "aside");
    if (!move("evil", "d")) move("d", "made" + count);
    move("d", "evil");
    if (!move("aside", "d")) move("d", "made" + count);
  }
`;

test("a directory that is swapped for a link while it is walked leads nowhere", async () => {
  const desk = await files({ "d/f": "inside", "spare/f": "inside" });
  const outside = await scratch();
  await writeFile(join(outside, "f"), "outside");
  await symlink(outside, join(desk.root, "evil"));
  const swapper = spawn(process.execPath, ["-e", SWAP], { cwd: desk.root, stdio: "ignore" });
  const seen = new Set<string>();
  // Until the race has been met often: the link where the directory had been, and the other way round.
  for (let count = 0; count < 4_000 || seen.size < 2; count++) {
    const outcome = await desk.read("d/f");
    seen.add(outcome.kind === "ok" ? resultOf(outcome).text : faultOf(outcome));
    if (count % 4 === 0) await desk.write("d/w", "x");
  }
  const swapped = new Promise((resolve) => swapper.once("exit", resolve));
  swapper.kill();
  await swapped;
  expect(seen).not.toContain("outside");
  expect(seen).toContain("inside");
  expect(await readdir(outside)).toEqual(["f"]);
});

test("a link in place of the directory to be made in is not followed", async () => {
  const desk = await files({});
  const outside = await scratch();
  const op = { kind: "write", path: "d/f", text: "x", expect: "any" } as const;
  const made = await prepare(desk.tree, op);
  await symlink(outside, join(desk.root, "d"));
  if (!made.ok) throw new Error("it can be prepared");
  expect(codeOf(await commit(desk.tree, made.value, "test"))).toBe("path_escape");
  expect(await readdir(outside)).toEqual([]);
});

test("a hard link to a file elsewhere is not written through", async () => {
  const desk = await files({});
  const outside = await scratch();
  await writeFile(join(outside, "f"), "theirs");
  await link(join(outside, "f"), join(desk.root, "f"));
  await desk.write("f", "mine");
  expect(await readFile(join(outside, "f"), "utf8")).toBe("theirs");
});

test("the file tells whether a write that had begun was done, never happened, or neither", async () => {
  const desk = await files({ f: "old" });
  const op = { kind: "write", path: "f", text: "new", expect: "any" } as const;
  const made = await prepare(desk.tree, op);
  if (!made.ok) throw new Error("it can be prepared");
  const evidence = { kind: "file", path: "f", result: made.value.result } as const;
  await writeFile(join(desk.root, ".dev-tag-1.tmp"), "ne");
  expect(await judge(desk.tree, evidence, "tag-1")).toEqual({ kind: "never" });
  expect(await readdir(desk.root)).toEqual(["f"]);
  await writeFile(join(desk.root, "f"), "new");
  expect(await judge(desk.tree, evidence, "tag-1")).toEqual({ kind: "done" });
  await writeFile(join(desk.root, "f"), "else");
  expect(await judge(desk.tree, evidence, "tag-1")).toMatchObject({ kind: "unknown" });
  await rm(join(desk.root, "f"));
  const gone = await judge(desk.tree, evidence, "tag-1");
  expect(gone.kind === "unknown" && gone.known).toContain("is absent");
});
