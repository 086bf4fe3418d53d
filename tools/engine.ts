import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import binaryen from "binaryen";

/** A JavaScript engine as one WebAssembly module, and which one it is. */
export type Engine = {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  readonly module: Uint8Array;
};

/**
 * An engine's memory after a program has run in it, and what its host has to know of it: where in it
 * lies what the program left, a place of `SCRATCH_BYTES`, and how large its heap may become.
 */
export type Image = {
  readonly memory: Uint8Array;
  readonly numbers: { readonly [name: string]: number };
};

/** The engine from npm, if it is the one that was pinned, byte for byte. */
export function readEngine(): Engine {
  if (read !== undefined) return read;
  const require = createRequire(import.meta.url);
  const { version } = require("quickjs-wasi/package.json") as { readonly version: string };
  const module = readFileSync(require.resolve("quickjs-wasi/quickjs.wasm"));
  const sha256 = createHash("sha256").update(module).digest("hex");
  if (sha256 !== SHA256) {
    throw new Error(`${NAME} ${version} is not the pinned engine: its SHA-256 is ${sha256}`);
  }
  read = { name: NAME, version, sha256, module };
  return read;
}

let read: Engine | undefined;

const NAME = "quickjs-wasi";
const SHA256 = "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363";

/**
 * The engine with its small functions written out where they are called, of which it has many: its
 * calls take a fifth less time. The compiler that runs the module does all else.
 */
export function inlined(engine: Uint8Array): Uint8Array {
  const known = inlinings.get(engine);
  if (known !== undefined) return known;
  const module = binaryen.readBinary(engine);
  binaryen.setOptimizeLevel(3);
  binaryen.setAlwaysInlineMaxSize(30);
  binaryen.setFlexibleInlineMaxSize(100);
  binaryen.setOneCallerInlineMaxSize(100);
  module.runPasses(["inlining"]);
  const made = module.emitBinary();
  module.dispose();
  inlinings.set(engine, made);
  return made;
}

const inlinings = new WeakMap<Uint8Array, Uint8Array>();

/**
 * Runs a script in a bare context, and answers the memory as it is then. The context has no Date, no
 * eval, no Promise and no chance. `names` are globals that the script makes: the image says where the
 * engine keeps each.
 */
export function runOnce(engine: Uint8Array, script: string, names: readonly string[]): Image {
  const bytecode = compiled(engine, script);
  const vm = boot(engine, BARE);
  const code = put(vm, bytecode);
  const ran = vm.qjs_eval_bytecode(code, bytecode.length);
  if (vm.qjs_is_exception(ran) !== 0) throw new Error(`the script failed: ${exceptionOf(vm)}`);
  vm.qjs_free_value(ran);
  // What is freed stays in the image, and each page of it costs when an instance is made.
  new Uint8Array(vm.memory.buffer).fill(0, code, code + bytecode.length);
  vm.wasm_free(code);
  const numbers: { [name: string]: number } = {
    undefined: vm.qjs_get_undefined(),
    scratch: vm.wasm_malloc(SCRATCH_BYTES),
    heap_bytes: HEAP_BYTES,
  };
  const global = vm.qjs_get_global();
  for (const name of names) {
    const at = putText(vm, name);
    const found = vm.qjs_get_prop_string(global, at, Buffer.byteLength(name));
    if (vm.qjs_is_function(found) === 0) throw new Error(`the script makes no function ${name}`);
    numbers[name] = found;
    vm.wasm_free(at);
  }
  vm.qjs_free_value(global);
  vm.qjs_set_memory_limit(HEAP_BYTES);
  vm.qjs_run_gc();
  // What a call leaves outside of the memory would be missing from the image.
  if (vm.__stack_pointer.value !== STACK_TOP) throw new Error("the engine's stack is not empty");
  // What was on it is dead, and costs a page as well.
  new Uint8Array(vm.memory.buffer).fill(0, 0, STACK_TOP);
  return { memory: new Uint8Array(vm.memory.buffer).slice(), numbers };
}

/** What the engine's own heap may take: below the memory's limit, so that it can say what happened. */
const HEAP_BYTES = 56 * 1024 * 1024;
const SCRATCH_BYTES = 64;
const STACK_TOP = 0x100000;

/** The parts of the language that are in a context, by the engine's bits. */
const EVERYTHING = 0xffffffff;
const REGEXP = 4;
const JSON_PARTS = 8;
const COLLECTIONS = 32;
const TYPED_ARRAYS = 64;
const BARE = REGEXP | JSON_PARTS | COLLECTIONS | TYPED_ARRAYS;

/** The bytecode of a script, without its text and its lines. */
function compiled(engine: Uint8Array, script: string): Uint8Array {
  const vm = boot(engine, EVERYTHING);
  const source = `delete Math.random;${script}`;
  const sizeAt = vm.wasm_malloc(4);
  const sizeBytes = Buffer.byteLength(source);
  const made = vm.qjs_compile(
    putText(vm, source),
    sizeBytes,
    putText(vm, "core.js"),
    STRICT,
    STRIP_SOURCE | STRIP_DEBUG,
    sizeAt,
  );
  if (made === 0) throw new Error(`the script does not compile: ${exceptionOf(vm)}`);
  const length = new DataView(vm.memory.buffer).getUint32(sizeAt, true);
  return new Uint8Array(vm.memory.buffer, made, length).slice();
}

const STRICT = 8;
const STRIP_SOURCE = 16;
const STRIP_DEBUG = 32;

type FunctionName =
  | "_initialize"
  | "qjs_compile"
  | "qjs_eval_bytecode"
  | "qjs_free_value"
  | "qjs_get_exception"
  | "qjs_get_global"
  | "qjs_get_prop_string"
  | "qjs_get_string"
  | "qjs_get_undefined"
  | "qjs_init2"
  | "qjs_is_exception"
  | "qjs_is_function"
  | "qjs_run_gc"
  | "qjs_set_memory_limit"
  | "wasm_free"
  | "wasm_malloc";

/** What is used here of what the engine offers. */
type Exports = {
  readonly [Name in FunctionName]: (...values: readonly number[]) => number;
} & {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly __stack_pointer: { readonly value: number };
};

function boot(engine: Uint8Array, parts: number): Exports {
  const { Module, Instance } = webAssembly();
  let vm: Exports | undefined;
  // A clock that stands at 0, and chance that is 0, so that every start is the same.
  const answers = {
    clock_time_get: (_clock: number, _precision: bigint, at: number): number => {
      view().setBigUint64(at, 0n, true);
      return 0;
    },
    random_get: (at: number, count: number): number => {
      for (let index = 0; index < count; index++) view().setUint8(at + index, 0);
      return 0;
    },
  };
  const view = (): DataView => new DataView((vm as Exports).memory.buffer);
  const refuse = (name: string) => (): never => {
    throw new Error(`the engine asked its host for ${name}`);
  };
  const host = new Proxy(answers, {
    get: (known, name) => Reflect.get(known, name) ?? refuse(String(name)),
  });
  const imports = { env: host, wasi_snapshot_preview1: host };
  vm = new Instance(new Module(engine), imports).exports as Exports;
  vm._initialize();
  if (vm.qjs_init2(parts) !== 0) throw new Error("the engine does not start");
  return vm;
}

function putText(vm: Exports, text: string): number {
  return put(vm, Buffer.from(text));
}

/** Puts bytes and a NUL behind them into the memory. */
function put(vm: Exports, bytes: Uint8Array): number {
  const at = vm.wasm_malloc(bytes.length + 1);
  const memory = new Uint8Array(vm.memory.buffer);
  memory.set(bytes, at);
  memory[at + bytes.length] = 0;
  return at;
}

function exceptionOf(vm: Exports): string {
  const memory = Buffer.from(vm.memory.buffer);
  const at = vm.qjs_get_string(vm.qjs_get_exception());
  return memory.toString("utf8", at, memory.indexOf(0, at));
}

/** What this file needs of the engine that runs this process; Node's own types leave it out. */
function webAssembly(): {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: object };
} {
  return Reflect.get(globalThis, "WebAssembly");
}
