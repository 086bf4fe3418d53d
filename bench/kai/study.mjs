// Studies one case with the parts of Kai that rank: what the command says, what its tests ran, where
// the ranking puts the fault, and which of the candidates is the right one. It tries no candidate.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cover } from "../../packages/kai/dist/locate/coverage.js";
import { FUNCTION_FEATURES, LINE_FEATURES } from "../../packages/kai/dist/locate/feature.js";
import { locate, suspectsOf } from "../../packages/kai/dist/locate/locate.js";
import { placesOf } from "../../packages/kai/dist/locate/place.js";
import { shortlist } from "../../packages/kai/dist/locate/shortlist.js";
import { candidates } from "../../packages/kai/dist/operator/candidates.js";
import { FEATURES } from "../../packages/kai/dist/operator/feature.js";
import { symptomsOf } from "../../packages/kai/dist/operator/symptom.js";
import { runnerOf } from "../../packages/kai/dist/report/invocation.js";
import { readReport } from "../../packages/kai/dist/report/reading.js";
import { workspaceOf } from "../../packages/kai/dist/report/workspace.js";
import { echoes } from "../../packages/kai/dist/search/echo.js";
import { fill, nearest, openTrigrams } from "../../packages/kai/dist/search/trigram.js";
import { languageOf } from "../../packages/kai/dist/syntax/grammar.js";
import { filesOf, hunks, inCopy } from "./case.mjs";
import { plainEnv, plainShell, run } from "./shell.mjs";

const RUN_DEADLINE_MS = 60_000;
const COVER_DEADLINE_MS = 8_000;
const CANDIDATES_MAX = 5_000;
/** Wrong candidates that are kept of a case, drawn evenly from all. */
const KEPT_MAX = 1_500;
const SUSPECTS_MAX = 400;
const LINKED = { linked: true };
/** Code of others, which is not what is at fault. */
const FOREIGN = ["node_modules", ".venv", "venv", "site-packages", "vendor", "__pycache__"];

/**
 * What the command of a case says and what its tests ran, as JSON can hold it, so that all that is made
 * of it can be made again with no test run; null where the command passes.
 */
export async function observed(one) {
  const failed = await inCopy(
    one.tree,
    async (place) => {
      const output = await run(one.command, place, RUN_DEADLINE_MS);
      if (output.end.kind === "exit" && output.end.code === 0) return null;
      const workspace = workspaceOf(place, filesOf(place, "", FOREIGN));
      const command = { argv: one.command, cwd: "." };
      const report = readReport(runnerOf(command, place), command, output, workspace);
      return { report, runMs: output.endMs };
    },
    LINKED,
  );
  if (failed === null) return null;
  const { report, runMs } = failed;
  const began = performance.now();
  const covered = await inCopy(
    one.tree,
    (place, home) =>
      cover(
        {
          shell: plainShell,
          command: { argv: one.command, cwd: "." },
          report,
          root: place,
          scratch: join(home, "scratch"),
          env: plainEnv(),
          deadlineMs: Math.min(COVER_DEADLINE_MS, 2_000 + 4 * runMs),
        },
        AbortSignal.timeout(RUN_DEADLINE_MS),
      ),
    LINKED,
  );
  const coverMs = performance.now() - began;
  const coverage = covered.kind === "covered" ? covered.coverage : null;
  const why = covered.kind === "none" ? covered.why : "";
  const lines = coverage && [...coverage.files].map(([file, hits]) => [file, [...hits]]);
  return { report, runMs, coverMs, why, coverage: coverage && { ...coverage, files: lines } };
}

/** What observe.mjs has kept of a case; null where it has nothing, or the command passed. */
export function knownOf(folder, one) {
  const file = join(folder, `${one.id}.json`);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
}

/** Everything about a case before a candidate is made, of what was observed of it. */
export async function clues(one, { report, coverage: kept }, syntax) {
  const coverage = kept && {
    ...kept,
    files: new Map(kept.files.map(([file, hits]) => [file, new Map(hits)])),
  };
  const files = filesOf(one.tree, "", FOREIGN).filter((file) => languageOf(file) !== "other");
  const read = (file) => {
    const path = join(one.tree, file);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  };
  const index = openTrigrams();
  const near = nearest(
    files,
    report.failures.flatMap(({ file }) => (file === null ? [] : [file])),
  );
  await fill(index, near, async (file) => read(file), AbortSignal.timeout(RUN_DEADLINE_MS));
  const echoed = echoes(index, report);
  const sourcesOf = async (known) => {
    const short = shortlist(near, { report, coverage: known, echoes: echoed });
    return Promise.all(short.files.map((file) => syntax.read(file, read(file))));
  };
  const given = { report, echoes: echoed, changedMs: new Map() };
  return {
    covered: coverage && { ...given, coverage, sources: await sourcesOf(coverage) },
    blind: { ...given, coverage: null, sources: await sourcesOf(null) },
  };
}

/** By file, the lines that a right change touches, as `file:line`, and the functions that hold them. */
export async function truthOf(one, syntax) {
  const lines = new Set();
  const functions = new Set();
  for (const [file, right] of one.fixed) {
    const text = readFileSync(join(one.tree, file), "utf8");
    const source = await syntax.read(file, text);
    const owners = new Map();
    for (const place of placesOf(source)) {
      const name = `${file}:${place.function?.firstLine ?? 0}`;
      for (const { line } of place.lines) owners.set(line, name);
    }
    const all = [...owners.keys()].sort((a, b) => a - b);
    const accept = (line) => {
      lines.add(`${file}:${line}`);
      functions.add(owners.get(line));
    };
    for (const hunk of hunks(text, right)) {
      const gone = hunk.lines.filter((line) => owners.has(line));
      for (const line of gone) accept(line);
      if (gone.length > 0 || !hunk.added.some(isCode)) continue;
      const before = all.findLast((line) => line <= hunk.before);
      const after = all.find((line) => line > hunk.before);
      if (before !== undefined) accept(before);
      const isSame = before === undefined || owners.get(before) === owners.get(after);
      if (after !== undefined && isSame) accept(after);
    }
  }
  return { lines, functions };
}

function isCode(line) {
  return line.trim() !== "" && !/^\s*(#|\/\/|\*|\/\*|""")/.test(line);
}

/** A ranking as a row of what is known of each function and line, with what is right marked. */
export function rows(ranking, truth) {
  return ranking.map((place) => {
    const key = `${place.file}:${place.function === null ? 0 : place.firstLine}`;
    return {
      right: truth.functions.has(key),
      values: FUNCTION_FEATURES.map((name) => place.values[name]),
      lines: place.lines.map(({ line, values }) => ({
        right: truth.lines.has(`${place.file}:${line}`),
        values: LINE_FEATURES.map((name) => values[name]),
      })),
    };
  });
}

/**
 * The candidates of a case as they are made now, each as `[operator, log of suspicion, line, feature,
 * value, feature, value…]`, features by their numbers in FEATURES: `at` is the place of the right one
 * among all, and -1 where none is it. `random` draws the wrong ones that are kept.
 */
export function candidateRows(given, one, random) {
  const kept = [];
  let right = null;
  const { at, count } = ordered(given, one, (candidate, isRight, number, suspicion) => {
    const row = rowOf(candidate, suspicion);
    if (isRight) right = row;
    else if (kept.length < KEPT_MAX) kept.push(row);
    else {
      const slot = Math.floor(random() * (number + 1));
      if (slot < KEPT_MAX) kept[slot] = row;
    }
  });
  return { at, count, right, wrong: kept };
}

/** Where the right candidate is in the order that they are made in, `at`, and how many are made in all. */
export function ordered(given, one, each = () => {}, max = CANDIDATES_MAX, weights = undefined) {
  const ranking = locate(given);
  const suspects = suspectsOf(ranking, SUSPECTS_MAX);
  const suspicions = new Map(
    suspects.map(({ file, firstLine, weight }) => [`${file}:${firstLine}`, weight]),
  );
  const isRight = judgeOf(given, one);
  let count = 0;
  let at = -1;
  for (const candidate of candidates(given.sources, suspects, symptomsOf(given.report), weights)) {
    const right = at < 0 && isRight(candidate);
    const { file, line } = candidate.site;
    each(candidate, right, count, suspicions.get(`${file}:${line}`) ?? 1e-9);
    if (right) at = count;
    count += 1;
    if (count >= max) break;
  }
  return { at, count };
}

function rowOf({ operator, features, site }, suspicion) {
  const round = (value) => Math.round(value * 1_000) / 1_000;
  const values = features.flatMap(([name, value]) =>
    value === 0 ? [] : [NUMBERS.get(name), round(value)],
  );
  return [operator, round(Math.log(suspicion)), site.line, ...values];
}

const NUMBERS = new Map(FEATURES.map((name, at) => [name, at]));

function judgeOf(given, one) {
  const texts = new Map(given.sources.map(({ file, text }) => [file, text]));
  const wanted = new Map();
  const spans = new Map();
  for (const [file, right] of one.fixed) {
    wanted.set(file, bare(right));
    const lines = hunks(texts.get(file) ?? "", right).flatMap(({ lines: gone, before }) => [
      ...gone,
      before,
    ]);
    spans.set(file, [Math.min(...lines) - 2, Math.max(...lines) + 2]);
  }
  return ({ edits, site }) => {
    const text = texts.get(site.file);
    const want = wanted.get(site.file);
    const [from, to] = spans.get(site.file) ?? [0, -1];
    if (wanted.size !== 1 || want === undefined || text === undefined) return false;
    if (site.line < from || site.line > to) return false;
    let made = "";
    let at = 0;
    for (const edit of edits) {
      made += text.slice(at, edit.from) + edit.text;
      at = edit.to;
    }
    return bare(made + text.slice(at)) === want;
  };
}

/** A text without what changes nothing: comments and texts that stand alone, blank lines, spaces. */
function bare(text) {
  return text
    .replace(/^[ \t]*("""[\s\S]*?"""|'''[\s\S]*?''')[ \t]*$/gm, "")
    .split("\n")
    .map((line) => line.replace(/(^|\s)(#|\/\/) .*$/, ""))
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const indent = line.length - line.trimStart().length;
      return `${indent} ${line.replace(/\s+/g, "")}`;
    })
    .join("\n");
}

/** How many functions, and how many lines of all, come before the first right one; null where none is. */
export function ranksOf(ranking, truth) {
  const lines = ranking
    .flatMap(({ file, lines: own }) => own.map((line) => ({ ...line, file })))
    .toSorted((a, b) => b.share - a.share);
  const rank = (at) => (at < 0 ? null : at);
  return {
    function: rank(
      ranking.findIndex((place) =>
        truth.functions.has(`${place.file}:${place.function === null ? 0 : place.firstLine}`),
      ),
    ),
    line: rank(lines.findIndex(({ file, line }) => truth.lines.has(`${file}:${line}`))),
  };
}
