// Runs every benchmark here, one after the other. Each prints a line with a ratio against a peer or a
// limit measured in the same run, and fails where it is past what it allows.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
let failed = 0;
for (const name of readdirSync(folder).sort()) {
  if (!name.endsWith(".mjs") || name === "run.mjs") continue;
  const ran = spawnSync(process.execPath, [folder + name], { stdio: "inherit" });
  if (ran.status !== 0) failed += 1;
}
if (failed > 0) process.exitCode = 1;
