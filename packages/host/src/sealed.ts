import { readFileSync } from "node:fs";
import { type Fault, fault } from "@dev/protocol";
import type { Ran } from "./deadline.ts";

/** A guest in an instance of its own: memory that nothing else is in, and nothing to reach out by. */
export interface Guest {
  /**
   * Calls one of the guest's functions with a text, in UTF-8, or with nothing, and reads what it
   * answers before anything else is done. Refused as `full`, with nothing changed, where the memory
   * has no room for the text.
   */
  call<T>(name: GuestFunction, text: string | Uint8Array | null, read: Read<T>): Ran<T>;
  /** What is free of its heap. */
  freeBytes(): number;
}

type GuestFunction = "open" | "step" | "snapshot" | "more" | "restore";

/** Reads an answer out of the guest's memory, which is not to be kept. */
type Read<T> = (answer: Buffer) => T;

/**
 * Compiles a sealed module, once for a process, and answers a maker of guests. It throws where the
 * module has an import: then it is not sealed. `fuel` is what one call may use.
 */
export function openSealed(path: string | URL, fuel: number): () => Guest {
  const module = compiled(path);
  return () => guest(new webAssembly.Instance(module, {}).exports as Exports, fuel);
}

const modules = new Map<string, object>();

function compiled(path: string | URL): object {
  const known = modules.get(String(path));
  if (known !== undefined) return known;
  const module = new webAssembly.Module(readFileSync(path));
  const [imported] = webAssembly.Module.imports(module);
  if (imported) throw new Error(`${path} is not sealed: it imports ${imported.name}`);
  modules.set(String(path), module);
  return module;
}

function guest(vm: Exports, fuel: number): Guest {
  const scratch = vm.scratch.value;
  let memory = Buffer.from(vm.memory.buffer);
  // The memory gets another buffer when it grows.
  const view = (): Buffer => {
    if (memory.buffer !== vm.memory.buffer) memory = Buffer.from(vm.memory.buffer);
    return memory;
  };

  /** Puts a text into the memory as a value of the engine's; null where there is no room. */
  function put(text: string | Uint8Array): number | null {
    const sizeBytes = typeof text === "string" ? Buffer.byteLength(text) : text.length;
    const at = vm.wasm_malloc(sizeBytes + 1);
    if (at === 0) return null;
    if (typeof text === "string") view().write(text, at, sizeBytes, "utf8");
    else view().set(text, at);
    view()[at + sizeBytes] = 0;
    const made = vm.qjs_new_string(at, sizeBytes);
    vm.wasm_free(at);
    if (made !== 0 && vm.qjs_is_exception(made) === 0) return made;
    // What was thrown would be thrown again by the next call.
    thrown();
    return null;
  }

  function thrown(): string {
    const at = vm.qjs_get_string(vm.qjs_get_exception());
    // An engine that has no memory left cannot say so either.
    const end = at === 0 ? -1 : view().indexOf(0, at);
    return end < 0 ? "out of memory" : view().toString("utf8", at, end);
  }

  function run<T>(name: GuestFunction, text: string | Uint8Array | null, read: Read<T>): Ran<T> {
    const given = text === null ? 0 : put(text);
    if (given === null) return { kind: "refused", fault: full() };
    view().writeUInt32LE(given, scratch);
    const called = vm[`guest_${name}`].value;
    const answered = vm.qjs_call(called, vm.undefined.value, given === 0 ? 0 : 1, scratch);
    if (given !== 0) vm.qjs_free_value(given);
    if (answered === 0 || vm.qjs_is_exception(answered) !== 0) {
      return { kind: "threw", error: thrown() };
    }
    const at = vm.qjs_get_string_len(answered, scratch);
    if (at === 0) return { kind: "threw", error: thrown() };
    const value = read(view().subarray(at, at + view().readUInt32LE(scratch)));
    vm.qjs_free_cstring(at);
    vm.qjs_free_value(answered);
    return { kind: "done", value };
  }

  return {
    freeBytes: () => vm.heap_bytes.value - vm.qjs_get_allocated_size(),
    call: (name, text, read) => {
      vm.fuel.value = fuel;
      try {
        return run(name, text, read);
      } catch (error) {
        return vm.fuel.value < 0 ? { kind: "late" } : { kind: "threw", error };
      }
    },
  };
}

export function full(): Fault {
  return fault(
    "full",
    "the session's memory has no room for this",
    "",
    "compact the conversation, or go on in another session",
  );
}

/** What a module was sealed with: where in its memory its functions lie, and how large its heap may be. */
type SealedNumber = `guest_${GuestFunction}` | "undefined" | "scratch" | "heap_bytes";
type Exports = { readonly [Name in SealedNumber]: { readonly value: number } } & {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly fuel: { value: number };
  wasm_malloc(sizeBytes: number): number;
  wasm_free(at: number): void;
  qjs_new_string(at: number, sizeBytes: number): number;
  qjs_call(called: number, self: number, count: number, values: number): number;
  qjs_get_string(value: number): number;
  qjs_get_string_len(value: number, sizeAt: number): number;
  qjs_free_cstring(at: number): void;
  qjs_free_value(value: number): void;
  qjs_is_exception(value: number): number;
  qjs_get_exception(): number;
  qjs_get_allocated_size(): number;
};

/** What this file needs of the engine that runs this process; Node's own types leave it out. */
const webAssembly = Reflect.get(globalThis, "WebAssembly") as {
  readonly Module: {
    new (bytes: Uint8Array): object;
    imports(module: object): readonly { readonly name: string }[];
  };
  readonly Instance: new (module: object, imports: object) => { readonly exports: object };
};
