import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Files by path, as bytes: one character each, so that a test can write any of them. */
export type Files = Readonly<Record<string, string>>;

const SUM = `// Sums a list.
export function sum(list) {
\treturn list.reduce((total, each) => total - each, 0);
}
`;

const TEST = `import assert from "node:assert/strict";
import test from "node:test";
import { sum } from "../src/sum.js";

test("adds up", () => assert.equal(sum([1, 2, 3]), 6));
`;

/** A small project with a bug, and one file of each kind that an editor may spoil. */
export const REPOSITORY: Files = {
  "package.json": `{ "name": "sums", "private": true, "type": "module" }\n`,
  "src/sum.js": SUM,
  "test/sum.test.js": TEST,
  "text/windows.txt": "one\r\ntwo\r\nthree\r\n",
  "text/mixed.txt": "unix\nwindows\r\nlast\n",
  "text/tabs.mk": "all:\n\tcc -o a a.c\n\n\tstrip a\t# keep\n",
  "text/bom.csv": "\xef\xbb\xbfname;price\nnut;1\n",
  "text/open-end.txt": "first\nno line end",
  "text/latin1.txt": "caf\xe9 au lait\nth\xe9\n",
  "text/nbsp.txt": "a\xc2\xa0b\na b\n",
  "bin/run.sh": "#!/bin/sh\necho one\n",
  "blob.bin": "\x00\x01\x02\xff\xfe",
  ".gitignore": "cache/\n",
  "cache/kept.txt": "ignored, and mine\n",
};

/** Makes a real repository of these files, with one commit. */
export function makeRepository(root: string, files: Files = REPOSITORY): void {
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), Buffer.from(bytes, "latin1"));
  }
  chmodSync(join(root, "bin/run.sh"), 0o755);
  symlinkSync("open-end.txt", join(root, "text/link.txt"));
  git(root, "init", "-q", "-b", "main");
  git(root, "config", "core.autocrlf", "false");
  git(root, "config", "user.name", "Test");
  git(root, "config", "user.email", "test@example.invalid");
  git(root, "add", "--all");
  git(root, "commit", "-q", "-m", "begin");
}

/** Runs git as nobody in particular: the settings of whoever runs the tests play no part. */
export function git(root: string, ...args: readonly string[]): string {
  const env = {
    PATH: process.env.PATH,
    HOME: "/nonexistent",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
  };
  return execFileSync("git", ["-C", root, ...args], { env, encoding: "utf8" });
}

/** A file's bytes, one character each. */
export function bytesOf(path: string): string {
  return readFileSync(path, "latin1");
}
