// Tries candidates in a process of node's that stays: a thread holds what is loaded, and is replaced when
// it hangs, runs out of memory, or was changed by what ran in it. Asked and answered in lines of JSON.
import { createInterface } from "node:readline";
import { Worker } from "node:worker_threads";

const plan = JSON.parse(process.argv[2] ?? "{}");
const MEMORY_BYTES = 2_000_000_000;
const MEMORY_CHECK_MS = 50;
/** What passes all tests that are known to fail goes on for so long, and all of these for so much of the time. */
const NEAR_MS = 3_000;
const NEAR_SHARE = 0.25;
const ALIVE_MS = 500;
const LIMITS = { maxOldGenerationSizeMb: 768, maxYoungGenerationSizeMb: 64, stackSizeMb: 1.2 };

let thread = begin();
let open = null;
/** The tests that fail as they are; and for how long candidates have gone on beyond their deadlines, and since when. */
let known = [];
let extendedMs = 0;
const beganMs = performance.now();

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const ask = JSON.parse(line);
    if (ask.kind !== "cancel") start(ask);
    else if (open?.id === ask.id) void abandon("cancelled");
  })
  .on("close", () => process.exit(0));

function begin() {
  const made = new Worker(new URL("./node_thread.mjs", import.meta.url), {
    workerData: plan,
    resourceLimits: LIMITS,
    stdout: true,
    stderr: true,
    stdin: false,
  });
  made.stdout.resume();
  made.stderr.resume();
  made.on("message", (message) => {
    if (made !== thread) return;
    if (message.kind === "ready") say(message);
    else if (message.kind === "near") extend(message.isAll);
    else settle(message, message.isSpoiled);
  });
  // It ended by itself: out of memory, or by a way to exit that nobody closed.
  const gone = () =>
    made === thread && settle({ kind: "failed", failed: ["the process ended"] }, true);
  made.on("error", gone);
  made.on("exit", gone);
  return made;
}

function start(ask) {
  const late = setTimeout(() => abandon("timeout"), ask.deadlineMs);
  const full = setInterval(() => {
    if (process.memoryUsage.rss() > MEMORY_BYTES) void abandon("failed");
  }, MEMORY_CHECK_MS);
  open = {
    id: ask.id,
    kind: ask.kind,
    deadlineMs: ask.deadlineMs,
    late,
    full,
    isNear: false,
    extendedAtMs: null,
  };
  thread.postMessage({ ...ask, known });
}

/** It passed one of the tests that are known to fail, or all of them: then it has more time. */
function extend(isAll) {
  if (open?.kind !== "try") return;
  open.isNear = true;
  const mostMs = NEAR_MS + NEAR_SHARE * (performance.now() - beganMs);
  if (!isAll || open.extendedAtMs !== null || extendedMs >= mostMs) return;
  clearTimeout(open.late);
  open.extendedAtMs = performance.now();
  open.alive = setInterval(() => say({ kind: "alive" }), ALIVE_MS);
  open.late = setTimeout(() => abandon("timeout"), Math.max(NEAR_MS, open.deadlineMs));
}

function abandon(kind) {
  settle({ kind, failed: [], wrote: true, isNear: open?.isNear === true }, true);
}

function settle(answer, isSpoiled) {
  if (isSpoiled) {
    const old = thread;
    thread = begin();
    void old.terminate();
  }
  if (open === null) return;
  clearTimeout(open.late);
  clearInterval(open.full);
  clearInterval(open.alive);
  if (open.extendedAtMs !== null) extendedMs += performance.now() - open.extendedAtMs;
  if (open.kind === "prove") known = answer.failed;
  const { id } = open;
  open = null;
  say({ ...answer, id });
}

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
