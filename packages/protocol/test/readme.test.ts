import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { example } from "./example.ts";

test("the example of the README is the one that runs here", () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const source = readFileSync(new URL("example.ts", import.meta.url), "utf8");
  expect(readme).toContain(`\`\`\`ts\n${source}\`\`\``);
});

test("the example says what the README says", () => {
  expect(example()).toEqual([
    "action 7: git",
    "Event: turn is missing: a whole number from 0 below 2^53",
  ]);
});
