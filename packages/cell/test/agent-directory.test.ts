import { closeSync, constants, mkdirSync, openSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeDirectory } from "../src/agent/directory.ts";
import { scratch } from "./cell.ts";

test("a directory is made with those above it, and again", async () => {
  const path = join(await scratch(), "a/b/c");
  await makeDirectory(path);
  await makeDirectory(path);
  expect(statSync(path).mode & 0o777).toBe(0o700);
});

test("in a directory that was deleted nothing is made, and that is soon said", async () => {
  const path = join(await scratch(), "deleted");
  mkdirSync(path);
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  rmdirSync(path);
  await expect(makeDirectory(`/proc/self/fd/${descriptor}/a/b`)).rejects.toThrow("ENOENT");
  closeSync(descriptor);
});
