// The modules and globals of node's that all realms share, and whether one of them was changed.
import { createRequire, isBuiltin } from "node:module";

const require = createRequire(import.meta.url);
/** They read or write files, so that what they wrote has to be looked for. */
const FILES = /^(fs|fs\/promises|sqlite)$/;
/** They start code that a realm knows nothing of. */
const STARTERS =
  /^(worker_threads|cluster|vm|inspector|inspector\/promises|repl|v8|wasi|async_hooks)$/;
const SPAWNS = ["exec", "execFile", "execFileSync", "execSync", "fork", "spawn", "spawnSync"];
const SHARED = [
  Object,
  Object.prototype,
  Function.prototype,
  Array,
  Array.prototype,
  String.prototype,
  Number,
  Number.prototype,
  Boolean.prototype,
  Symbol.prototype,
  Map.prototype,
  Set.prototype,
  Promise,
  Promise.prototype,
  RegExp.prototype,
  Date,
  Date.prototype,
  Error,
  Error.prototype,
  Math,
  JSON,
  Reflect,
  Uint8Array.prototype,
  Buffer,
  Buffer.prototype,
  URL.prototype,
  AbortSignal.prototype,
  EventTarget.prototype,
  console,
];

export class Builtins {
  #seen = new Map();
  #loaded = new Map();

  constructor() {
    for (const shared of SHARED) this.#watch(shared);
    for (const name of ["assert", "assert/strict", "events", "util"]) this.load(name);
  }

  /** The module of that name, or undefined where it is none of node's. */
  load(specifier, run) {
    if (!isBuiltin(specifier)) return undefined;
    const name = specifier.replace(/^node:/, "");
    if (run && FILES.test(name)) run.wrote = true;
    if (run && STARTERS.test(name)) run.spawned = true;
    if (name === "child_process") return spawning(require(name), run);
    if (!this.#loaded.has(name)) {
      const loaded = require(specifier);
      this.#loaded.set(name, loaded);
      this.#watch(loaded);
    }
    return this.#loaded.get(name);
  }

  isIntact() {
    for (const [object, before] of this.#seen) {
      const keys = Reflect.ownKeys(object);
      if (keys.length !== before.size) return false;
      for (const key of keys) {
        if (!before.has(key) || before.get(key) !== heldBy(object, key)) return false;
      }
    }
    return true;
  }

  #watch(object) {
    if (object === null || (typeof object !== "object" && typeof object !== "function")) return;
    if (this.#seen.has(object)) return;
    const values = new Map(Reflect.ownKeys(object).map((key) => [key, heldBy(object, key)]));
    this.#seen.set(object, values);
  }
}

/** Of an accessor, the function that gets it: to get it might load something. */
function heldBy(object, key) {
  const { value, get } = Object.getOwnPropertyDescriptor(object, key) ?? {};
  return get ?? (Object.is(value, Number.NaN) ? "NaN" : value);
}

function spawning(module, run) {
  const wrapped = { ...module };
  for (const name of SPAWNS) {
    wrapped[name] = (...given) => {
      if (run) run.spawned = run.wrote = true;
      return module[name](...given);
    };
  }
  wrapped.default = wrapped;
  return wrapped;
}
