// In the thread: runs the test files, each in a realm of its own, as often as it is asked to.
import { join, relative } from "node:path";
import { parentPort, workerData as plan } from "node:worker_threads";
import { Builtins } from "./node_builtins.mjs";
import { Realm } from "./node_realm.mjs";

const NAMES = 200;
const builtins = new Builtins();
/** What runs now: whatever is thrown where nobody catches it is its failure. */
let current = null;

for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error) => current?.uncaught(error));
}
parentPort.on("message", (ask) => void answer(ask));
parentPort.postMessage({ kind: "ready" });

async function answer(ask) {
  const texts = new Map(
    Object.entries(ask.files).map(([path, text]) => [join(plan.root, path), text]),
  );
  const total = { kind: "passed", failed: [], ranCount: 0, wrote: false, spawned: false };
  const left = new Set(ask.known);
  const onPass = (name) => {
    if (left.delete(name)) parentPort.postMessage({ kind: "near", isAll: left.size === 0 });
  };
  const isOther = [...texts.keys()].some((path) => !/\.(c|m)?js$/.test(path));
  if (isOther) total.kind = "unsure";
  for (const entry of isOther ? [] : plan.entries) {
    current = new Realm({ plan, entry, texts, builtins, isEarly: ask.kind === "try", onPass });
    const run = await current.run();
    total.wrote ||= run.wrote;
    total.spawned ||= run.spawned;
    total.ranCount += run.ranCount;
    if (run.kind === "passed") continue;
    if (run.kind === "unsure" || total.kind !== "unsure") total.kind = run.kind;
    const own = run.failed.length > 0 ? run.failed : [relative(plan.cwd, entry)];
    total.failed.push(...own.slice(0, NAMES - total.failed.length));
    if (ask.kind === "try") break;
  }
  current = null;
  // In the proof a file that does not load has failed, as one whose tests fail.
  if (ask.kind === "prove" && total.kind === "broken") total.kind = "failed";
  if (ask.kind === "try" && total.spawned) total.kind = "unsure";
  parentPort.postMessage({ ...total, isSpoiled: !builtins.isIntact() });
}
