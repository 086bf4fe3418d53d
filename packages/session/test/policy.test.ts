import type { Boundary } from "@dev/cell";
import type { ActionId, EffectEvent, EffectOp, Mode } from "@dev/protocol";
import { expect, test } from "vitest";
import {
  covers,
  decide,
  globFlaw,
  type LayeredRule,
  likeness,
  matches,
  pathOf,
  visible,
  withheld,
} from "../src/policy.ts";

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
const fix = (...argv: string[]): EffectOp => ({
  kind: "tool",
  server: "dev",
  name: "fix",
  arguments: JSON.stringify({ argv }),
});
const git = (...argv: string[]): EffectOp => ({ kind: "git", argv });

const verdict = (op: EffectOp, mode: Mode, boundary: Boundary, ...rules: LayeredRule[]) =>
  decide(op, pathOf(op), mode, boundary, rules).kind;

/** In a cell, where every change is allowed: what the rules alone say. */
const ruled = (op: EffectOp, real: string | null, ...rules: LayeredRule[]) =>
  decide(op, real, "full", "cell", rules).kind;

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
    ".agents/agents/reviewer.md",
    "sub/.agents/x/.././/Agents/reviewer.md",
  ]) {
    expect([path, verdict(write(path), "edits", "process")]).toEqual([path, "ask"]);
  }
  for (const path of [".github/x", ".agents/notes.md", "agents/agents/x.md", "x.dev/y"]) {
    expect([path, verdict(write(path), "edits", "process")]).toEqual([path, "allow"]);
  }
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
  expect(matches(rule({ argv: ["npm", "*", "--force"] }), exec("npm", "i", "--force"), null)).toBe(
    true,
  );
  expect(matches(rule({ argv: ["npm", "*"] }), exec("npm"), null)).toBe(false);
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

test("a rule sees a path as written and as its links resolve: against it either is enough", () => {
  const through = write("lsec/key");
  for (const decision of ["deny", "ask"] as const) {
    const secret = rule({ decision, paths: ["secret/**"] });
    const link = rule({ decision, paths: ["lsec/**"] });
    expect(ruled(through, "secret/key", secret)).toBe(decision);
    expect(ruled(through, "secret/key", link)).toBe(decision);
    expect(ruled(through, "other/key", secret)).toBe("allow");
  }
});

test("a rule allows a path only if it is allowed as written and as resolved", () => {
  const allow = rule({ decision: "allow", paths: ["src/**"] });
  const decided = (path: string, real: string) =>
    decide(write(path), real, "ask", "none", [allow]).kind;
  expect(decided("src/a", "src/a")).toBe("allow");
  expect(decided("src/a", "lib/a")).toBe("ask");
  expect(decided("lib/a", "src/a")).toBe("ask");
});

test("what git obeys is asked about through a link too, and a permit for it is for that one", () => {
  const op = write("lgit/hooks/x");
  const verdict = decide(op, ".git/hooks/x", "edits", "process", []);
  expect(verdict).toMatchObject({ kind: "ask", rule: "guarded path" });
  expect(verdict.kind === "ask" && verdict.reason).toContain(".git/hooks/x");
  expect(covers(likeness(write("a"), "a"), op, ".git/hooks/x")).toBe(false);
  const permit = likeness(op, ".git/hooks/x");
  expect(covers(permit, op, ".git/hooks/x")).toBe(true);
  expect(covers(permit, write("lgit/hooks/y"), ".git/hooks/y")).toBe(false);
});

test("a rule against commands is one against git, and the other way round", () => {
  for (const decision of ["deny", "ask"] as const) {
    const commands = rule({ decision, ops: ["exec"] });
    expect(ruled(git("-c", "alias.z=!id", "z"), null, commands)).toBe(decision);
    const gits = rule({ decision, ops: ["git"] });
    expect(ruled(exec("/usr/bin/git", "status"), null, gits)).toBe(decision);
    expect(ruled(exec("ls"), null, gits)).toBe("allow");
  }
  const allow = rule({ decision: "allow", ops: ["exec"] });
  expect(decide(git("status"), null, "ask", "none", [allow]).kind).toBe("ask");
});

test("a rule against a command holds for every way to spell it", () => {
  const deny = rule({ argv: ["git", "push"] });
  for (const op of [
    git("push"),
    git("-c", "x=y", "push"),
    git("-C", "sub", "--git-dir=a", "--work-tree", "b", "push", "-f"),
    git("--namespace", "n", "--exec-path=x", "--config-env", "a=b", "push"),
    git("-p", "--no-pager", "--bare", "--literal-pathspecs", "push"),
    exec("/usr/bin/git", "push"),
    exec("./git", "-C", "..", "push"),
  ]) {
    expect([op, ruled(op, null, deny)]).toEqual([op, "deny"]);
  }
  for (const op of [git("-C", "push", "status"), git("log", "push"), exec("git"), git("-c")]) {
    expect([op, ruled(op, null, deny)]).toEqual([op, "allow"]);
  }
  expect(ruled(exec("/opt/bin/npm", "publish"), null, rule({ argv: ["npm", "publish"] }))).toBe(
    "deny",
  );
});

test("a rule allows a command only as it is written", () => {
  const allow = rule({ decision: "allow", argv: ["git", "push"] });
  const decided = (op: EffectOp) => decide(op, null, "ask", "none", [allow]).kind;
  expect(decided(git("push"))).toBe("allow");
  expect(decided(exec("git", "push"))).toBe("allow");
  expect(decided(exec("./git", "push"))).toBe("ask");
  expect(decided(git("-c", "core.sshCommand=id", "push"))).toBe("ask");
});

test("a rule from above the workspace holds for the paths that it names from there", () => {
  const above = rule({ paths: ["app/secret/**"], below: "app" });
  expect(ruled(write("secret/key"), "secret/key", above)).toBe("deny");
  expect(ruled(write("x/../secret/key"), "secret/key", above)).toBe("deny");
  expect(ruled(write("app/secret/key"), "app/secret/key", above)).toBe("allow");
});

test("a search leaves out what a rule denies to read or to search, and nothing else", () => {
  const paths = ["a.ts", "secret/key", "b.ts"];
  const found: EffectEvent = {
    kind: "file",
    id: 1 as ActionId,
    outcome: {
      kind: "ok",
      result: {
        kind: "search",
        matches: paths.map((path) => ({ path, line: 1, text: "x" })),
        cut: false,
      },
    },
  };
  const shown = (...rules: LayeredRule[]): unknown => {
    const { outcome } = visible(found, rules);
    if (outcome.kind !== "ok" || outcome.result.kind !== "search") return outcome;
    expect(outcome.result.cut).toBe(false);
    return outcome.result.matches.map(({ path }) => path);
  };
  for (const ops of [["read"], ["search"], undefined] as const) {
    const deny = rule({ paths: ["secret/**"], ...(ops && { ops }) });
    expect(shown(deny)).toEqual(["a.ts", "b.ts"]);
  }
  expect(shown(rule({ ops: ["read"] }))).toEqual([]);
  expect(shown(rule({ ops: ["write"], paths: ["secret/**"] }))).toEqual(paths);
  expect(shown(rule({ decision: "ask", paths: ["secret/**"] }))).toEqual(paths);
  expect(shown(rule({ argv: ["git", "push"] }))).toEqual(paths);
  const refused: EffectEvent = { ...found, outcome: { kind: "unknown", known: "" } };
  expect(visible(refused, [rule({})])).toBe(refused);
});

test("a glob that can match no path is told from one that can", () => {
  for (const glob of ["[", "a{b", "(", "", "[z-a]", "/etc/**", "../x", "a/../b", "src/"]) {
    expect([glob, globFlaw(glob)]).not.toEqual([glob, null]);
  }
  for (const glob of ["**", "src/**", "./src/*", "*.{a,b}", "a\\[b", "!(a)", "!src/**", "[ab]*"]) {
    expect([glob, globFlaw(glob)]).toEqual([glob, null]);
  }
});

test("fix is decided on as a command that also changes files", () => {
  const op = fix("npm", "test");
  const table: readonly [Mode, Boundary, string][] = [
    ["plan", "cell", "deny"],
    ["ask", "process", "ask"],
    ["ask", "cell", "allow"],
    ["edits", "none", "ask"],
    ["edits", "process", "allow"],
    ["full", "none", "allow"],
  ];
  for (const [mode, boundary, expected] of table) {
    expect(verdict(op, mode, boundary), `${mode} ${boundary}`).toBe(expected);
  }
  const denials: readonly Partial<LayeredRule>[] = [
    { ops: ["exec"] },
    { ops: ["write"] },
    { ops: ["patch"] },
    { ops: ["tool"] },
    { argv: ["npm"] },
    {},
  ];
  for (const given of denials) expect(ruled(op, null, rule(given))).toBe("deny");
  expect(ruled(op, null, rule({ argv: ["rm"] }), rule({ ops: ["browse"] }))).toBe("allow");
  expect(ruled(fix("git", "push"), null, rule({ ops: ["git"], argv: ["git", "push"] }))).toBe(
    "deny",
  );
});

test("leave to run a command is no leave to fix it, for good or for a session", () => {
  const asked = (given: Partial<LayeredRule>) =>
    verdict(fix("npm", "test"), "ask", "none", rule({ decision: "allow", ...given }));
  expect(asked({ argv: ["npm", "test"] })).toBe("ask");
  expect(asked({ ops: ["exec"] })).toBe("ask");
  expect(asked({ ops: ["tool"], argv: ["npm", "test"] })).toBe("allow");
  expect(asked({})).toBe("allow");
  const permit = likeness(exec("npm", "test"));
  expect(covers(permit, exec("npm", "test", "--all"))).toBe(true);
  expect(covers(permit, fix("npm", "test"))).toBe(false);
  expect(covers(likeness(fix("npm", "test")), fix("npm", "test"))).toBe(true);
});

test("a file that a rule keeps from being written, or that steers, is withheld from fix", () => {
  const rules = [rule({ paths: ["secret/**"], reason: "it is secret" }), rule({ ops: ["read"] })];
  expect(withheld(rules, "src/a.js", "src/a.js")).toBeNull();
  expect(withheld(rules, "secret/a.js", "secret/a.js")).toBe("it is secret");
  expect(withheld(rules, "link/a.js", "secret/a.js")).toBe("it is secret");
  expect(withheld([], ".git/hooks/x", ".git/hooks/x")).toContain("steers");
});
