import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { INSTRUCTIONS_LIMIT_BYTES, prelude } from "../src/prelude.ts";

let root: string;
const repository = (): string => join(root, "repository");
const inner = (): string => join(root, "repository", "packages", "inner");

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "prelude-"));
  mkdirSync(join(repository(), ".git"), { recursive: true });
  mkdirSync(inner(), { recursive: true });
  writeFileSync(join(root, "AGENTS.md"), "outside the repository");
  writeFileSync(join(repository(), "AGENTS.md"), "the repository says");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function text(directory: string): string {
  const made = prelude(directory);
  if (!made.ok) throw new Error(made.fault.message);
  return made.value;
}

test("instructions are taken nearest first, up to the root of the repository and no farther", () => {
  writeFileSync(join(inner(), "AGENTS.md"), "the inner package says");
  const made = text(inner());
  expect(made.indexOf("the inner package says")).toBeGreaterThan(0);
  expect(made.indexOf("the repository says")).toBeGreaterThan(
    made.indexOf("the inner package says"),
  );
  expect(made).not.toContain("outside the repository");
});

test("outside a repository only the directory's own instructions are taken", () => {
  const lone = join(root, "lone", "deep");
  mkdirSync(lone, { recursive: true });
  expect(text(lone)).not.toContain("outside the repository");
});

test("a link that leaves the repository is not followed, and one within it is", () => {
  symlinkSync(join(root, "AGENTS.md"), join(inner(), "AGENTS.md"));
  expect(text(inner())).not.toContain("outside the repository");
  rmSync(join(inner(), "AGENTS.md"));
  writeFileSync(join(repository(), "RULES.md"), "rules by another name");
  symlinkSync(join(repository(), "RULES.md"), join(inner(), "AGENTS.md"));
  expect(text(inner())).toContain("rules by another name");
});

test("instructions over the limit are refused with the file's name", () => {
  writeFileSync(join(inner(), "AGENTS.md"), "x".repeat(INSTRUCTIONS_LIMIT_BYTES + 1));
  const made = prelude(inner());
  expect(made.ok).toBe(false);
  if (!made.ok)
    expect([made.fault.code, made.fault.subject]).toEqual([
      "too_large",
      join(inner(), "AGENTS.md"),
    ]);
});

test("what is no regular file says nothing, and nothing waits for it", () => {
  execFileSync("mkfifo", [join(inner(), "AGENTS.md")]);
  mkdirSync(join(repository(), "packages", "AGENTS.md"));
  expect(text(inner())).toContain("the repository says");
});
