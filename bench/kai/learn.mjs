// Makes both weights files, of the ranking and of the operators, from records of known faults.
//
//   node bench/kai/learn.mjs RECORDS.jsonl… [--write] [--part locate|operator]
//
// The records are made by record.mjs, from cases in a folder and from faults that inject.mjs has put
// into real packages. Printed is how well the ranking does on faults that it has not learned from: by
// kind, all other kinds learned from, and in five parts, cases of one number in one part whatever their
// language. With --write the weights of all are written, with a line on how they were made.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { FUNCTION_FEATURES, LINE_FEATURES } from "../../packages/kai/dist/locate/feature.js";
import { operators } from "../../packages/kai/dist/operator/candidates.js";
import { FEATURES } from "../../packages/kai/dist/operator/feature.js";
import { fitted, score } from "./logit.mjs";
import { placesRow } from "./place.mjs";

const HOLD = { functions: 1, lines: 1 };
/** An injected fault is less like what people do wrong: it counts for the places, less for the changes. */
const INJECTED = { functions: 1, lines: 0.5 };
/** The part of what `spread` takes from an operator in the mean that it gets back. */
const EVENED = 0.5;
/**
 * What the weights are where the records say nothing: they know nothing of git, and the programs of a
 * few lines among them have hardly two functions to choose from.
 */
const PRIOR = {
  functions: {
    crash: 1,
    frame: 1,
    ochiai: 1,
    "ochiai-top": 2,
    covered: 1,
    uncovered: -2,
    called: 1,
    reached: 0.5,
    rival: -2,
    text: 2,
    named: 0.5,
    echo: 0.5,
    sibling: 1,
    imported: 0.5,
    recent: 0.5,
    "top-level": -1,
  },
  lines: { crash: 0.5, ochiai: 1, covered: 0.5, uncovered: -2, heading: -1, "piece-count": 0.5 },
};
const FOLDS = 5;
const TOPS = [1, 3, 5, 10];
const locateFile = new URL("../../packages/kai/src/locate/weights.json", import.meta.url);
const operatorFile = new URL("../../packages/kai/src/operator/weights.json", import.meta.url);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: "boolean" }, part: { type: "string" } },
});
const records = positionals
  .flatMap((file) => readFileSync(file, "utf8").split("\n").filter(Boolean))
  .map((line) => JSON.parse(line))
  .filter((record) => record.skipped === undefined);
const kinds = [...new Set(records.map(({ kind }) => kind))].sort();
const made = `${records.length} faults: ${kinds
  .map((kind) => `${records.filter((record) => record.kind === kind).length} ${kind}`)
  .join(", ")}`;
console.log(made);

if (values.part !== "operator") learnLocate();
if (values.part !== "locate") learnOperators();

function learnLocate() {
  const old = JSON.parse(readFileSync(locateFile, "utf8"));
  for (const view of ["covered", "blind"]) {
    const seen = records.filter((record) => record[view]);
    console.log(`\nlocate, ${view}: of the faults, how many are in the first ${TOPS.join(", ")}`);
    judged("each kind from the others", seen, view, (record) => record.kind);
    judged("in five parts", seen, view, foldOf);
    judged("as learned from all (not held out)", seen, view, null);
    old[view] = named(learned(seen, view));
  }
  if (!values.write) return;
  const text = { version: 1, made, covered: old.covered, blind: old.blind };
  writeFileSync(locateFile, `${JSON.stringify(text, null, 2)}\n`);
}

function foldOf({ id }) {
  const last = id.split("-").at(-1);
  return [...last].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % 9973, 7) % FOLDS;
}

function learned(seen, view) {
  const functions = seen.map((record) => ({
    weight: weightOf(record, "functions"),
    choices: record[view].functions.map(choiceOf),
  }));
  const lines = seen.flatMap((record) =>
    record[view].functions
      .filter(({ right }) => right)
      .map((place) => ({
        weight: weightOf(record, "lines"),
        choices: place.lines.map(choiceOf),
      })),
  );
  return {
    functions: fitted(
      functions,
      FUNCTION_FEATURES.map((name) => PRIOR.functions[name] ?? 0),
      HOLD.functions,
    ),
    lines: fitted(
      lines,
      LINE_FEATURES.map((name) => PRIOR.lines[name] ?? 0),
      HOLD.lines,
    ),
  };
}

function weightOf({ kind }, part) {
  return kind.startsWith("injected") ? INJECTED[part] : 1;
}

function choiceOf({ right, values: all }) {
  return { right, values: all.flatMap((value, at) => (value === 0 ? [] : [[at, value]])) };
}

function named({ functions, lines }) {
  const rounded = (weight) => Math.round(weight * 1000) / 1000;
  return {
    functions: Object.fromEntries(
      FUNCTION_FEATURES.map((name, at) => [name, rounded(functions[at])]),
    ),
    lines: Object.fromEntries(LINE_FEATURES.map((name, at) => [name, rounded(lines[at])])),
  };
}

/** Prints the tops by kind, of weights learned from what is in no part with the record. */
function judged(title, seen, view, partOf) {
  const parts = partOf === null ? [null] : [...new Set(seen.map(partOf))];
  const found = new Map();
  for (const part of parts) {
    const known = seen.filter((record) => part === null || partOf(record) !== part);
    const asked = seen.filter((record) => part === null || partOf(record) === part);
    if (known.length === 0) continue;
    const weights = learned(known, view);
    for (const record of asked) {
      const ranks = ranksOf(record[view], weights);
      found.set(record.kind, [...(found.get(record.kind) ?? []), ranks]);
    }
  }
  console.log(`  ${title}`);
  for (const kind of [...found.keys()].sort()) {
    const ranks = found.get(kind);
    const line = (name) =>
      TOPS.map((top) => ranks.filter((rank) => rank[name] < top).length).join(" / ");
    const row = `functions ${line("function").padEnd(20)} lines ${line("line")}`;
    console.log(`    ${kind.padEnd(16)} of ${String(ranks.length).padEnd(4)} ${row}`);
  }
}

/** Where the first right function is, and the first right line among the lines of all. */
function ranksOf({ functions }, weights) {
  const scores = functions.map((place) => score(choiceOf(place), weights.functions));
  const shares = softmax(scores);
  const lines = functions.flatMap((place, at) => {
    const parts = softmax(place.lines.map((line) => score(choiceOf(line), weights.lines)));
    return place.lines.map(({ right }, index) => ({ right, share: shares[at] * parts[index] }));
  });
  return {
    function: rankOf(functions.map(({ right }, at) => ({ right, share: shares[at] }))),
    line: rankOf(lines),
  };
}

function rankOf(choices) {
  const ranked = choices.toSorted((a, b) => b.share - a.share);
  const at = ranked.findIndex(({ right }) => right);
  return at < 0 ? Number.POSITIVE_INFINITY : at;
}

function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((each) => Math.exp(each - most));
  const all = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / all);
}

/**
 * How likely an operator is by itself comes from prior.json. As `spread` counts against those that can be
 * applied at many places, each gets back a part of what that takes from it on the whole: then it is set
 * back where it has more places than it has elsewhere.
 */
function learnOperators() {
  const prior = JSON.parse(readFileSync(new URL("prior.json", import.meta.url), "utf8"));
  const spreads = spreadsOf(records.filter(({ candidates }) => candidates?.right));
  const middle = middleOf(Object.values(prior.operators));
  const evened = (name) =>
    (prior.operators[name] ?? middle) - EVENED * prior.features.spread * (spreads.get(name) ?? 0);
  const rounded = (weight) => Math.round(weight * 1000) / 1000;
  console.log(
    `\noperators: ${operators.length}, and of ${spreads.size} it is known where they apply`,
  );
  placed();
  if (!values.write) return;
  const text = {
    version: 2,
    made,
    suspicion: prior.suspicion,
    operators: Object.fromEntries(operators.map(({ name }) => [name, rounded(evened(name))])),
    features: Object.fromEntries(FEATURES.map((name) => [name, prior.features[name] ?? 0])),
    groups: prior.groups,
  };
  writeFileSync(operatorFile, `${JSON.stringify(text, null, 2)}\n`);
}

/** By operator, what `spread` is in the mean of the cases in which it applies. */
function spreadsOf(known) {
  const spread = FEATURES.indexOf("spread");
  const sums = new Map();
  for (const { candidates } of known) {
    const own = new Map();
    for (const [operator, , , ...pairs] of [candidates.right, ...candidates.wrong]) {
      for (let at = 0; at < pairs.length; at += 2) {
        if (pairs[at] === spread) own.set(operator, pairs[at + 1]);
      }
    }
    for (const [operator, value] of own) {
      const { sum, count } = sums.get(operator) ?? { sum: 0, count: 0 };
      sums.set(operator, { sum: sum + value, count: count + 1 });
    }
  }
  return new Map([...sums].map(([operator, { sum, count }]) => [operator, sum / count]));
}

function middleOf(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
}

/** Prints where the right candidates came when the records were made. */
function placed() {
  for (const kind of kinds) {
    const own = records.filter((record) => record.kind === kind && record.candidates);
    if (own.length > 0)
      console.log(
        `  ${placesRow(
          kind,
          own.map(({ candidates }) => candidates.at),
        )}`,
      );
  }
}
