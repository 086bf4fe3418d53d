import type { Boundary } from "@dev/cell";
import type { EffectOp, Mode } from "@dev/protocol";
import { expect, test } from "vitest";
import { covers, decide, type LayeredRule, likeness, matches } from "../src/policy.ts";

const read: EffectOp = { kind: "read", path: "a.ts", from: 0, to: 0 };
const write = (path: string): EffectOp => ({ kind: "write", path, text: "", expect: "any" });
const exec = (...argv: string[]): EffectOp => ({
  kind: "exec",
  argv,
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
});
const git = (...argv: string[]): EffectOp => ({ kind: "git", argv });

const verdict = (op: EffectOp, mode: Mode, boundary: Boundary, ...rules: LayeredRule[]) =>
  decide(op, mode, boundary, rules).kind;

const rule = (given: Partial<LayeredRule>): LayeredRule => ({
  decision: "deny",
  layer: "user",
  ...given,
});

test("a mode decides where no rule speaks", () => {
  const table: readonly [EffectOp, Mode, Boundary, string][] = [
    [read, "plan", "none", "allow"],
    [write("a"), "plan", "cell", "deny"],
    [exec("ls"), "plan", "cell", "deny"],
    [read, "ask", "none", "allow"],
    [write("a"), "ask", "none", "ask"],
    [write("a"), "ask", "process", "ask"],
    [write("a"), "ask", "cell", "allow"],
    [exec("ls"), "ask", "none", "ask"],
    [exec("ls"), "ask", "process", "ask"],
    [exec("ls"), "ask", "cell", "allow"],
    [write("a"), "edits", "none", "allow"],
    [exec("ls"), "edits", "none", "ask"],
    [exec("ls"), "edits", "process", "allow"],
    [git("status"), "edits", "none", "ask"],
    [exec("ls"), "full", "none", "allow"],
    [write(".git/hooks/pre-commit"), "full", "none", "allow"],
  ];
  for (const [op, mode, boundary, expected] of table) {
    expect([op.kind, mode, boundary, verdict(op, mode, boundary)]).toEqual([
      op.kind,
      mode,
      boundary,
      expected,
    ]);
  }
});

test("what git and Dev obey outside the cell is asked about, however it is spelled", () => {
  for (const path of [
    ".git/config",
    "a/../.git/hooks/x",
    ".GIT/config",
    "sub\\.dev\\config.toml",
  ]) {
    expect([path, verdict(write(path), "edits", "process")]).toEqual([path, "ask"]);
  }
  expect(verdict(write(".github/x"), "edits", "process")).toBe("allow");
});

test("deny beats ask beats allow, whichever layer wrote it and in whichever order", () => {
  const allow = rule({ decision: "allow", layer: "managed" });
  const ask = rule({ decision: "ask", layer: "session" });
  const deny = rule({ decision: "deny", layer: "project" });
  expect(verdict(write("a"), "full", "cell", allow, ask, deny)).toBe("deny");
  expect(verdict(write("a"), "full", "cell", allow, ask)).toBe("ask");
  expect(verdict(exec("ls"), "ask", "none", allow)).toBe("allow");
});

test("nothing lets a mode that only reads do more", () => {
  expect(verdict(exec("ls"), "plan", "cell", rule({ decision: "allow" }))).toBe("deny");
});

test("a path is matched after its dots are resolved", () => {
  const deny = rule({ paths: ["migrations/**"] });
  expect(verdict(write("src/../migrations/1.sql"), "full", "cell", deny)).toBe("deny");
  expect(verdict(write("./migrations//x/.hidden"), "full", "cell", deny)).toBe("deny");
  expect(verdict(write("src/migrations.ts"), "full", "cell", deny)).toBe("allow");
  expect(verdict(exec("cat", "migrations/1.sql"), "full", "cell", deny)).toBe("allow");
});

test("an argv is matched by the words that it begins with", () => {
  const deny = rule({ argv: ["git", "push"] });
  expect(verdict(git("push", "--force"), "full", "cell", deny)).toBe("deny");
  expect(verdict(exec("git", "push"), "full", "cell", deny)).toBe("deny");
  expect(verdict(git("status"), "full", "cell", deny)).toBe("allow");
  expect(matches(rule({ argv: ["npm", "*", "--force"] }), exec("npm", "i", "--force"))).toBe(true);
  expect(matches(rule({ argv: ["npm", "*"] }), exec("npm"))).toBe(false);
});

test("a permit for the session covers what is like it, and no more", () => {
  const permit = likeness(exec("npm", "test", "--", "a"));
  expect(covers(permit, exec("npm", "test"))).toBe(true);
  expect(covers(permit, exec("npm", "publish"))).toBe(false);
  expect(
    covers(permit, { ...exec("npm", "test"), env: [{ name: "A", value: "b" }] } as EffectOp),
  ).toBe(false);
  expect(covers(likeness(write("a")), write("b"))).toBe(true);
  expect(covers(likeness(write("a")), exec("a"))).toBe(false);
});

test("a permit for a shell's command, or for what steers git, covers that one alone", () => {
  const permit = likeness(exec("/bin/sh", "-c", "echo hi"));
  expect(covers(permit, exec("/bin/sh", "-c", "echo hi"))).toBe(true);
  expect(covers(permit, exec("/bin/sh", "-c", "rm -rf ."))).toBe(false);
  expect(covers(likeness(exec("rm", "*")), exec("rm", "x"))).toBe(false);
  expect(covers(likeness(exec("make")), exec("make", "install"))).toBe(false);
  expect(covers(likeness(write("a")), write(".git/hooks/pre-commit"))).toBe(false);
  expect(covers(likeness(write(".git/HEAD")), write("./.git/HEAD"))).toBe(true);
  expect(covers(likeness(write(".git/HEAD")), write(".git/config"))).toBe(false);
});
