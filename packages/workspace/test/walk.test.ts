import { execFileSync } from "node:child_process";
import { closeSync, readFileSync, renameSync, symlinkSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { closeDir, openDir, openFile, openTree, reach } from "../src/walk.ts";
import { draw, place } from "./tree.ts";

let here = place();
beforeEach(() => {
  here = place();
  draw(here.at("tree"), { "d/f": "inside", link: "->../outside", "d/link": "->../../outside/f" });
  draw(here.at("outside"), { f: "secret" });
});
afterEach(() => here.clear());

test("a symlink is never opened, as a directory or as a file", () => {
  const root = openTree(here.at("tree"));
  const d = openDir(root, "d");
  expect(() => openDir(root, "link")).toThrow(/ENOTDIR|ELOOP/);
  expect(() => openFile(d, "link")).toThrow(/ELOOP/);
  closeDir(d);
  closeDir(root);
});

test("an open directory stays itself when a symlink takes its place", () => {
  const root = openTree(here.at("tree"));
  const d = openDir(root, "d");
  renameSync(here.at("tree/d"), here.at("tree/moved"));
  symlinkSync(here.at("outside"), here.at("tree/d"));
  const fd = openFile(d, "f");
  expect(readFileSync(fd, "utf8")).toBe("inside");
  closeSync(fd);
  closeDir(d);
  closeDir(root);
});

test("a pipe is no file, and nobody waits for its other end", () => {
  execFileSync("mkfifo", [here.at("tree/pipe")]);
  const root = openTree(here.at("tree"));
  expect(() => openFile(root, "pipe")).toThrow(/regular/);
  closeDir(root);
});

test("a path is reached through directories alone, and none leads out of the tree", async () => {
  const root = openTree(here.at("tree"));
  const read = (path: string) =>
    reach(root, path, (dir, name) => readFileSync(dir.at(name), "utf8"));
  expect(await read("d/f")).toBe("inside");
  expect(await read("link/f")).toBe("blocked");
  expect(await read("d/f/x")).toBe("blocked");
  expect(await read("none/f")).toBe("absent");
  for (const path of ["../outside/f", "d/../../outside/f", "/etc/passwd", "", "d//f", "d/f\0"]) {
    await expect(read(path)).rejects.toThrow(/not a path below/);
  }
  closeDir(root);
});
