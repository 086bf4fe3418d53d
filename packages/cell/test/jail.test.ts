import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openJail } from "../src/index.ts";

let root = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "dev-jail-")));
  mkdirSync(join(root, "state/run"), { recursive: true });
  writeFileSync(join(root, "state/secret"), "hunter2");
  writeFileSync(join(root, "state/run/copy"), "a copy");
  writeFileSync(join(root, "key"), "hunter2");
  writeFileSync(join(root, "plain"), "plain");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("what is masked is hidden, but for what a process is to see or to write in it", async (context) => {
  const jail = await openJail({
    masked: [join(root, "state"), join(root, "key"), "/no/such/thing"],
  });
  context.skip(!jail.ok, "nothing confines a process here");
  if (!jail.ok) return;
  writeFileSync(join(root, "filter"), jail.value.filter);
  const script =
    "cat plain state/run/copy; cat key; cat state/secret; echo x > state/run/new; ls state";
  const [program, ...args] = jail.value.command({
    argv: ["/bin/sh", "-c", script],
    cwd: root,
    writable: [join(root, "state/run")],
    visible: [root],
  });
  const filter = openSync(join(root, "filter"), "r");
  const ran = spawnSync(program, args, {
    stdio: ["ignore", "pipe", "pipe", filter],
    encoding: "utf8",
  });
  expect(ran.stdout).toBe("plaina copyrun\n");
  expect(ran.stderr).toMatch(/state\/secret/);
});
