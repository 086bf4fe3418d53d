// Records what learn.mjs learns from: of each case what is known of each function, line and candidate.
//
//   node bench/kai/record.mjs CASES_DIR KNOWN_DIR OUT.jsonl [--only GLOB] [--no-candidates]
//
// CASES_DIR is a folder of cases (see case.mjs), or one that inject.mjs has made; KNOWN_DIR is what
// observe.mjs has made of it, and no test is run here. OUT lies outside of the repository; cases that it
// has already are passed over, so a run that was stopped goes on. To make the candidates takes most of
// the time, and only the operators learn from them.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { locate } from "../../packages/kai/dist/locate/locate.js";
import { openSyntax } from "../../packages/kai/dist/syntax/syntax.js";
import { readCases } from "./case.mjs";
import { seeded } from "./chance.mjs";
import { candidateRows, clues, knownOf, rows, truthOf } from "./study.mjs";

/** Places whose lines are recorded; of the others only the right ones' are. */
const LINED = 15;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string" }, "no-candidates": { type: "boolean", default: false } },
});
const [folder, knownFolder, out] = positionals;
if (out === undefined) throw new Error("usage: record.mjs CASES_DIR KNOWN_DIR OUT");

const done = new Set(
  existsSync(out)
    ? readFileSync(out, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line).id)
    : [],
);
const syntax = await openSyntax();
for (const one of readCases(folder, values.only)) {
  if (done.has(one.id)) continue;
  const record = await recordOf(one);
  appendFileSync(out, `${JSON.stringify(record)}\n`);
  const { covered, blind } = record;
  const place = (view) => view?.functions.findIndex(({ right }) => right) ?? "-";
  console.log(
    `${one.id}: function ${place(covered)} ${place(blind)}, fix ${record.candidates?.at}`,
  );
}
syntax.close();

async function recordOf(one) {
  const seen = knownOf(knownFolder, one);
  if (seen === null) return { id: one.id, kind: one.kind, skipped: "nothing failing is known" };
  const known = await clues(one, seen, syntax);
  const truth = await truthOf(one, syntax);
  const view = (given) => given && { functions: trimmed(rows(locate(given), truth)) };
  return {
    id: one.id,
    kind: one.kind,
    runMs: seen.runMs,
    coverMs: seen.coverMs,
    why: seen.why,
    covered: view(known.covered),
    blind: view(known.blind),
    candidates: values["no-candidates"]
      ? null
      : candidateRows(known.covered ?? known.blind, one, seeded(one.id)),
  };
}

function trimmed(functions) {
  return functions.map((place, at) =>
    place.right || at < LINED ? place : { ...place, lines: [] },
  );
}
