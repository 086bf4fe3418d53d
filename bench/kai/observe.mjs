// Runs the command of each case twice, once with a probe in it, and keeps what it said and ran.
//
//   node bench/kai/observe.mjs CASES_DIR KNOWN_DIR [--only GLOB]
//
// All that is learned and measured of the order of candidates is made of this, with no further test
// run. Cases that KNOWN_DIR has already are passed over; it lies outside of the repository.
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readCases } from "./case.mjs";
import { observed } from "./study.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string" } },
});
const [folder, out] = positionals;
if (folder === undefined || out === undefined) {
  throw new Error("usage: observe.mjs CASES_DIR KNOWN_DIR");
}
mkdirSync(out, { recursive: true });
for (const one of readCases(folder, values.only)) {
  const file = join(out, `${one.id}.json`);
  if (existsSync(file)) continue;
  const known = await observed(one);
  writeFileSync(`${file}.part`, JSON.stringify(known));
  renameSync(`${file}.part`, file);
  console.log(`${one.id}: ${known === null ? "its command passes" : Math.round(known.runMs)} ms`);
}
