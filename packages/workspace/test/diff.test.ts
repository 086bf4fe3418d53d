import { execFileSync } from "node:child_process";
import { appendFileSync, chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { unifiedDiff } from "@dev/workspace";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { compared, draw, must, place, seen, take, touch, touchesOf } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
});
afterEach(() => here.clear());

async function diffOf(work: () => void): Promise<string> {
  const taken = await take(here);
  work();
  return must(await unifiedDiff(await compared(taken, here.at("tree")), taken, here.at("tree")));
}

/** What git makes of a patch, in a copy of what it is for. */
function gitApplied(patch: string): Record<string, string> {
  cpSync(here.at("from"), here.at("copy"), { recursive: true, verbatimSymlinks: true });
  // Git has no empty directories, and lets no file take the place of one.
  execFileSync("find", [here.at("copy"), "-mindepth", "1", "-type", "d", "-empty", "-delete"]);
  const env = {
    PATH: process.env.PATH,
    HOME: here.at("home"),
    GIT_CEILING_DIRECTORIES: here.at(""),
  };
  if (patch !== "") {
    execFileSync("git", ["apply", "--whitespace=nowarn", "-"], {
      cwd: here.at("copy"),
      input: patch,
      env,
    });
  }
  return asGit(seen(here.at("copy")));
}

/** As git sees a tree: no directories, and of modes only the owner's `x`. */
function asGit(tree: Record<string, string>): Record<string, string> {
  const files: Record<string, string> = Object.create(null);
  for (const [path, what] of Object.entries(tree)) {
    if (what.startsWith("directory")) continue;
    files[path] = what.replace(/^[0-7]+ /, (mode) =>
      (parseInt(mode, 8) & 0o100) === 0 ? "- " : "x ",
    );
  }
  return files;
}

test("git applies the diff of any text, whatever its files are named", async () => {
  const kinds = ["file", "program", "private", "directory", "symlink", "nothing"];
  const text = touchesOf(kinds, 14).map((all) => all.filter((one) => !one.text.includes("\0")));
  await fc.assert(
    fc.asyncProperty(text, text, async (drawn, work) => {
      here.clear();
      here = place();
      draw(here.at("from"), {});
      touch(here.at("from"), drawn);
      const diff = await diffOf(() => touch(here.at("tree"), work));
      expect(gitApplied(diff)).toEqual(asGit(seen(here.at("tree"))));
    }),
    { numRuns: 40 },
  );
});

test("the diff reads as git's own does", async () => {
  draw(here.at("from"), { "my file": "one\ntwo\nthree\n", gone: "x", run: "#!\n", ü: "a\n" });
  const diff = await diffOf(() => {
    writeFileSync(here.at("tree/my file"), "one\n2\nthree\n");
    writeFileSync(here.at("tree/ü"), "b");
    writeFileSync(here.at("tree/new"), "");
    chmodSync(here.at("tree/run"), 0o755);
    execFileSync("rm", [here.at("tree/gone")]);
  });
  expect(diff).toBe(
    [
      "diff --git a/gone b/gone",
      "deleted file mode 100644",
      "--- a/gone",
      "+++ /dev/null",
      "@@ -1,1 +0,0 @@",
      "-x",
      "\\ No newline at end of file",
      "diff --git a/my file b/my file",
      "--- a/my file\t",
      "+++ b/my file\t",
      "@@ -1,3 +1,3 @@",
      " one",
      "-two",
      "+2",
      " three",
      "diff --git a/new b/new",
      "new file mode 100644",
      "diff --git a/run b/run",
      "old mode 100644",
      "new mode 100755",
      'diff --git "a/\\303\\274" "b/\\303\\274"',
      '--- "a/\\303\\274"',
      '+++ "b/\\303\\274"',
      "@@ -1,1 +1,1 @@",
      "-a",
      "+b",
      "\\ No newline at end of file",
      "",
    ].join("\n"),
  );
});

test("the diff is right when the person's directory has changed meanwhile", async () => {
  draw(here.at("from"), { f: "base\n" });
  const diff = await diffOf(() => {
    writeFileSync(here.at("tree/f"), "work\n");
    writeFileSync(here.at("from/f"), "mine\n");
  });
  expect(diff).toContain("\n-base\n+work\n");
});

test("files that are not text, or too large, are said to differ", async () => {
  const large = "a line of text\n".repeat(100_000);
  draw(here.at("from"), { bytes: "a\0b", large, latin: "x", text: "one\n" });
  const diff = await diffOf(() => {
    writeFileSync(here.at("tree/bytes"), "a\0c");
    writeFileSync(here.at("tree/latin"), Buffer.from([0x67, 0xfc, 0x6e]));
    appendFileSync(here.at("tree/large"), "more\n");
    writeFileSync(here.at("tree/text"), "two\n");
    mkdirSync(here.at("tree/empty"));
  });
  expect(diff.split("\n").filter((line) => line.startsWith("Binary"))).toEqual([
    "Binary files a/bytes and b/bytes differ",
    "Binary files a/large and b/large differ",
    "Binary files a/latin and b/latin differ",
  ]);
  expect(diff).not.toContain("more");
  writeFileSync(here.at("from/text"), "two\n");
  const wanted = asGit(seen(here.at("from")));
  writeFileSync(here.at("from/text"), "one\n");
  expect(gitApplied(diff)).toEqual(wanted);
});

test("files that differ in very many lines are shown as replaced", async () => {
  const numbers = (step: number) =>
    `${Array.from({ length: 9_000 }, (_, n) => (n * step) % 9_001).join("\n")}\n`;
  draw(here.at("from"), { f: numbers(2) });
  const diff = await diffOf(() => writeFileSync(here.at("tree/f"), numbers(5_003)));
  expect(diff).toContain("@@ -1,9000 +1,9000 @@");
  expect(gitApplied(diff)).toEqual(asGit(seen(here.at("tree"))));
});

test("a file that was written to after the comparison, and a damaged base, are faults", async () => {
  draw(here.at("from"), { f: "one\n" });
  const taken = await take(here);
  writeFileSync(here.at("tree/f"), "two\n");
  const found = await compared(taken, here.at("tree"));
  const code = async () => {
    const diff = await unifiedDiff(found, taken, here.at("tree"));
    return diff.ok ? "ok" : diff.fault.code;
  };
  expect(await code()).toBe("ok");
  writeFileSync(here.at("tree/f"), "six\n");
  expect(await code()).toBe("changed");
  writeFileSync(here.at("tree/f"), "two\n");
  writeFileSync(taken.textPath, readFileSync(taken.textPath).fill(120));
  expect(await code()).toBe("corrupt");
});
