// What a cell costs beside what it is made of, all in one run: its start beside the bare chain and Node's
// own start, a command in it beside a bare spawn, its memory, and many of them at once.
//
//   node bench/cells.mjs [--rounds N] [--kinds bubblewrap,runc,…] [--many N] [--snapshots] [--json]
//
// It exits with 1 where a limit is missed. Build first: what is measured is `dist`.
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DEFAULT_CELL_LIMITS, openVendor } from "../packages/cell/dist/index.js";
import { cellId } from "../packages/protocol/dist/index.js";

/** A start may take so many times what its parts take: the bare chain, and Node. */
const START_RATIO = 1.3;
/** A command may take so much longer than one that is spawned here, and the disk's own two syncs. */
const EXEC_EXTRA_MS = 2;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    kinds: { type: "string", default: "bubblewrap,runc,gvisor,container,local" },
    many: { type: "string", default: "0" },
    snapshots: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const rounds = Number(values.rounds);
const scratch = mkdtempSync(join(tmpdir(), "dev-bench-cells-"));
const rows = [];
try {
  for (const kind of values.kinds.split(",")) rows.push(...(await kindRows(kind)));
  if (Number(values.many) > 0) rows.push(await manyRow(Number(values.many)));
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const row of rows)
  process.stdout.write(values.json ? `${JSON.stringify(row)}\n` : `${said(row)}\n`);
if (rows.some(({ met }) => met === false)) process.exitCode = 1;
// What a session's workspace costs to keep, in the same run.
if (values.snapshots) {
  const ran = spawnSync(
    process.execPath,
    [fileURLToPath(new URL("./snapshots.mjs", import.meta.url))],
    { stdio: "inherit" },
  );
  if (ran.status !== 0) process.exitCode = 1;
}

async function kindRows(kind) {
  const vendor = vendorOf(kind);
  const starts = [];
  const bare = [];
  const nodes = [];
  const execs = [];
  const spawns = [];
  const syncs = [];
  let memory = Number.NaN;
  for (let round = 0; round <= rounds; round++) {
    const chainMs = bareChain(kind);
    const nodeMs = timed(() => spawnSync(process.execPath, ["-e", "0"]));
    const beganMs = performance.now();
    const cell = await started(vendor);
    if (typeof cell === "string") return [{ what: `${kind}: not here`, note: cell }];
    const startMs = performance.now() - beganMs;
    const its = [];
    const theirs = [];
    const alone = [];
    for (let turn = 0; turn < 5; turn++) {
      theirs.push(await timedAsync(() => spawned(["true"])));
      its.push(await timedAsync(() => cell.run(["true"])));
      alone.push(await timedAsync(twoSyncs));
    }
    if (round === rounds) memory = memoryOf(cell.id);
    await vendor.delete(cell.id);
    // The first round fills the caches of the disk.
    if (round === 0) continue;
    starts.push(startMs);
    bare.push(chainMs);
    nodes.push(nodeMs);
    execs.push(...its);
    spawns.push(...theirs);
    syncs.push(...alone);
  }
  const parts = at(bare, 0.5) + at(nodes, 0.5);
  const ratio = at(starts, 0.5) / parts;
  const extraMs = at(execs, 0.5) - at(spawns, 0.5) - at(syncs, 0.5);
  const isAimed = kind === "bubblewrap";
  return [
    {
      what: `${kind}: start`,
      p50: at(starts, 0.5),
      p95: at(starts, 0.95),
      beside: `bare chain ${ms(at(bare, 0.5))} + node ${ms(at(nodes, 0.5))}: ${ratio.toFixed(2)} x`,
      ...(isAimed && { aim: `${START_RATIO} x`, met: ratio <= START_RATIO }),
    },
    {
      what: `${kind}: a command and its answer`,
      p50: at(execs, 0.5),
      p95: at(execs, 0.95),
      beside: `bare spawn ${ms(at(spawns, 0.5))} + two syncs ${ms(at(syncs, 0.5))}: ${ms(extraMs)} more`,
      ...(isAimed && { aim: `${EXEC_EXTRA_MS} ms more`, met: extraMs <= EXEC_EXTRA_MS }),
    },
    { what: `${kind}: memory of a cell`, note: `${(memory / 1024).toFixed(1)} MiB (PSS)` },
  ];
}

async function manyRow(count) {
  const vendor = vendorOf("bubblewrap");
  const beganMs = performance.now();
  const cells = await Promise.all(Array.from({ length: count }, () => started(vendor)));
  const upMs = performance.now() - beganMs;
  const answers = await Promise.all(cells.map((cell) => cell.run(["true"])));
  const bytes = cells.reduce((sum, { id }) => sum + memoryOf(id), 0);
  await Promise.all(cells.map(({ id }) => vendor.delete(id)));
  const lost = answers.filter((code) => code !== 0).length;
  const left = cells.filter(({ id }) => pidsOf(id).length > 0).length;
  return {
    what: `${count} cells at once`,
    note: `up after ${ms(upMs)}, all done after ${ms(performance.now() - beganMs)}, ${(bytes / 1024 / 1024).toFixed(2)} GiB; ${lost} lost, ${left} left`,
    met: lost + left === 0,
  };
}

function vendorOf(kind) {
  const require = createRequire(import.meta.url);
  const cells = createRequire(
    fileURLToPath(new URL("../packages/cell/package.json", import.meta.url)),
  );
  const pty = createRequire(cells.resolve("@lydell/node-pty"));
  const platform = `${process.platform}-${process.arch}`;
  const runsc = runscPath();
  const home = join(scratch, "cells");
  mkdirSync(home, { recursive: true });
  const vendor = openVendor(
    kind,
    {
      home,
      agent: require.resolve("@dev/cell/agent"),
      rg: require.resolve(`@vscode/ripgrep-${platform}/bin/rg`),
      pty: pty.resolve(`@lydell/node-pty-${platform}/pty.node`),
      environment: process.env,
      masked: [],
      ...(runsc !== undefined && { runsc: { binary: runsc } }),
    },
    new AbortController().signal,
  );
  if (!vendor.ok) throw new Error(vendor.fault.message);
  return vendor.value;
}

/** The one that set-up has built, if it has. */
function runscPath() {
  const built = join(fileURLToPath(new URL("..", import.meta.url)), ".cache/bin");
  const names = existsSync(built) ? readdirSync(built) : [];
  const name = names.find((each) => each.startsWith("runsc-"));
  return name === undefined ? undefined : join(built, name);
}

/** A new cell, ready; or why there is none. */
async function started(vendor) {
  const id = cellId(Date.now(), randomBytes(10));
  const workspace = mkdtempSync(join(scratch, "workspace-"));
  let settle = (_observation) => {};
  const settled = new Promise((resolve) => {
    settle = resolve;
  });
  const spec = { workspace, variables: {}, limits: DEFAULT_CELL_LIMITS };
  const see = (observation) => {
    if (observation.kind === "ready" || observation.kind === "failed") settle(observation);
  };
  const first = await vendor.create(id, spec, see);
  if (!first.ok) return first.fault.message;
  see(first.value);
  const last = await settled;
  if (last.kind === "failed") return last.fault.message;
  let action = 0;
  return {
    id,
    run: async (argv) => {
      const op = {
        kind: "exec",
        argv,
        cwd: ".",
        env: [],
        stdin: "",
        timeoutMs: 0,
        background: false,
      };
      const signal = new AbortController().signal;
      const answer = await last.link.perform(
        { id: ++action, agent: 0, turn: 1, op },
        () => {},
        signal,
      );
      return answer.ok && answer.value.outcome.kind === "ok"
        ? answer.value.outcome.result.end.code
        : -1;
    },
  };
}

/** What stands between us and the cell's program, with nothing in it. */
function bareChain(kind) {
  const mounts = [
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
  ];
  const bwrap = [
    "--unshare-all",
    ...mounts,
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--",
    "/usr/bin/true",
  ];
  switch (kind) {
    case "bubblewrap":
      return timed(() => spawnSync("bwrap", bwrap));
    case "gvisor":
      return timed(() =>
        spawnSync(runscPath() ?? "runsc", ["--network=none", "--ignore-cgroups", "do", "true"]),
      );
    case "runc":
    case "container":
      return timed(() => spawnSync("bwrap", bwrap));
    default:
      return timed(() => spawnSync("true"));
  }
}

function spawned([program, ...args]) {
  return new Promise((resolve) => {
    spawn(program, args, { stdio: "ignore" }).once("exit", resolve);
  });
}

/** What is durable before a command begins, and before its outcome is sent: the limit of the disk. */
async function twoSyncs() {
  const file = await open(join(scratch, "syncs"), "a");
  for (let count = 0; count < 2; count++) {
    await file.write("x".repeat(200));
    await file.datasync();
  }
  await file.close();
}

function timed(work) {
  const beganMs = performance.now();
  work();
  return performance.now() - beganMs;
}

async function timedAsync(work) {
  const beganMs = performance.now();
  await work();
  return performance.now() - beganMs;
}

/** Kibibytes, shared ones by share. */
function memoryOf(id) {
  return pidsOf(id).reduce((sum, pid) => {
    try {
      const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
      return sum + Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0);
    } catch {
      return sum;
    }
  }, 0);
}

function pidsOf(id) {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false;
    try {
      return ["environ", "cmdline"].some((file) =>
        readFileSync(`/proc/${name}/${file}`, "latin1").includes(id),
      );
    } catch {
      return false;
    }
  });
}

function at(list, share) {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function ms(value) {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
}

function said({ what, p50, p95, beside, aim, met, note }) {
  const figures = p50 === undefined ? "" : `  p50 ${ms(p50)}, p95 ${ms(p95)}`;
  const missed = met === false ? "  <- missed" : "";
  return `${what.padEnd(42)}${figures}${beside === undefined ? "" : `  ${beside}`}${note === undefined ? "" : `  ${note}`}${aim === undefined ? "" : ` (aim ${aim})`}${missed}`;
}
