import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDesk } from "./support/dev.ts";

const NETWORK = `
[network.secrets.forge]
env_key = "FORGE_TOKEN"
[[network.allow]]
host = "git.example.com"
paths = ["/team/project.git"]
secret = "forge"
push = true
`;

test("doctor says what cells would reach, and which secret is missing, but shows none", {
  timeout: 120_000,
}, async () => {
  const desk = await openDesk([]);
  onTestFinished(() => desk.close());
  const closed = await desk.run(["doctor"]);
  expect(closed.stdout).toMatch(/✓ network +cells that are confined reach nothing/);
  appendFileSync(join(desk.home, "config.toml"), NETWORK);
  const missing = await desk.run(["doctor"]);
  expect(missing.stdout).toMatch(
    /✓ network +git\.example\.com:443 \/team\/project\.git with a secret, also to push\n/,
  );
  expect(missing.stdout).toMatch(/! network +secret forge: there is no secret there/);
  const given = await desk.run(["doctor"], { env: { FORGE_TOKEN: "a-token-of-a-person" } });
  expect(given.stdout).not.toMatch(/! network/);
  expect(given.stdout).not.toContain("a-token-of-a-person");
});
