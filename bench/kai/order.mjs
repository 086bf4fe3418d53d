// Prints where the right candidate comes in the order that candidates are tried in, with no test run.
//
//   node bench/kai/order.mjs CASES_DIR KNOWN_DIR [--only GLOB] [--weights FILE] [--max N] [--each]
//
// The order is the one of the ranking with coverage where there is some. A candidate is right where its
// text is the fixed file's, but for spaces and comments. KNOWN_DIR is made by observe.mjs.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openSyntax } from "../../packages/kai/dist/syntax/syntax.js";
import { readCases } from "./case.mjs";
import { placesHead, placesRow } from "./place.mjs";
import { clues, knownOf, ordered } from "./study.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string" },
    weights: { type: "string" },
    max: { type: "string", default: "6000" },
    each: { type: "boolean", default: false },
  },
});
const [folder, known] = positionals;
if (known === undefined) throw new Error("usage: order.mjs CASES_DIR KNOWN_DIR");
const weights = values.weights && JSON.parse(readFileSync(values.weights, "utf8"));

const syntax = await openSyntax();
const found = new Map();
let cpuMs = 0;
let madeCount = 0;
for (const one of readCases(folder, values.only)) {
  const seen = knownOf(known, one);
  if (seen === null) continue;
  const { covered, blind } = await clues(one, seen, syntax);
  const before = process.cpuUsage();
  let right = null;
  const each = (candidate, isRight) => {
    if (isRight) right = candidate;
  };
  const { at, count } = ordered(covered ?? blind, one, each, Number(values.max), weights);
  const { user, system } = process.cpuUsage(before);
  cpuMs += (user + system) / 1_000;
  madeCount += count;
  found.set(one.kind, [...(found.get(one.kind) ?? []), at]);
  if (values.each) console.log(`${one.id}: ${at} of ${count}, ${right?.operator ?? "-"}`);
}
syntax.close();
console.log(placesHead);
for (const [kind, places] of [...found].sort()) console.log(placesRow(kind, places));
console.log(`${(cpuMs / madeCount).toFixed(3)} ms CPU a candidate, of ${madeCount}`);
