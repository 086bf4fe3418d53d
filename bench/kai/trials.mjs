// What a candidate costs in each kind of trials, beside the command itself, run cold.
//
//   node bench/kai/trials.mjs CASES [--only PATTERN] [--each N] [--tries N]
//
// Times are milliseconds: of the processor, of all processes that a trial needs, and on the wall. CASES is
// a folder as bench/kai/run.mjs takes it; of each kind of case the first N are tried. It ends with 1 where
// a right candidate did not pass, or the unchanged files did.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runnerOf } from "../../packages/kai/dist/report/invocation.js";
import { readReport } from "../../packages/kai/dist/report/reading.js";
import { workspaceOf } from "../../packages/kai/dist/report/workspace.js";
import { openTrials } from "../../packages/kai/dist/trial/open.js";
import { filesOf, inCopy, readCases } from "./case.mjs";
import { plainEnv, plainShell, run } from "./shell.mjs";

const DEADLINE_MS = 10_000;
const NEVER = new AbortController().signal;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "*" },
    each: { type: "string", default: "3" },
    tries: { type: "string", default: "40" },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("which folder of cases?");

const seen = new Map();
const cases = readCases(folder, values.only).filter(({ kind }) => {
  seen.set(kind, (seen.get(kind) ?? 0) + 1);
  return seen.get(kind) <= Number(values.each);
});
const rows = [];
for (const one of cases) {
  const row = await inCopy(one.tree, (directory) => measured(one, directory));
  if (row !== null) rows.push(row);
}
print(rows);
process.exitCode = rows.every(({ isRight }) => isRight) ? 0 : 1;

async function measured({ id, command, fixed }, directory) {
  const cold = await costOf(() => run(command, directory, DEADLINE_MS));
  const { end } = cold.value;
  // One that hangs costs its deadline, whoever runs it.
  if (end.kind !== "exit" || end.code === 0 || end.code === 124) return null;
  const scratch = mkdtempSync(join(tmpdir(), "kai-bench-"));
  const opened = await costOf(() => open(command, directory, scratch, cold.value));
  if (!opened.value.ok) throw new Error(opened.value.fault.message);
  const trials = opened.value.value;
  const texts = [...fixed].map(([file, text]) => [
    file,
    readFileSync(join(directory, file), "utf8"),
    text,
  ]);
  const candidate = (pick) => ({
    edits: texts.map(([file, from, to]) => ({
      file,
      from: 0,
      to: from.length,
      text: pick(from, to),
    })),
    operator: "bench",
    site: { file: texts[0][0], line: 1, function: null },
    weight: 1,
  });
  const tried = (pick) => trials.try(candidate(pick), DEADLINE_MS, NEVER);
  const [right, same] = [await tried((_, to) => to), await tried((from) => from)];
  const count = Number(values.tries);
  const asked = Array.from({ length: count }, (_, at) => (at % 4 === 0 ? 1 : 0));
  const all = await costOf(() =>
    Promise.all(asked.map((isFixed) => tried((from, to) => (isFixed ? to : from)))),
  );
  await trials.close();
  rmSync(scratch, { recursive: true, force: true });
  return {
    id,
    name: trials.name,
    isRight: right.kind === "passed" && same.kind !== "passed",
    cold: [cold.cpuMs, cold.wallMs],
    open: [opened.cpuMs, opened.wallMs],
    each: [all.cpuMs / count, all.wallMs / count],
  };
}

function open(command, directory, scratch, { endMs, ...output }) {
  const asked = { argv: command, cwd: "." };
  const runner = runnerOf(asked, directory);
  const workspace = workspaceOf(directory, filesOf(directory));
  const report = readReport(runner, asked, output, workspace);
  const counts = [report.passedCount, report.failedCount];
  return openTrials(
    {
      shell: plainShell,
      workspace: directory,
      scratch,
      command: asked,
      env: plainEnv(),
      base: {
        runner: report.runner,
        failingTests: report.failures.map(({ test }) => test),
        testCount: counts.includes(null) ? null : counts[0] + counts[1],
        durationMs: endMs,
        isTimeout: false,
      },
      slotCount: availableParallelism(),
      nowMs: () => performance.now(),
    },
    NEVER,
  );
}

async function costOf(act) {
  const [cpuMs, wallMs] = [cpu(), performance.now()];
  const value = await act();
  return { value, cpuMs: cpu() - cpuMs, wallMs: performance.now() - wallMs };
}

/** Of this process, those it waited for, and those below it that are alive. */
function cpu(pid = process.pid) {
  const TICK_MS = 10;
  try {
    const words = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    const own = words.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * TICK_MS, 0);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ");
    return children.filter(Boolean).reduce((sum, child) => sum + cpu(child), own);
  } catch {
    // It has ended, and what it took is its parent's.
    return 0;
  }
}

function print(all) {
  const names = [...new Set(all.map(({ name }) => name))].sort();
  const head = [
    "trials",
    "cases",
    "cold cpu",
    "wall",
    "open cpu",
    "wall",
    "each cpu",
    "wall",
    "share",
  ];
  const lines = names.map((name) => {
    const own = all.filter((row) => row.name === name);
    const mean = (what, at) => own.reduce((sum, row) => sum + row[what][at], 0) / own.length;
    const means = ["cold", "open", "each"].flatMap((what) => [mean(what, 0), mean(what, 1)]);
    const share = `${((100 * means[4]) / means[0]).toFixed(1)} %`;
    return [name, String(own.length), ...means.map((ms) => ms.toFixed(ms < 100 ? 1 : 0)), share];
  });
  for (const cells of [head, ...lines]) {
    console.log(cells.map((cell, at) => (at === 0 ? cell.padEnd(32) : cell.padStart(10))).join(""));
  }
  for (const { id, name, isRight } of all)
    if (!isRight) console.log(`not as it should be: ${id}, ${name}`);
}
