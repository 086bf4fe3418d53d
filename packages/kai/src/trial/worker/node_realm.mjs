// A realm: the globals and modules of one run of one test file, which nothing of survives.
import { EventEmitter } from "node:events";
import { promisify } from "node:util";
import vm from "node:vm";
import { Loader } from "./node_loader.mjs";
import { TestRun } from "./node_tests.mjs";

const EXIT = Symbol("exit");
const COPIED = [
  "Buffer",
  "URL",
  "URLSearchParams",
  "TextEncoder",
  "TextDecoder",
  "AbortController",
  "AbortSignal",
  "Event",
  "EventTarget",
  "MessageChannel",
  "MessagePort",
  "MessageEvent",
  "Blob",
  "BroadcastChannel",
  "queueMicrotask",
  "structuredClone",
  "fetch",
  "FormData",
  "Headers",
  "Request",
  "Response",
  "performance",
  "crypto",
  "Crypto",
  "CryptoKey",
  "SubtleCrypto",
  "btoa",
  "atob",
  "DOMException",
  "ReadableStream",
  "WritableStream",
  "TransformStream",
  "CompressionStream",
  "DecompressionStream",
  "WebAssembly",
  "navigator",
  "PerformanceObserver",
  "CustomEvent",
  "File",
];
const SILENT = [
  "assert",
  "clear",
  "count",
  "countReset",
  "debug",
  "dir",
  "dirxml",
  "error",
  "group",
  "groupCollapsed",
  "groupEnd",
  "info",
  "log",
  "table",
  "time",
  "timeEnd",
  "timeLog",
  "trace",
  "warn",
];

export class Realm {
  wrote = false;
  spawned = false;
  exitCode = undefined;
  #given;
  #timers = new Map();
  #process = new EventEmitter();
  #isOver = false;
  #over;
  #tell;
  #tests;
  #loader;

  constructor(given) {
    this.#given = given;
    this.#over = new Promise((resolve) => {
      this.#tell = resolve;
    });
    this.#tests = new TestRun({
      patterns: given.plan.patterns.map((pattern) => new RegExp(pattern)),
      isEarly: given.isEarly,
      onPass: given.onPass,
      stop: () => this.#end("failed"),
      unsure: () => this.#end("unsure"),
    });
  }

  /** What became of the run: its kind, and the tests that failed. */
  async run() {
    const baseline = process.getActiveResourcesInfo().length;
    this.#evaluate(baseline).catch((error) => this.uncaught(error));
    const kind = await this.#over;
    this.#isOver = true;
    for (const [timer, clear] of this.#timers) clear(timer);
    const { failed, ranCount } = this.#tests;
    return { kind, failed, ranCount, wrote: this.wrote, spawned: this.spawned };
  }

  uncaught(error) {
    if (error === EXIT || this.#isOver) return;
    const event = ["uncaughtException", error, "uncaughtException"];
    if (this.#process.listenerCount("uncaughtException") > 0) this.#process.emit(...event);
    // A test file that throws before it has a test did not load; a program that throws has failed.
    else if (!this.#tests.fail(error)) {
      const isLoading = this.#given.plan.isTest && this.#tests.ranCount === 0;
      this.#end(isLoading ? "broken" : "failed");
    }
  }

  async #evaluate(baseline) {
    const { entry, texts, builtins, plan } = this.#given;
    const context = vm.createContext(this.#globals());
    const loader = new Loader({
      context,
      texts,
      builtins,
      run: this,
      own: this.#own(),
      root: plan.root,
    });
    this.#loader = loader;
    if (this.#given.isEarly && !loader.parses()) return this.#end("broken");
    await loader.start(entry);
    await this.#tests.done();
    if (!plan.isTest || this.#tests.ranCount === 0) await this.#drained(baseline);
    this.#process.emit("beforeExit", this.exitCode ?? 0);
    this.#process.emit("exit", this.exitCode ?? 0);
    const isBad = this.#tests.hasFailed || (this.exitCode ?? 0) !== 0;
    // A file with no tests in it counts as one.
    if (plan.isTest && this.#tests.ranCount === 0) this.#tests.ranCount = 1;
    this.#end(isBad ? "failed" : "passed");
  }

  #end(kind) {
    this.#tell(this.#loader?.isUnsure ? "unsure" : kind);
  }

  /** Until nothing that was begun can go on: as node would exit then. */
  async #drained(baseline) {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const isWaiting = [...this.#timers.keys()].some((timer) => timer.hasRef?.() ?? true);
      const active = process.getActiveResourcesInfo().length;
      if (!isWaiting && active <= baseline) return;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #globals() {
    const globals = {};
    for (const name of COPIED) {
      const descriptor = Object.getOwnPropertyDescriptor(globalThis, name);
      if (descriptor === undefined) continue;
      Object.defineProperty(globals, name, {
        configurable: true,
        enumerable: false,
        writable: true,
        value: globalThis[name],
      });
    }
    globals.console = Object.fromEntries(SILENT.map((name) => [name, () => {}]));
    globals.process = this.#processOf();
    Object.assign(globals, this.#clocks());
    globals.global = globals;
    return globals;
  }

  #clocks() {
    const track = (begin, clear, repeats) => {
      const tracked = (act, ...rest) => {
        const timer = begin(
          (...given) => {
            if (!repeats) this.#timers.delete(timer);
            return act(...given);
          },
          ...rest,
        );
        this.#timers.set(timer, clear);
        return timer;
      };
      const forget = (timer) => {
        this.#timers.delete(timer);
        clear(timer);
      };
      return [tracked, forget];
    };
    const [setTimeout_, clearTimeout_] = track(setTimeout, clearTimeout, false);
    const [setInterval_, clearInterval_] = track(setInterval, clearInterval, true);
    const [setImmediate_, clearImmediate_] = track(setImmediate, clearImmediate, false);
    setTimeout_[promisify.custom] = setTimeout[promisify.custom];
    setImmediate_[promisify.custom] = setImmediate[promisify.custom];
    return {
      setTimeout: setTimeout_,
      clearTimeout: clearTimeout_,
      setInterval: setInterval_,
      clearInterval: clearInterval_,
      setImmediate: setImmediate_,
      clearImmediate: clearImmediate_,
    };
  }

  #processOf() {
    const own = this.#process;
    const stream = {
      write: () => true,
      end() {},
      on() {},
      once() {},
      isTTY: false,
      columns: 80,
      fd: 1,
    };
    const exit = (code) => {
      if (code !== undefined) this.exitCode = Number(code);
      own.emit("exit", this.exitCode ?? 0);
      this.#end((this.exitCode ?? 0) === 0 && !this.#tests.hasFailed ? "passed" : "failed");
      throw EXIT;
    };
    const made = Object.create(process);
    const values = {
      exit,
      reallyExit: exit,
      abort: () => exit(134),
      stdout: { ...stream },
      stderr: { ...stream, fd: 2 },
      env: { ...process.env },
      argv: [process.execPath, this.#given.entry],
      execArgv: [],
    };
    for (const name of [
      "on",
      "once",
      "off",
      "emit",
      "addListener",
      "removeListener",
      "removeAllListeners",
      "listeners",
      "listenerCount",
      "prependListener",
      "prependOnceListener",
      "eventNames",
      "rawListeners",
    ]) {
      values[name] = (...given) => own[name](...given);
    }
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(made, name, {
        value,
        writable: true,
        configurable: true,
        enumerable: true,
      });
    }
    Object.defineProperty(made, "exitCode", {
      get: () => this.exitCode,
      set: (code) => {
        this.exitCode = code === undefined ? undefined : Number(code);
      },
    });
    return made;
  }

  /** The modules of node's that a realm has its own of. */
  #own() {
    return (name, context) => {
      if (name === "test") return this.#tests.module;
      if (name === "process") return context.process;
      if (name === "console") return context.console;
      return undefined;
    };
  }
}
