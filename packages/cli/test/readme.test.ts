import { readFile } from "node:fs/promises";
import { expect, test, vi } from "vitest";
import { readCommand } from "../src/args.ts";
import { EXIT } from "../src/exit.ts";

test("the README's example does what it says", () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  const read = readCommand(["exec", "--cell", "bubblewrap", "mend the build"]);
  if (read.ok && read.value.kind === "exec") {
    console.log(read.value.cell, read.value.prompt); // bubblewrap mend the build
  }
  expect(log).toHaveBeenCalledExactlyOnceWith("bubblewrap", "mend the build");
  log.mockRestore();
});

test("the README's exit codes are the code's", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  for (const code of Object.values(EXIT)) expect(readme).toMatch(new RegExp(`\\b${code} [a-z]`));
});

test("every source file is in the README's table", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const { readdir } = await import("node:fs/promises");
  for (const name of await readdir(new URL("../src", import.meta.url))) {
    if (name !== "version.ts") expect(readme).toContain(`\`${name}\``);
  }
});
