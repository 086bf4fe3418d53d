import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { example } from "./example.ts";

test("the README's example is this one, and runs", async () => {
  const read = (path: string) => readFile(new URL(path, import.meta.url), "utf8");
  expect(await read("../README.md")).toContain(await read("./example.ts"));
  expect(await example()).toBe("Good morning.");
});
