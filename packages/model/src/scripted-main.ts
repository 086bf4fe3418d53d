import { readFileSync } from "node:fs";
import { parseScript, startScripted } from "./scripted.ts";

// Runs a scripted model until it is told to stop: `scripted-main script.json [port]`. It prints its
// base URL on a line of its own, and at the end, on stderr, what went against the script.
const [, , path, port = "0"] = process.argv;
if (path === undefined) {
  process.stderr.write("usage: scripted-main script.json [port]\n");
  process.exit(2);
}
const script = parseScript(readFileSync(path, "utf8"));
if (!script.ok) {
  process.stderr.write(`${path}: ${script.fault.message} ${script.fault.subject}\n`);
  process.exit(2);
}
const scripted = await startScripted(script.value, { port: Number(port) });
process.stdout.write(`${scripted.url}\n`);

async function stop(): Promise<void> {
  await scripted.close();
  for (const error of scripted.errors) process.stderr.write(`${error}\n`);
  process.exitCode = scripted.errors.length === 0 ? 0 : 1;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
