// Runs `dev fix --no-model` on a folder of cases, holds what it says to what is, and prints a table.
//
//   node bench/kai/run.mjs CASES_DIR [--only GLOB] [--json] [--dev PATH] [--jobs N] [--timeout S]
//     [--out FILE.jsonl] [--visible stated|all] [--git] [--kills SEED] [--no-locate]
//
// A case is a folder with case.json (`command`, which fails; `wide`, which a right fix passes too and
// which the search is not shown), tree/ and fixed/. --out keeps each result as it comes, and a run with
// the same file goes on where the last was stopped. --visible all shows the search the wide command.
// --kills ends each run at a random moment, half of them as Ctrl-C does. --dev is a program, or a
// script for node. It exits with 1 where a bar is missed; parts of a folder have no bars to reach.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { locate } from "../../packages/kai/dist/locate/locate.js";
import { openSyntax } from "../../packages/kai/dist/syntax/syntax.js";
import { attempted } from "./attempt.mjs";
import { readCases } from "./case.mjs";
import { seeded } from "./chance.mjs";
import { clues, observed, ranksOf, truthOf } from "./study.mjs";
import { printed, summary } from "./table.mjs";

const KILL_WITHIN_MS = 6_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "*" },
    json: { type: "boolean", default: false },
    dev: {
      type: "string",
      default: fileURLToPath(new URL("../../node_modules/.bin/dev", import.meta.url)),
    },
    jobs: { type: "string", default: "1" },
    timeout: { type: "string", default: "60" },
    out: { type: "string" },
    visible: { type: "string", default: "stated" },
    git: { type: "boolean", default: false },
    kills: { type: "string" },
    "no-locate": { type: "boolean", default: false },
  },
});
const [folder] = positionals;
if (folder === undefined || !["stated", "all"].includes(values.visible)) {
  throw new Error("usage: run.mjs CASES_DIR [--only GLOB] [--visible stated|all] …");
}

const cases = readCases(folder, values.only).filter(
  ({ wide }) => values.visible === "stated" || wide !== null,
);
const done = values.out === undefined ? new Map() : resumed(values.out);
const syntax = await openSyntax();
const waiting = cases.filter(({ id }) => !done.has(id));
await Promise.all(Array.from({ length: Number(values.jobs) }, work));
syntax.close();

const attempts = cases.flatMap(({ id }) => done.get(id) ?? []);
const { rows, isMet } = summary(attempts, values.visible);
if (values.json) console.log(JSON.stringify({ rows, attempts }));
else console.log(`\n${printed(attempts, values.visible).join("\n")}`);
if (!isMet) process.exitCode = 1;

function resumed(file) {
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  return new Map(lines.map((line) => JSON.parse(line)).map((attempt) => [attempt.id, attempt]));
}

async function work() {
  for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
    const attempt = await attempted(one, how(one));
    const known = values["no-locate"] || attempt.killed ? null : await located(one);
    const told = { ...attempt, locate: known };
    done.set(one.id, told);
    if (values.out !== undefined) appendFileSync(values.out, `${JSON.stringify(told)}\n`);
    if (!values.json) console.log(lineOf(told));
  }
}

function how(one) {
  const isScript = /\.[cm]?js$/.test(values.dev);
  const random = values.kills === undefined ? null : seeded(`${values.kills} ${one.id}`);
  return {
    dev: isScript ? [process.execPath, resolve(values.dev)] : [resolve(values.dev)],
    limitS: Number(values.timeout),
    isGit: values.git,
    visible: values.visible,
    kill: random && {
      signal: random() < 0.5 ? "SIGKILL" : "SIGINT",
      afterMs: random() * KILL_WITHIN_MS,
    },
  };
}

/** Where the ranking has the right function and line, with coverage and without. */
async function located(one) {
  const seen = await observed(one);
  if (seen === null) return null;
  const known = await clues(one, seen, syntax);
  const truth = await truthOf(one, syntax);
  const ranks = (given) => given && ranksOf(locate(given), truth);
  return { covered: ranks(known.covered), blind: ranks(known.blind) };
}

function lineOf({ id, exit, ms, operator, triedCount, verified, confirmed, wide, leftovers }) {
  const state = !verified ? "" : !confirmed ? " NOT CONFIRMED" : wide ? " right" : " WRONG";
  const left = leftovers.length === 0 ? "" : ` LEFT ${leftovers.join(", ")}`;
  const by = operator === null ? "" : ` ${operator}`;
  return `${id}: exit ${exit}${state} ${ms} ms, ${triedCount ?? "?"} tried${by}${left}`;
}
