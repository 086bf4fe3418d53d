/**
 * A module that every node process loads first: it counts, for each line of the tree, how many failing
 * and how many passing tests ran it, by the inspector's precise coverage. Tests are told apart where
 * node:test or mocha runs them; with any other runner a process is one run, with the files it loaded
 * beside it. What stands outside of all functions is not counted. A process that never ends is not read.
 */
export const NODE_PROBE: string = `
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { fileURLToPath } = require("node:url");
const { Session } = require("node:inspector");
const { isMainThread, threadId } = require("node:worker_threads");
const env = process.env;
const root = env.KAI_PROBE_ROOT.replace(/\\/+$/, "") + "/";
const counts = {};
const totals = [0, 0];
const loaded = new Set();
const scripts = new Map();
const active = [];
let session;
let isPerTest = false;

function post(method, params) {
  let got;
  session.post(method, params, (error, result) => {
    if (!error) got = result;
  });
  return got;
}

function named(url) {
  let file = url;
  try {
    if (url.startsWith("file:")) file = fileURLToPath(url.split("?")[0]);
  } catch {
    return null;
  }
  if (!file.startsWith(root) || file.includes("/node_modules/")) return null;
  return file.slice(root.length);
}

/** Where the lines of a script come from: its own text, or what a source map says. */
function scriptOf({ scriptId, url, functions }) {
  const known = scripts.get(scriptId);
  if (known !== undefined) return known;
  const made = read(scriptId, named(url), functions);
  scripts.set(scriptId, made);
  if (made !== null) loaded.add(made.name);
  return made;
}

function read(scriptId, name, functions) {
  if (name === null) return null;
  let text;
  try {
    text = fs.readFileSync(root + name, "utf8").replace(/^\\uFEFF/, "");
  } catch {
    return null;
  }
  const end = Math.max(0, ...functions.map((one) => one.ranges[0].endOffset));
  const isTop = functions.some((one) => one.functionName === "" && one.ranges[0].startOffset === 0);
  if (isTop && end !== text.length) {
    if (!session.kaiDebugs) post("Debugger.enable");
    session.kaiDebugs = true;
    text = (post("Debugger.getScriptSource", { scriptId }) || {}).scriptSource || "";
  }
  const isOwn = !isTop || end === text.length;
  return { name, length: end, lines: linesOf(text), map: mapOf(text, name), isOwn, top: isTop };
}

function linesOf(text) {
  const lines = [];
  let from = 0;
  for (const line of text.split("\\n")) {
    const indent = line.length - line.trimStart().length;
    lines.push({ from, first: from + indent, indent, // What only closes says nothing of what ran.
      isBlank: /^[\\s\\])};,]*$/.test(line) });
    from += line.length + 1;
  }
  return lines;
}

function mapOf(text, name) {
  const at = text.lastIndexOf("//# sourceMappingURL=");
  if (at < 0) return null;
  const said = text.slice(at + 21).split(/\\s/)[0];
  try {
    const { SourceMap } = require("node:module");
    const inline = /^data:application\\/json[^,]*?(;base64)?,/.exec(said);
    const json = inline
      ? inline[1]
        ? Buffer.from(said.slice(inline[0].length), "base64").toString("utf8")
        : decodeURIComponent(said.slice(inline[0].length))
      : fs.readFileSync(path.resolve(root, path.dirname(name), said), "utf8");
    return new SourceMap(JSON.parse(json));
  } catch {
    return null;
  }
}

/** Files and lines that ran since the last time, by what holds each line's first character. */
function take() {
  const got = post("Profiler.takePreciseCoverage");
  const ran = new Map();
  for (const one of got ? got.result : []) {
    const script = scriptOf(one);
    if (script === null) continue;
    for (const { name, line } of linesRun(script, one.functions)) {
      if (!ran.has(name)) ran.set(name, new Set());
      ran.get(name).add(line);
    }
  }
  return ran;
}

function* linesRun(script, functions) {
  const ranges = [];
  for (const { functionName, ranges: own } of functions) {
    const isTop = script.top && functionName === "" && own[0].startOffset === 0
      && own[0].endOffset === script.length;
    for (const { startOffset, endOffset, count } of own) {
      ranges.push({ from: startOffset, to: endOffset, isRun: !isTop && count > 0 });
    }
  }
  ranges.sort((a, b) => a.from - b.from || b.to - a.to);
  const open = [];
  let next = 0;
  for (const [at, line] of script.lines.entries()) {
    if (line.isBlank) continue;
    const end = at + 1 < script.lines.length ? script.lines[at + 1].from : Infinity;
    let starts = false;
    while (next < ranges.length && ranges[next].from <= line.first) open.push(ranges[next++]);
    while (open.length > 0 && open[open.length - 1].to <= line.first) open.pop();
    const holder = open.findLast((range) => range.to > line.first);
    for (let ahead = next; ahead < ranges.length && ranges[ahead].from < end; ahead += 1) {
      starts = starts || ranges[ahead].isRun;
    }
    if ((holder && holder.isRun) || starts) {
      const place = placed(script, at, line.indent);
      if (place !== null) yield place;
    }
  }
}

function placed(script, at, column) {
  if (script.map === null) return script.isOwn ? { name: script.name, line: at + 1 } : null;
  const entry = script.map.findEntry(at, column);
  if (entry.originalLine === undefined || !entry.originalSource) return null;
  const source = entry.originalSource;
  const file = source.startsWith("file:") || source.startsWith("/")
    ? named(source)
    : named(path.resolve(root, path.dirname(script.name), source));
  // A map that names the script by its last part alone means the script.
  const name = file !== null && fs.existsSync(root + file) ? file : script.name;
  return { name, line: entry.originalLine + 1 };
}

function count(ran, which) {
  totals[which] += 1;
  for (const [name, lines] of ran) {
    const into = (counts[name] ||= {});
    for (const line of lines) (into[line] ||= [0, 0])[which] += 1;
  }
}

function begin(name) {
  isPerTest = true;
  const ran = take();
  for (const test of active) add(test.ran, ran);
  active.push({ name, ran: new Map(), isFailed: false });
}

function end(name, isFailed) {
  const at = active.findLastIndex((test) => test.name === name);
  if (at < 0) return;
  const ran = take();
  for (const test of active) add(test.ran, ran);
  const [test] = active.splice(at, 1);
  const failed = isFailed || test.isFailed;
  if (failed && at > 0) active[at - 1].isFailed = true;
  count(test.ran, failed ? 0 : 1);
}

function add(into, ran) {
  for (const [name, lines] of ran) {
    if (!into.has(name)) into.set(name, new Set());
    for (const line of lines) into.get(name).add(line);
  }
}

function write() {
  const ran = take();
  if (isPerTest) {
    for (const test of active) {
      add(test.ran, ran);
      count(test.ran, 0);
    }
  } else count(ran, 0);
  if (loaded.size === 0) return;
  const grain = isPerTest ? "test" : "process";
  const said = { grain, totals, loaded: [...loaded], files: counts };
  const place = path.join(env.KAI_PROBE_FOLDER, process.pid + "-" + threadId + ".json");
  fs.writeFileSync(place + ".part", JSON.stringify(said));
  fs.renameSync(place + ".part", place);
}

function start() {
  session = new Session();
  session.connect();
  post("Profiler.enable");
  post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  process.on("exit", () => write());
  if (isMainThread) {
    // Some runners end their workers with a signal.
    process.once("SIGTERM", () => {
      write();
      process.kill(process.pid, "SIGTERM");
    });
  }
  // What a test starts has no tests of its own, and its output is part of the test.
  if (!isMainThread || env.KAI_PROBE_HOOKED) return;
  env.KAI_PROBE_HOOKED = "1";
  if (env.KAI_PROBE_RUNNER === "node-test") hookNodeTest();
  if (env.KAI_PROBE_RUNNER === "mocha") hookMocha();
}

function hookNodeTest() {
  const { beforeEach, afterEach } = require("node:test");
  beforeEach((t) => begin(t.name));
  afterEach((t) => end(t.name, t.passed === false || Boolean(t.error)));
}

/** Mocha puts its functions on the global object as it reads its first file; that is when to hook. */
function hookMocha() {
  let held;
  Object.defineProperty(globalThis, "afterEach", {
    configurable: true,
    enumerable: true,
    get: () => held,
    set(value) {
      const isFirst = held === undefined;
      held = value;
      if (!isFirst || typeof value !== "function") return;
      setHooks(value);
    },
  });
}

function setHooks(afterEach) {
  // Mocha has set this one before; hooks of the root are run around each test of every file.
  globalThis.beforeEach(() => {
    take();
    isPerTest = true;
  });
  afterEach(function () {
    const { state } = this.currentTest;
    if (state !== "pending") count(take(), state === "failed" ? 0 : 1);
  });
}

// The process that only starts others has no test of its own.
if (!process.execArgv.includes("--test")) start();
`;
