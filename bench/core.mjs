// What a core costs on each of its hosts, both in one run, beside what a core in Rust under wazero
// publishes of itself. The ratio is ours over theirs: below 1 is ahead. `--json` prints the figures alone.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { DEFAULT_LIMITS } from "../packages/core/dist/index.js";
import { openCore } from "../packages/host/dist/index.js";

/** @typedef {"native" | "wasm"} HostName */
/** @typedef {{ median: number, p99: number }} Spread */
/** @typedef {{ name: string, unit: string, peer: number, hosts: Record<HostName, Spread> }} Figure */

/** The most that a figure may be, as a multiple of the peer's: the machine that runs this may be busy. */
const LIMIT_RATIO = 12;
const HOSTS = /** @type {const} */ (["native", "wasm"]);
const CHILDREN = 7;
const SESSIONS = 500;
/** Counting goes no further: what is left is address space, of which 12,900 instances take all. */
const COUNTED_INSTANCES = 2000;

const TEXT = "Look at the file, and see what it says of the thing that fails. ".repeat(8);
const CONFIG = /** @type {const} */ ({
  model: "local/any",
  effort: "default",
  prelude: "You are Dev.",
  tools: [{ name: "run", description: "Runs a program.", parameters: "{}" }],
  limits: { ...DEFAULT_LIMITS, modelCallsPerTurn: 1_000_000, identicalReplies: 1_000_000 },
  windowTokens: 0,
  images: false,
  agents: [],
});

const RUN = {
  kind: "exec",
  argv: ["ls", "-l"],
  cwd: ".",
  env: [],
  stdin: "",
  timeoutMs: 0,
  background: false,
};

const { values: args } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    // What a child of this process measures, on one host.
    child: { type: "string", default: "" },
    host: { type: "string", default: "native" },
  },
});

if (args.child === "") report(measured());
else process.stdout.write(String(child(args.child, /** @type {HostName} */ (args.host))));

/** @returns {Figure[]} */
function measured() {
  const sampled = { native: samples("native"), wasm: samples("wasm") };
  const both = (/** @type {(host: HostName) => number[]} */ of) => ({
    native: spread(of("native")),
    wasm: spread(of("wasm")),
  });
  const inChildren = (/** @type {string} */ what, count = CHILDREN) =>
    both((host) => Array.from({ length: count }, () => inChild(what, host)));
  const timed = (/** @type {keyof ReturnType<typeof samples>} */ what) =>
    both((host) => sampled[host][what]);
  // A deadline on the native host is a thread for each step; on the other it is a count, always kept.
  const unwatched = both((host) =>
    stepsOf(openCore({ host, deadlineMs: Number.POSITIVE_INFINITY })),
  );
  return [
    { name: "compile", unit: "ms", peer: 85, hosts: inChildren("compile") },
    { name: "instantiate", unit: "us", peer: 46, hosts: timed("create") },
    { name: "step, 5 messages", unit: "us", peer: 86, hosts: timed("step") },
    { name: "step, 5 messages, no deadline", unit: "us", peer: 86, hosts: unwatched },
    { name: "step, 200 messages", unit: "us", peer: 86, hosts: timed("longStep") },
    { name: "snapshot, 5 messages", unit: "us", peer: 21, hosts: timed("snapshot") },
    { name: "snapshot, 200 messages", unit: "us", peer: Number.NaN, hosts: timed("longSnapshot") },
    { name: "restore, 5 messages", unit: "us", peer: Number.NaN, hosts: timed("restore") },
    { name: "restore, 200 messages", unit: "us", peer: Number.NaN, hosts: timed("longRestore") },
    { name: "memory a session", unit: "KiB", peer: 1024, hosts: inChildren("memory", 3) },
    { name: "instances, counted", unit: "", peer: Number.NaN, hosts: inChildren("instances", 1) },
  ];
}

/** Times each call by itself: what is slow once is in the last of a hundred. */
function samples(/** @type {HostName} */ host) {
  const core = openLive(host);
  /** @type {Record<"create" | "step" | "longStep" | "snapshot" | "longSnapshot" | "restore" | "longRestore", number[]>} */
  const taken = {
    create: [],
    step: [],
    longStep: [],
    snapshot: [],
    longSnapshot: [],
    restore: [],
    longRestore: [],
  };
  /** @type {number[]} */
  const unused = [];
  // The engine compiles what is hot, in the background.
  for (let round = 0; round < 40; round++) talk(core.create(CONFIG), 40, unused).close();
  for (let round = 0; round < SESSIONS; round++) {
    const session = timed(taken.create, () => core.create(CONFIG));
    talk(session, 4, taken.step);
    session.snapshot();
    const bytes = value(timed(taken.snapshot, () => session.snapshot()));
    value(timed(taken.restore, () => core.restore(bytes))).close();
    session.close();
  }
  const long = talk(core.create(CONFIG), 200, unused);
  const bytes = value(long.snapshot());
  for (let round = 0; round < SESSIONS / 5; round++) {
    const session = value(timed(taken.longRestore, () => core.restore(bytes)));
    value(session.snapshot());
    talk(session, 4, taken.longStep, 2 + round);
    timed(taken.longSnapshot, () => session.snapshot());
    session.close();
  }
  core.close();
  return taken;
}

function stepsOf(/** @type {ReturnType<typeof openCore>} */ core) {
  /** @type {number[]} */
  const times = [];
  for (let round = 0; round < SESSIONS; round++) talk(core.create(CONFIG), 4, times).close();
  core.close();
  return times;
}

/**
 * Lets a session talk until so many messages more are in it: one call a reply.
 *
 * @param {ReturnType<ReturnType<typeof openCore>["create"]>} session
 * @param {number} messages
 * @param {number[]} times
 */
function talk(session, messages, times, turn = 1) {
  const step = (/** @type {any} */ event) =>
    /** @type {readonly any[]} */ (value(timed(times, () => session.step(event))));
  const prompt = { kind: "turn", id: turn, prompt: TEXT, images: [], mode: "ask" };
  let actions = step(prompt);
  for (let said = 1; said < messages; said += 2) {
    const asked = actions.find(({ op }) => op.kind === "model");
    const [made] = step(reply(asked.id, [RUN])).filter(({ op }) => op.kind === "exec");
    actions = step(ran(made.id));
  }
  const asked = actions.find(({ op }) => op.kind === "model");
  value(session.step(/** @type {any} */ (reply(asked.id, []))));
  return session;
}

function reply(/** @type {number} */ id, /** @type {object[]} */ ops) {
  const calls = ops.map((op, index) => ({ ref: `c${index}`, op }));
  const usage = { inputTokens: 9, cachedTokens: 0, outputTokens: 9, reasoningTokens: 0 };
  const answer = { kind: "reply", text: TEXT, reasoning: "", calls, stop: "end", opaque: "" };
  return { kind: "model", id, answer, usage, costMicroUsd: 0 };
}

function ran(/** @type {number} */ id) {
  const result = {
    kind: "exec",
    end: { kind: "exit", code: 0 },
    stdout: TEXT,
    stderr: "",
    stdoutCutBytes: 0,
    stderrCutBytes: 0,
    durationMs: 5,
    outputPath: "",
  };
  return { kind: "exec", id, outcome: { kind: "ok", result } };
}

/** One figure of a process that has done nothing else. */
function child(/** @type {string} */ what, /** @type {HostName} */ host) {
  if (what === "compile") {
    // The native core was compiled as this file was loaded: to open it is all that is left.
    const began = performance.now();
    openLive(host);
    return performance.now() - began;
  }
  const core = openLive(host);
  if (what === "instances") {
    for (let count = 0; count < COUNTED_INSTANCES; count++) core.create(CONFIG);
    return COUNTED_INSTANCES;
  }
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  talk(core.create(CONFIG), 4, []);
  collect();
  const beforeBytes = process.memoryUsage().rss;
  const sessions = Array.from({ length: SESSIONS }, () => talk(core.create(CONFIG), 4, []));
  collect();
  return (process.memoryUsage().rss - beforeBytes) / 1024 / sessions.length;
}

function inChild(/** @type {string} */ what, /** @type {HostName} */ host) {
  const argv = [fileURLToPath(import.meta.url), "--child", what, "--host", host];
  return Number(execFileSync(process.execPath, argv, { encoding: "utf8" }));
}

/** A core that keeps an instance for every session. */
function openLive(/** @type {HostName} */ host) {
  return host === "wasm"
    ? openCore({ host, liveLimit: Number.POSITIVE_INFINITY })
    : openCore({ host });
}

/**
 * @template T
 * @param {number[]} times
 * @param {() => T} call
 */
function timed(times, call) {
  const began = process.hrtime.bigint();
  const answer = call();
  times.push(Number(process.hrtime.bigint() - began) / 1000);
  return answer;
}

/**
 * @template T
 * @param {{ ok: true, value: T } | { ok: false, fault: { message: string } }} result
 */
function value(result) {
  if (!result.ok) throw new Error(result.fault.message);
  return result.value;
}

/** @returns {Spread} */
function spread(/** @type {number[]} */ values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (/** @type {number} */ share) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { median: at(0.5), p99: at(0.99) };
}

function report(/** @type {Figure[]} */ figures) {
  const over = figures.flatMap(({ name, peer, hosts }) =>
    HOSTS.filter((host) => hosts[host].median / peer > LIMIT_RATIO).map(
      (host) => `${host}: ${name}`,
    ),
  );
  if (args.json) process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  else process.stdout.write(`${table(figures)}\n`);
  for (const each of over) process.stdout.write(`core: ${each} is over ${LIMIT_RATIO} times\n`);
  if (over.length > 0) process.exitCode = 1;
}

function table(/** @type {Figure[]} */ figures) {
  const columns = HOSTS.flatMap((host) => [`${host} median`, "p99", "ratio"]);
  const head = ["core", "unit", "Rust/wazero", ...columns];
  const rows = figures.map(({ name, unit, peer, hosts }) => [
    name,
    unit,
    shown(peer),
    ...HOSTS.flatMap((host) => {
      const { median, p99 } = hosts[host];
      return [shown(median), shown(p99), shown(median / peer)];
    }),
  ]);
  const widths = head.map((_, at) =>
    Math.max(...[head, ...rows].map((row) => row[at]?.length ?? 0)),
  );
  const lines = [head, ...rows].map((row) =>
    row
      .map((cell, at) => (at < 2 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return lines.join("\n");
}

/** Three digits that count, and a dash for what is not said. */
function shown(/** @type {number} */ figure) {
  if (Number.isNaN(figure)) return "-";
  return figure >= 100 ? figure.toFixed(0) : String(Number(figure.toPrecision(3)));
}
