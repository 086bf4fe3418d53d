// Seals the core into packages/host/dist/core.wasm, unless what is there was made from what is here:
//   node tools/seal.mjs [--record] [--entry <guest> --out <module>]
// `--record` also writes what it was made from into packages/host/sealed.json, which is committed.
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { root } from "./step.mjs";

const HOST = `${root}packages/host/`;
const { values: args } = parseArgs({
  options: {
    record: { type: "boolean", default: false },
    entry: { type: "string", default: `${HOST}src/guest.ts` },
    out: { type: "string", default: `${HOST}dist/core.wasm` },
  },
});

const entry = resolve(args.entry);
const out = resolve(args.out);
const cache = `${root}.cache/seal/`;
const notePath = `${cache}${sha256(out).slice(0, 16)}.json`;
mkdirSync(cache, { recursive: true });
try {
  const record = fresh() ?? (await sealed());
  if (args.record) write(`${HOST}sealed.json`, `${JSON.stringify(record, null, 2)}\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}

/**
 * @typedef {import("./seal.ts").SealRecord} SealRecord
 * @returns {SealRecord | undefined} the record of what is there, if it is still true
 */
function fresh() {
  if (!existsSync(notePath) || !existsSync(out)) return undefined;
  const { tools, record } = JSON.parse(readFileSync(notePath, "utf8"));
  const isFresh =
    tools === toolsHash() &&
    sha256(readFileSync(out)) === record.sha256 &&
    Object.entries(record.sources).every(
      ([path, hash]) => existsSync(root + path) && sha256(readFileSync(root + path)) === hash,
    );
  return isFresh ? record : undefined;
}

/** @returns {Promise<SealRecord>} */
async function sealed() {
  const { module, record } = await (await loadSeal())(root, entry);
  mkdirSync(dirname(out), { recursive: true });
  write(out, module);
  write(notePath, JSON.stringify({ tools: toolsHash(), entry, record }));
  return record;
}

/**
 * Writes a file whole or not at all: somebody may be reading it meanwhile.
 *
 * @param {string} path
 * @param {string | Uint8Array} content
 */
function write(path, content) {
  const aside = `${path}.${process.pid}`;
  writeFileSync(aside, content);
  renameSync(aside, path);
}

/**
 * The tools are TypeScript, which the oldest Node.js that is supported does not run.
 *
 * @returns {Promise<typeof import("./seal.ts").seal>}
 */
async function loadSeal() {
  const { rolldown } = await import("rolldown");
  const bundle = await rolldown({
    input: `${root}tools/seal.ts`,
    platform: "node",
    external: /^(node:|rolldown|binaryen)/,
  });
  const file = `${cache}seal-${process.pid}.mjs`;
  await bundle.write({ file, format: "esm" });
  await bundle.close();
  const { seal } = await import(file);
  rmSync(file);
  return seal;
}

/** What the tools are, the engine and the bundler among them. */
function toolsHash() {
  const tools = readdirSync(`${root}tools`).filter((name) => /\.ts$|^seal\.mjs$/.test(name));
  const paths = [...tools.sort().map((name) => `tools/${name}`), "package-lock.json"];
  return sha256([entry, ...paths.map((path) => sha256(readFileSync(root + path)))].join("\n"));
}

/**
 * @param {string | Uint8Array} bytes
 * @returns {string}
 */
function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}
