import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Outcome, SearchOp, SearchResult } from "@dev/protocol";
import { expect, test } from "vitest";
import { MATCH_LIMIT, MATCH_TEXT_LIMIT, search } from "../src/agent/search.ts";
import { Tree } from "../src/agent/tree.ts";
import { IDLE, realClock, rgPath, scratch } from "./cell.ts";

type Files = Readonly<Record<string, string | Uint8Array>>;
type Find = (pattern: string, more?: Partial<SearchOp>, signal?: AbortSignal) => Promise<Outcome>;

async function files(given: Files): Promise<{ readonly root: string; readonly find: Find }> {
  const root = await scratch();
  for (const [path, bytes] of Object.entries(given)) {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), bytes);
  }
  const options = { rg: rgPath, tree: new Tree(root), clock: realClock };
  const find: Find = (pattern, more = {}, signal = IDLE) =>
    search(
      options,
      { kind: "search", pattern, path: ".", glob: "", match: "text", ...more },
      signal,
    );
  return { root, find };
}

function resultOf(outcome: Outcome): SearchResult {
  if (outcome.kind !== "ok" || outcome.result.kind !== "search") {
    throw new Error(JSON.stringify(outcome));
  }
  return outcome.result;
}

const pathsOf = (outcome: Outcome) => resultOf(outcome).matches.map((match) => match.path);
const faultOf = (outcome: Outcome) => (outcome.kind === "failed" ? outcome.fault.code : "none");

test("a search gives lines with their paths and numbers, in path order", async () => {
  const { find } = await files({ "b/x.ts": "one\ntwo\n", "a.ts": "two\r\n", "c.md": "two" });
  expect(resultOf(await find("tw[o]"))).toEqual({
    kind: "search",
    matches: [
      { path: "a.ts", line: 1, text: "two" },
      { path: "b/x.ts", line: 2, text: "two" },
      { path: "c.md", line: 1, text: "two" },
    ],
    cut: false,
  });
});

test("a path and a glob narrow a search", async () => {
  const { find } = await files({ "a/x.ts": "t", "a/x.md": "t", "b/x.ts": "t" });
  expect(pathsOf(await find("t", { glob: "*.ts" }))).toEqual(["a/x.ts", "b/x.ts"]);
  expect(pathsOf(await find("t", { path: "a" }))).toEqual(["a/x.md", "a/x.ts"]);
  expect(pathsOf(await find("t", { path: "a/x.md" }))).toEqual(["a/x.md"]);
  expect(pathsOf(await find("t", { path: "a", glob: "!*.md" }))).toEqual(["a/x.ts"]);
});

test("no match is an answer", async () => {
  const { find } = await files({ a: "x" });
  expect(resultOf(await find("y"))).toEqual({ kind: "search", matches: [], cut: false });
  expect(resultOf(await find("y", { match: "name" })).matches).toEqual([]);
});

test("hidden files are searched, and `.git` is not, whatever the glob says", async () => {
  const { find } = await files({ ".env": "t", ".git/config": "t", "sub/.git/x": "t" });
  expect(pathsOf(await find("t"))).toEqual([".env"]);
  expect(pathsOf(await find("t", { glob: ".git/**" }))).toEqual([]);
  expect(pathsOf(await find("config|env", { match: "name" }))).toEqual([".env"]);
});

test("names are matched on the whole relative path", async () => {
  const { find } = await files({ "src/a.ts": "", "src/b.md": "", "test/a.ts": "" });
  const matches = [{ path: "src/a.ts", line: 0, text: "" }];
  expect(resultOf(await find("^src/.*\\.ts$", { match: "name" })).matches).toEqual(matches);
  expect(pathsOf(await find("a", { match: "name", path: "test" }))).toEqual(["test/a.ts"]);
});

test("a bad pattern is refused in ripgrep's words, for text and for names", async () => {
  const { find } = await files({ a: "x" });
  const outcome = await find("(");
  expect(outcome).toMatchObject({ fault: { code: "bad_pattern", subject: "(" } });
  expect(outcome.kind === "failed" && outcome.fault.message).toContain("unclosed group");
  expect(faultOf(await find("(", { match: "name" }))).toBe("bad_pattern");
  expect(faultOf(await find("x", { glob: "{a" }))).toBe("bad_pattern");
});

test("a pattern that begins with a dash is a pattern", async () => {
  const { find } = await files({ "-a": "--files\n" });
  expect(pathsOf(await find("--files"))).toEqual(["-a"]);
  expect(pathsOf(await find("-a", { match: "name" }))).toEqual(["-a"]);
  expect(pathsOf(await find("files", { path: "-a" }))).toEqual(["-a"]);
});

test("a path that is not there, or leads out, is a fault", async () => {
  const { find, root } = await files({ a: "x" });
  await symlink("/etc", join(root, "out"));
  expect(faultOf(await find("x", { path: "none" }))).toBe("not_found");
  expect(faultOf(await find("x", { path: "none/at/all" }))).toBe("not_found");
  expect(faultOf(await find("root", { path: "out" }))).toBe("path_escape");
  expect(faultOf(await find("root", { path: "../.." }))).toBe("path_escape");
});

test("a symbolic link is not followed", async () => {
  const { find, root } = await files({ "d/a": "t" });
  const outside = await scratch();
  await writeFile(join(outside, "secret"), "t");
  await symlink(outside, join(root, "out"));
  await symlink(join(outside, "secret"), join(root, "file"));
  expect(pathsOf(await find("t"))).toEqual(["d/a"]);
  expect(pathsOf(await find("secret", { match: "name" }))).toEqual([]);
});

test("too many matches are cut, always after the same ones", async () => {
  const { find } = await files({ a: "t\n".repeat(MATCH_LIMIT + 1), b: "t" });
  const result = resultOf(await find("t"));
  expect(result.cut).toBe(true);
  expect(result.matches.length).toBe(MATCH_LIMIT);
  expect(result.matches.at(-1)).toEqual({ path: "a", line: MATCH_LIMIT, text: "t" });
  const { find: exact } = await files({ a: "t\n".repeat(MATCH_LIMIT) });
  expect(resultOf(await exact("t"))).toMatchObject({ cut: false });
});

test("a long line is shortened, however long and however often it matches", async () => {
  const { find } = await files({
    a: `${"x".repeat(5_000)}\n`,
    b: `x${"y".repeat(3_000_000)}\n`,
    c: `${"x".repeat(2_000_000)}\n`,
  });
  const result = resultOf(await find("x"));
  expect(result.matches.map((match) => [match.path, match.text.length])).toEqual(
    ["a", "b", "c"].map((path) => [path, MATCH_TEXT_LIMIT + 1]),
  );
  expect(result.cut).toBe(false);
});

test("a match in what turns out to be no text is not shown, and is not called none", async () => {
  const { find } = await files({ a: `${"x\n".repeat(3)}\0x\n`, b: "x\n", "c\nd": "x\n" });
  const alone = resultOf(await find("x", { path: "a" }));
  expect(alone).toMatchObject({ matches: [], cut: true });
  const all = resultOf(await find("x"));
  expect(all.matches.map((match) => match.path)).toEqual(["b", "c\nd"]);
});

test("lines that are not UTF-8 are shown as far as they can be", async () => {
  const { find } = await files({ a: Buffer.from("caf\xe9 x\n", "latin1") });
  expect(resultOf(await find("x")).matches).toEqual([{ path: "a", line: 1, text: "caf\ufffd x" }]);
});

test("a person's own ripgrep settings change nothing", async () => {
  const { find, root } = await files({ a: "T" });
  await writeFile(join(root, ".ripgreprc"), "--ignore-case\n");
  process.env.RIPGREP_CONFIG_PATH = join(root, ".ripgreprc");
  const outcome = await find("t$");
  delete process.env.RIPGREP_CONFIG_PATH;
  expect(resultOf(outcome).matches).toEqual([]);
});

test("a search that is stopped says so", async () => {
  const { find } = await files({ a: "x" });
  expect((await find("x", {}, AbortSignal.abort())).kind).toBe("cancelled");
});

test("a ripgrep that is not there is a fault that names it", async () => {
  const root = await scratch();
  const options = { rg: "/no/such/rg", tree: new Tree(root), clock: realClock };
  const op = { kind: "search", pattern: "x", path: ".", glob: "", match: "text" } as const;
  expect(await search(options, op, IDLE)).toMatchObject({
    fault: { code: "spawn", subject: "/no/such/rg" },
  });
});
