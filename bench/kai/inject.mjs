// Puts faults into real packages: cases in the form of case.mjs, for record.mjs and run.mjs.
//
//   node bench/kai/inject.mjs OUT_DIR [--seed N] [--count N] [--only GLOB]
//
// Each package is installed from its registry with its own tests into OUT_DIR/.packages, and kept if
// these pass. A fault is a random change of the tokens of one or two lines, which knows nothing of the
// operators of Kai; those that parse and that some test file of the package finds are kept, at most
// `count` a package. The same seed gives the same faults. OUT_DIR lies outside of the repository.
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { filesOf, inCopy, shapeOf } from "./case.mjs";
import { seeded } from "./chance.mjs";
import { packages } from "./package.mjs";
import { run } from "./shell.mjs";
import { tampered } from "./tamper.mjs";

/** A fault that makes the tests run on for ever is passed over. */
const RUN_DEADLINE_MS = 15_000;
/** Faults tried for each that is kept, at most. */
const TRIES = 6;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "15" },
    only: { type: "string", default: "*" },
  },
});
const [given] = positionals;
if (given === undefined) throw new Error("usage: inject.mjs OUT_DIR");
const out = resolve(given);
const shape = shapeOf(values.only);

for (const one of packages.filter(({ name }) => shape.test(name))) {
  const tree = join(out, ".packages", one.name);
  if (!existsSync(tree)) install(one, tree);
  const tests = await passing(one, tree);
  console.log(`${one.name}: ${tests.length} test files pass`);
  // One copy for all: with its dependencies a package is much to copy.
  if (tests.length > 0) await inCopy(tree, (place) => faults(one, { tree, tests, place }));
}

function install({ name, version, from, more = [] }, tree) {
  const part = `${tree}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  if (from === "pip") {
    must("pip", ["install", "-q", "--target", part, `${name}==${version}`, ...more]);
  } else {
    const packed = must("npm", ["pack", "-s", `${name}@${version}`], part)
      .trim()
      .split("\n")
      .at(-1);
    must("tar", ["xzf", packed, "--strip-components=1"], part);
    rmSync(join(part, packed));
    bare(join(part, "package.json"));
    must("npm", ["install", "-s", "--ignore-scripts", "--no-package-lock", ...more], part);
  }
  renameSync(part, tree);
}

/** What a package is developed with is much, and most of it is not for its tests. */
function bare(file) {
  const { devDependencies, scripts, ...kept } = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify(kept));
}

function must(program, args, cwd = process.cwd()) {
  const ran = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`${program} ${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout;
}

function passing(one, tree) {
  return inCopy(tree, async (place) => {
    const found = [];
    for (const test of filesOf(tree).filter((file) => one.tests.test(file))) {
      const { end } = await run(one.command([test]), place, RUN_DEADLINE_MS);
      if (end.kind === "exit" && end.code === 0) found.push(test);
    }
    return found;
  });
}

async function faults(one, { tree, tests, place }) {
  const random = seeded(`${values.seed} ${one.name}`);
  const sources = filesOf(tree).filter((file) => one.sources.test(file) && !one.tests.test(file));
  const texts = sources.map((file) => ({ file, text: readFileSync(join(tree, file), "utf8") }));
  const seen = new Set();
  let kept = 0;
  for (let tried = 0; kept < Number(values.count) && tried < TRIES * values.count; tried += 1) {
    const fault = tampered(texts, random);
    if (fault === null || seen.has(fault.text)) continue;
    seen.add(fault.text);
    const id = `injected-${one.name}-${values.seed}-${String(kept).padStart(3, "0")}`;
    if (existsSync(join(out, id))) {
      kept += 1;
      continue;
    }
    const test = await finder(one, fault, tests, place);
    cpSync(join(tree, fault.file), join(place, fault.file));
    if (test === null) continue;
    keep(one, { id, tree, test, tests, fault });
    console.log(`${id}: ${fault.file}:${fault.line} ${fault.how}`);
    kept += 1;
  }
}

/** The test file that finds a fault; null where none does, or it does not parse. */
async function finder(one, fault, tests, place) {
  writeFileSync(join(place, fault.file), fault.text);
  const parsed = await run(one.check(fault.file), place, RUN_DEADLINE_MS);
  if (parsed.end.kind !== "exit" || parsed.end.code !== 0) return null;
  // Most faults that are not found are told by one run of all.
  const all = await run(one.command(tests), place, RUN_DEADLINE_MS);
  if (all.end.kind !== "exit" || all.end.code === 0) return null;
  for (const test of tests) {
    const { end } = await run(one.command([test]), place, RUN_DEADLINE_MS);
    if (end.kind === "exit" && end.code !== 0) return test;
  }
  return null;
}

function keep(one, { id, tree, test, tests, fault }) {
  const part = join(out, `.${id}`);
  rmSync(part, { recursive: true, force: true });
  cpSync(tree, join(part, "tree"), { recursive: true, verbatimSymlinks: true });
  mkdirSync(join(part, "fixed", fault.file, ".."), { recursive: true });
  cpSync(join(tree, fault.file), join(part, "fixed", fault.file));
  writeFileSync(join(part, "tree", fault.file), fault.text);
  const kind = one.from === "pip" ? "injected-python" : "injected-js";
  const told = {
    id,
    kind,
    command: one.command([test]),
    wide: one.command(tests),
    fault: fault.how,
  };
  writeFileSync(join(part, "case.json"), `${JSON.stringify(told, null, 1)}\n`);
  renameSync(part, join(out, id));
}
