import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LINK_DEPTH_LIMIT, resolvePath } from "../src/resolve.ts";

let root: string;
const workspace = (): string => join(root, "workspace");
const link = (at: string, target: string): void => symlinkSync(target, join(workspace(), at));
const resolved = (path: string): string => resolvePath(workspace(), path);

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "resolve-"));
  mkdirSync(join(workspace(), "secret/deep"), { recursive: true });
  mkdirSync(join(workspace(), ".git/hooks"), { recursive: true });
  writeFileSync(join(workspace(), "secret/key"), "k");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("a link of a directory, of a file, and of a link is resolved", () => {
  link("lgit", ".git");
  link("again", "./lgit/");
  link("lkey", "secret/key");
  expect(resolved("lgit/hooks/x")).toBe(".git/hooks/x");
  expect(resolved("again/config")).toBe(".git/config");
  expect(resolved("./lkey")).toBe("secret/key");
});

test("a step up starts where a link leads, and not where it stands", () => {
  link("deep", "secret/deep");
  expect(resolved("deep/../key")).toBe("secret/key");
});

test("an absolute link into the workspace is resolved, as it is spelt here or in a cell", () => {
  link("here", join(workspace(), "secret"));
  link("cell", "/workspace/secret");
  symlinkSync(workspace(), join(root, "other"));
  expect(resolved("here/key")).toBe("secret/key");
  expect(resolved("cell/key")).toBe("secret/key");
  expect(resolvePath(join(root, "other"), "here/key")).toBe("secret/key");
});

test("what is not there yet is taken as written, behind the links that are", () => {
  link("lgit", ".git");
  link("dangling", "secret/none");
  expect(resolved("new/dir/file")).toBe("new/dir/file");
  expect(resolved("lgit/new/file")).toBe(".git/new/file");
  expect(resolved("dangling/x")).toBe("secret/none/x");
  expect(resolved("secret/key/x")).toBe("secret/key/x");
});

test("a path that leaves the workspace, or never ends, stays as it is", () => {
  link("out", "../elsewhere");
  link("etc", "/etc");
  link("loop", "loop");
  for (const path of ["../x", "out/x", "etc/passwd", "loop/x", "/etc/passwd", "a\0b", "."]) {
    expect(resolved(path)).toBe(path);
  }
  expect(resolvePath(join(root, "none"), "a/./b")).toBe("a/./b");
});

test("a path leads through as many links as the limit says, and no more", () => {
  link("l1", "secret");
  for (let at = 2; at <= LINK_DEPTH_LIMIT + 1; at++) link(`l${at}`, `l${at - 1}`);
  expect(resolved(`l${LINK_DEPTH_LIMIT}/key`)).toBe("secret/key");
  expect(resolved(`l${LINK_DEPTH_LIMIT + 1}/key`)).toBe(`l${LINK_DEPTH_LIMIT + 1}/key`);
});
