#!/usr/bin/env node
import { existsSync } from "node:fs";

const bundle = new URL("../dist/dev.mjs", import.meta.url);
if (existsSync(bundle)) {
  await import(bundle.href);
} else {
  process.stderr.write("Dev is not built yet: run `make build`\n");
  process.exitCode = 2;
}
