// Runs `dev exec` once in this process, against a scripted model, and leaves what V8 has compiled by then
// beside the bundle: see packages/cli/bin/program.cjs.
import { spawn } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { root } from "./step.mjs";

const { cachePath, load } = createRequire(import.meta.url)("../packages/cli/bin/program.cjs");

const bundle = join(root, "packages/cli/dist/dev.cjs");
const scratch = mkdtempSync(join(tmpdir(), "dev-warm-"));
const script = join(scratch, "script.json");
writeFileSync(script, JSON.stringify([{ reply: { text: "warm" } }]));
const model = spawn(process.execPath, [join(root, "packages/model/dist/scripted.mjs"), script], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await new Promise((resolve, reject) => {
  createInterface({ input: model.stdout }).once("line", resolve);
  model.once("exit", (code) => reject(new Error(`the scripted model ended with ${code}`)));
});
writeFileSync(
  join(scratch, "config.toml"),
  `model = "scripted/warm"\n[providers.scripted]\nwire = "openai-chat"\nbase_url = "${url}"\n`,
);
process.env.DEV_HOME = scratch;
process.argv.splice(1, process.argv.length, bundle, "exec", "-C", scratch, "hello");
rmSync(cachePath(bundle), { force: true });
const program = load(bundle);
process.on("exit", (code) => {
  model.kill();
  if (code === 0) {
    // Whole or not at all: somebody may be starting Dev meanwhile.
    writeFileSync(`${cachePath(bundle)}.new`, program.cache());
    renameSync(`${cachePath(bundle)}.new`, cachePath(bundle));
  }
  rmSync(scratch, { recursive: true, force: true });
});
program.run();
model.stdout.destroy();
model.unref();
