import { readFile } from "node:fs/promises";
import { parseCase, run } from "@dev/sim";
import { expect, test } from "vitest";

test("the README's example does what it says", async () => {
  // example
  const ran = await run(parseCase("exec/7/driver@22"));
  const breaches = ran.breaches;
  const commands = [...ran.world.happened];
  // end
  expect(breaches).toEqual([]);
  expect(commands).toHaveLength(1);
  expect(ran.trace.some((line) => line.includes("*** driver ***"))).toBe(true);
});

test("the README's example is the one that was run", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const here = await readFile(new URL(import.meta.url), "utf8");
  const shown = readme.split("```ts\n")[1]?.split("```")[0] ?? "none";
  const example = here.split("// example\n")[1]?.split("// end")[0] ?? "";
  expect(example.replaceAll(/\s+/g, "")).toBe(shown.replaceAll(/\s+/g, ""));
});
