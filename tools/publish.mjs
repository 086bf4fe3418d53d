// Checks every package as npm would publish it: what it exports is there, and is what it says.
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

const packages = fileURLToPath(new URL("../packages/", import.meta.url));

for (const name of readdirSync(packages)) {
  const { messages, pkg } = await publint({ pkgDir: packages + name, pack: false, strict: true });
  for (const message of messages) {
    process.stdout.write(`@dev/${name}: ${formatMessage(message, pkg, { color: false })}\n`);
    process.exitCode = 1;
  }
}
