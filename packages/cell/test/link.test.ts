import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { bundleAgent, exec, scratch, sh, TestCell } from "./cell.ts";

let bundle = "";
beforeAll(async () => {
  const { mkdtemp } = await import("node:fs/promises");
  bundle = (await bundleAgent(await mkdtemp("/tmp/dev-agent-"))).path;
});

test("a command's output and exit code come back", async () => {
  const cell = await TestCell.make(bundle);
  const { perform, link } = await cell.start();
  const outcome = await perform(1, sh("echo out; echo err >&2; exit 3"));
  console.log(outcome);
  expect(outcome).toMatchObject({
    kind: "ok",
    result: { end: { kind: "exit", code: 3 }, stdout: "out\n", stderr: "err\n" },
  });
  console.log(await perform(2, { kind: "write", path: "a/b.txt", text: "x\n", expect: "absent" }));
  await link.close();
});
