import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connectLink, DEFAULT_CELL_LIMITS, type OnOutput, type Opening } from "@dev/cell";
import { cellId } from "@dev/protocol";
import { afterAll, expect, test } from "vitest";
import { action as actionOf, bundleAgent, IDLE, rgPath, sh } from "./cell.ts";

const directory = mkdtempSync(join(tmpdir(), "dev-readme-"));
afterAll(() => rm(directory, { recursive: true, force: true }));

test("the README's example does what it says", async () => {
  const { path: agent } = await bundleAgent(directory);
  const workspace = join(directory, "workspace");
  await mkdir(workspace);
  const opening: Opening = {
    cell: cellId(1, new Uint8Array(10)),
    generation: 1,
    workspace,
    spool: join(directory, "spool"),
    rg: rgPath,
    limits: DEFAULT_CELL_LIMITS,
    variables: [],
  };
  const action = actionOf(1, sh("echo run >> runs; echo hello"));
  const onOutput: OnOutput = () => undefined;
  const signal = IDLE;
  // example
  const stdio = ["ignore", "inherit", "inherit", "pipe"] as const;
  const child = spawn(process.execPath, [agent], { stdio: [...stdio] });
  const link = await connectLink(child.stdio[3] as Duplex, opening, "none", signal);
  if (!link.ok) throw new Error(link.fault.message);
  // Asked for twice, now or by another driver next year: it runs once, and both have the same answer.
  const first = await link.value.perform(action, onOutput, signal);
  const again = await link.value.perform(action, onOutput, signal);
  link.value.acknowledge([action.id]);
  await link.value.close();
  // end
  expect(first).toMatchObject({
    value: { outcome: { kind: "ok", result: { stdout: "hello\n" } } },
  });
  expect(again).toEqual(first);
  expect(readFileSync(join(workspace, "runs"), "utf8")).toBe("run\n");
});

test("the README's example is the one that was run", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const here = await readFile(new URL(import.meta.url), "utf8");
  const shown = readme.split("```ts\n")[1]?.split("```")[0] ?? "none";
  const run = here.split("// example\n")[1]?.split("// end")[0] ?? "";
  expect(words(run)).toBe(words(shown));
});

/** The formatter breaks lines where the page does not. */
function words(text: string): string {
  return text.replaceAll(/\s+|,(?=\s*[})])/g, "");
}
