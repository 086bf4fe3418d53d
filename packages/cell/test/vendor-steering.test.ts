import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  driverHere,
  linkOf,
  newId,
  noBubblewrap,
  optionsIn,
  ran,
  specIn,
  temporary,
} from "./machine.ts";

test("a command in a local cell cannot plant what the person's own git or Dev would obey", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const spec = specIn(base);
  const at = (path: string): string => join(spec.workspace, path);
  const git = (...argv: string[]): string =>
    execFileSync("git", ["-C", spec.workspace, ...argv], { encoding: "utf8" });
  git("init", "-q");
  rmSync(at(".git/hooks"), { recursive: true });
  mkdirSync(at(".dev"));
  mkdirSync(at(".agents/agents"), { recursive: true });
  writeFileSync(at(".agents/agents/reviewer.md"), "");
  writeFileSync(at(".dev/config.toml"), "");
  const config = readFileSync(at(".git/config"), "utf8");
  const { vendor } = driverHere("local", optionsIn(base));
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, spec, progress));

  for (const attempt of [
    "git config core.fsmonitor 'touch ran'",
    "echo '[core]' > .git/config",
    "rm .git/config",
    "mv .git aside",
    "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    "echo x > .dev/config.toml",
    "mv .dev aside",
    "echo x > .agents/agents/reviewer.md",
    "echo x > .agents/agents/planted.md",
    "mv .agents/agents aside",
    "mv .agents aside && mkdir -p .agents/agents && echo x > .agents/agents/planted.md",
    "echo a note > .agents/notes",
  ]) {
    await ran(link, "sh", "-c", attempt);
  }
  const commit =
    "git add -A && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline";
  expect((await ran(link, "sh", "-c", `echo x > f; ${commit}`)).stdout).toMatch(/ one\n$/);
  await vendor.delete(id);

  expect(readFileSync(at(".git/config"), "utf8")).toBe(config);
  expect(readFileSync(at(".dev/config.toml"), "utf8")).toBe("");
  expect(existsSync(at(".git/hooks/pre-commit"))).toBe(false);
  expect(readFileSync(at(".agents/agents/reviewer.md"), "utf8")).toBe("");
  expect(existsSync(at(".agents/agents/planted.md"))).toBe(false);
  expect(readFileSync(at(".agents/notes"), "utf8")).toBe("a note\n");
  expect(git("log", "--format=%s")).toBe("one\n");
  expect(git("status", "--short")).toBe("");
});

test("a `.git` that is a link makes nothing outside the workspace writable", async (context) => {
  context.skip(noBubblewrap !== undefined, `${noBubblewrap}`);
  const base = temporary();
  const spec = specIn(base);
  const outside = join(base, "outside");
  mkdirSync(join(outside, "hooks"), { recursive: true });
  symlinkSync(outside, join(spec.workspace, ".git"));
  symlinkSync(outside, join(spec.workspace, ".dev"));
  mkdirSync(join(outside, "agents"));
  symlinkSync(outside, join(spec.workspace, ".agents"));
  const { vendor } = driverHere("local", optionsIn(base));
  const id = newId();
  const link = await linkOf((progress) => vendor.create(id, spec, progress));
  await ran(
    link,
    "sh",
    "-c",
    "for to in .git .git/hooks .agents/agents; do echo x > $to/planted; done",
  );
  await vendor.delete(id);
  const planted = ["planted", "hooks/planted", "agents/planted"].filter((path) => {
    return existsSync(join(outside, path));
  });
  expect(planted).toEqual([]);
});
