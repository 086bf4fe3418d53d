#!/usr/bin/env node
const { existsSync } = require("node:fs");
const { join } = require("node:path");
const { load } = require("./program.cjs");

const bundle = join(__dirname, "../dist/dev.cjs");
if (existsSync(bundle)) {
  load(bundle).run();
} else {
  process.stderr.write("Dev is not built yet: run `make build`\n");
  process.exitCode = 2;
}
