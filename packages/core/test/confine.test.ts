import { posix, win32 } from "node:path";
import type { CallOp } from "@dev/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CONFIG, calls, play, read, run, turn } from "./notation.ts";

const REFUSED = {
  "": "it is empty; `.` is the workspace",
  "/etc/passwd": "it is absolute; paths are relative to the workspace",
  "\\etc": "it is absolute; paths are relative to the workspace",
  "\\\\server\\share": "it is absolute; paths are relative to the workspace",
  "C:/Windows": "it has a drive letter",
  "c:x": "it has a drive letter",
  "a\0b": "it has a NUL byte",
  "..": "it leaves the workspace",
  "../x": "it leaves the workspace",
  "..\\x": "it leaves the workspace",
  "a/../..": "it leaves the workspace",
  "a/./../../b": "it leaves the workspace",
  "a//../..": "it leaves the workspace",
  "a\\..\\..\\b": "it leaves the workspace",
  "a/..\\..": "it leaves the workspace",
  "a\\b/../..": "it leaves the workspace",
  "../x/..": "it leaves the workspace",
};

const CALLS: Readonly<Record<string, (path: string) => CallOp>> = {
  read,
  search: (path) => ({ kind: "search", pattern: "x", path, glob: "", match: "text" }),
  write: (path) => ({ kind: "write", path, text: "", expect: "any" }),
  patch: (path) => ({ kind: "patch", path, change: { kind: "diff", diff: "" }, expect: "any" }),
  exec: (cwd) => ({ ...run("ls"), cwd }),
};

test.each(Object.entries(REFUSED))("%j never becomes an action", (path, why) => {
  for (const [name, call] of Object.entries(CALLS)) {
    const field = name === "exec" ? "cwd" : "path";
    expect(play(CONFIG, turn(1), calls(1, call(path))).last).toEqual([
      `2 model from 1: assistant [a], tool a failed: failed, nothing was done: ${field}: ${why}`,
    ]);
  }
});

test.each([".", "a", "./a/../b", "a/b/../../c", "..a/b", "a..", "...", "b/c", "ä/✓"])(
  "%j becomes an action",
  (path) => {
    expect(play(CONFIG, turn(1), calls(1, read(path))).last).toEqual([`2 read ${path}`]);
  },
);

test("a program or git without arguments is refused in place", () => {
  const nothing = { kind: "git", argv: [] } as const;
  expect(play(CONFIG, turn(1), calls(1, run(), run(""), nothing)).last).toEqual([
    "2 model from 1: assistant [a][b][c], tool a failed: failed, nothing was done: argv: there is no program to run, tool b failed: failed, nothing was done: argv: there is no program to run, tool c failed: failed, nothing was done: argv: there is no git command",
  ]);
});

test("of one reply, the calls that may go out do", () => {
  const { lines } = play(CONFIG, turn(1), calls(1, read("/x"), read("y")));
  expect(lines.slice(1)).toEqual(["2 read y"]);
});

const paths = fc
  .array(fc.tuple(fc.constantFrom("..", ".", "a", "b c", "", "C:"), fc.constantFrom("/", "\\")), {
    minLength: 1,
    maxLength: 7,
  })
  .map((parts) =>
    parts
      .map(([name, separator]) => name + separator)
      .join("")
      .slice(0, -1),
  );

test("whatever path becomes an action, both systems find it inside the workspace", () => {
  let passedCount = 0;
  fc.assert(
    fc.property(paths, (path) => {
      const { last } = play(CONFIG, turn(1), calls(1, read(path)));
      if (last[0] !== `2 read ${path}`) return;
      passedCount += 1;
      for (const [system, root] of [
        [posix, "/w/s"],
        [win32, "D:\\w\\s"],
      ] as const) {
        const found = system.resolve(root, path);
        expect(`${found}${system.sep}`.startsWith(`${root}${system.sep}`)).toBe(true);
      }
    }),
    { numRuns: 2000 },
  );
  expect(passedCount).toBeGreaterThan(100);
});
