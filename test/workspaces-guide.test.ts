import { spawnSync } from "node:child_process";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { hasSandbox } from "./support/crash-process.ts";
import { openDesk, read, threadOf } from "./support/dev.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const LIMIT_MS = 120_000;

test("every command of the guide to workspaces does what it is there for", {
  timeout: LIMIT_MS,
}, async (context) => {
  context.skip(!hasSandbox, "bubblewrap is not installed");
  const guide = read(join(ROOT, "docs/guides/workspaces.md"));
  const blocks = [...guide.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  const commands = blocks.flatMap((text) => text.trimEnd().split("\n"));
  expect(commands).toHaveLength(9);
  const call = { tool: "write", arguments: { path: "a.txt", text: "two\n" } };
  const script = [{ reply: { text: "", calls: [call] } }, { reply: { text: "ok", calls: [] } }];
  const desk = await openDesk(script, { "a.txt": "one\n" });
  try {
    const apart = ["exec", "--json", "--mode", "full", "--cell", "bubblewrap", "x"];
    const id = threadOf(await desk.run(apart));
    const bin = join(ROOT, "node_modules/.bin");
    const env = { PATH: `${bin}${delimiter}${process.env.PATH}`, ID: id };
    for (const command of commands) {
      const ran = spawnSync("sh", ["-c", command], {
        cwd: desk.project,
        env: { ...env, HOME: desk.home, DEV_HOME: desk.home },
        encoding: "utf8",
      });
      expect(ran.status, `${command}\n${ran.stderr}`).toBe(0);
    }
    expect(read(join(desk.home, "workspaces", id, "tree/a.txt"))).toBe("one\n");
  } finally {
    await desk.close();
  }
});
