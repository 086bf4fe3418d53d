import { readFile } from "node:fs/promises";
import { expect, test, vi } from "vitest";
import { readCommand } from "../src/args.ts";
import { EXIT } from "../src/exit.ts";

test("the README's example does what it says", () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  // example
  const read = readCommand(["exec", "--cell", "bubblewrap", "mend the build"]);
  if (read.ok && read.value.kind === "exec") {
    console.log(read.value.cell, read.value.prompt); // bubblewrap mend the build
  }
  // end
  expect(log).toHaveBeenCalledExactlyOnceWith("bubblewrap", "mend the build");
  log.mockRestore();
});

test("the README's example is the one that was run, and its exit codes are the code's", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const here = await readFile(new URL(import.meta.url), "utf8");
  const shown = readme.split("```ts\n")[1]?.split("```")[0] ?? "none";
  const run = here.split("// example\n")[1]?.split("// end")[0] ?? "";
  expect(run.replaceAll(/\s+/g, "")).toBe(shown.replaceAll(/\s+/g, ""));
  for (const code of Object.values(EXIT)) expect(readme).toMatch(new RegExp(`\\b${code} [a-z]`));
});

test("every source file is in the README's table", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const { readdir } = await import("node:fs/promises");
  for (const name of await readdir(new URL("../src", import.meta.url))) {
    if (name !== "version.ts") expect(readme).toContain(`\`${name}\``);
  }
});
