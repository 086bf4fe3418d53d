import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connectLink, DEFAULT_CELL_LIMITS, type OnOutput, type Opening } from "@dev/cell";
import { cellId } from "@dev/protocol";
import { afterAll, expect, test } from "vitest";
import { action as actionOf, bundleAgent, IDLE, ptyAddon, rgPath, sh } from "./cell.ts";

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
    pty: ptyAddon,
    limits: DEFAULT_CELL_LIMITS,
    variables: [],
    hasNetwork: false,
    certificates: "",
  };
  const action = actionOf(1, sh("echo run >> runs; echo hello"));
  const onOutput: OnOutput = () => undefined;
  const signal = IDLE;
  const stdio = ["ignore", "inherit", "inherit", "pipe"] as const;
  const child = spawn(process.execPath, [agent], { stdio: [...stdio] });
  const link = await connectLink(child.stdio[3] as Duplex, opening, "none", {}, signal);
  if (!link.ok) throw new Error(link.fault.message);
  // Asked for twice, now or by another driver next year: it runs once, and both have the same answer.
  const first = await link.value.perform(action, onOutput, signal);
  const again = await link.value.perform(action, onOutput, signal);
  link.value.acknowledge([action.id]);
  await link.value.close();
  expect(first).toMatchObject({
    value: { outcome: { kind: "ok", result: { stdout: "hello\n" } } },
  });
  expect(again).toEqual(first);
  expect(readFileSync(join(workspace, "runs"), "utf8")).toBe("run\n");
});
