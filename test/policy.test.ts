import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Desk, openDesk } from "./support/dev.ts";

let desk: Desk;
afterEach(() => desk.close());

const reply = (text: string, ...calls: readonly [string, unknown][]) => ({
  reply: { text, calls: calls.map(([tool, args]) => ({ tool, arguments: args })) },
});

const SECRET = { "secret/key": "hunter2\n", "plain.txt": "no hunter here\n" };
const denied = (where: string): void => {
  mkdirSync(join(where, ".dev"), { recursive: true });
  const rule = `[[policy.rules]]\ndecision = "deny"\npaths = ["secret/**"]\n`;
  writeFileSync(join(where, ".dev/config.toml"), rule);
};

test("a denied file is not read through a link, nor shown by a search from above it", async () => {
  desk = await openDesk(
    [
      reply("", ["read", { path: "lsec/key" }], ["search", { pattern: "hunter" }]),
      { ...reply("I may not"), expect: ["refused, nothing was done", "no hunter here"] },
    ],
    SECRET,
  );
  denied(desk.project);
  symlinkSync("secret", join(desk.project, "lsec"));
  await desk.run(["exec", "--mode", "full", "tell me the key"]);
  expect(desk.model.errors).toEqual([]);
  expect(desk.model.requests).toHaveLength(2);
  expect(JSON.stringify(desk.model.requests)).not.toContain("hunter2");
});

test("a link that a command of the same reply makes is seen before what goes through it", async () => {
  desk = await openDesk(
    [
      reply("", ["exec", { argv: ["ln", "-s", "secret", "l"] }], ["read", { path: "l/key" }]),
      { ...reply("I may not"), expect: ["refused, nothing was done"] },
    ],
    SECRET,
  );
  denied(desk.project);
  await desk.run(["exec", "--mode", "full", "tell me the key"]);
  expect(desk.model.errors).toEqual([]);
  expect(desk.model.requests).toHaveLength(2);
  expect(JSON.stringify(desk.model.requests)).not.toContain("hunter2");
});

test("a project whose settings are a directory is refused with exit code 2", async () => {
  desk = await openDesk([]);
  mkdirSync(join(desk.project, ".dev/config.toml"), { recursive: true });
  const ran = await desk.run(["exec", "hello"]);
  expect(ran.code).toBe(2);
  expect(ran.stderr).toContain(".dev/config.toml");
  expect(ran.stderr).not.toContain("    at ");
});
