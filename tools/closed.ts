import type { Image } from "./engine.ts";
import { metered, paidBodies } from "./fuel.ts";
import * as wasm from "./wasm.ts";

/** The memory that an instance may take at most: 64 MiB, in pages of 64 KiB. */
export const PAGE_LIMIT = 1024;

/** What an instance offers beside its memory, its fuel and the numbers of its image. */
const OFFERED: readonly string[] = [
  "wasm_malloc",
  "wasm_free",
  "qjs_new_string",
  "qjs_call",
  "qjs_get_string_len",
  "qjs_get_string",
  "qjs_free_value",
  "qjs_free_cstring",
  "qjs_is_exception",
  "qjs_get_exception",
  "qjs_get_allocated_size",
];

/**
 * The engine's module with an image as its memory, every import answered inside, and all that it does
 * metered: see `metered`. An import is answered by a trap, as an engine that has started has nothing
 * to ask of its host.
 */
export function closed(engine: Uint8Array, image: Image): Uint8Array {
  const sections = wasm.sectionsOf(engine);
  const body = (id: number): Uint8Array => wasm.bodyOf(sections, id);
  const imports = wasm.elementsOf(body(wasm.IMPORT), skipImport).map(typeOfImport);
  const functions = wasm.elementsOf(body(wasm.FUNCTION), (reader) => reader.skipNumber());
  const globals = wasm.elementsOf(body(wasm.GLOBAL), skipGlobal);
  const bodies = wasm.elementsOf(body(wasm.CODE), (reader) => reader.skip(reader.u32()));
  const types = wasm.elementsOf(body(wasm.TYPE), skipType);
  // The one global is where the stack begins, and it is there again; of others nothing is known.
  if (globals.length !== 1) throw new Error("the engine has more globals than its stack's");
  const meter = {
    fuelGlobal: globals.length,
    copyFunction: imports.length + functions.length,
    fillFunction: imports.length + functions.length + 1,
  };
  const paid = paidBodies(meter.fuelGlobal);
  const paidType = wasm.u32(types.length);
  const numbers = Object.entries(image.numbers);
  const made: ReadonlyMap<number, Uint8Array> = new Map([
    [wasm.TYPE, wasm.vector([...types, PAID_TYPE])],
    // What was imported comes first, so that every function keeps its number.
    [wasm.FUNCTION, wasm.vector([...imports, ...functions, paidType, paidType])],
    [wasm.MEMORY, wasm.vector([[1, ...pagesOf(image), ...wasm.u32(PAGE_LIMIT)]])],
    [
      wasm.GLOBAL,
      wasm.vector([...globals, FUEL, ...numbers.map(([, number]) => constant(number))]),
    ],
    [wasm.EXPORT, wasm.vector(exportsOf(body(wasm.EXPORT), globals.length, numbers))],
    [
      wasm.CODE,
      wasm.vector([
        ...imports.map(() => TRAP),
        ...metered(bodies.map(wasm.unsized), imports.length, meter).map(wasm.sized),
        wasm.sized(paid.copy),
        wasm.sized(paid.fill),
      ]),
    ],
    [wasm.DATA, wasm.vector(segmentsOf(image.memory))],
  ]);
  const kept = sections.filter(({ id }) => id !== wasm.IMPORT && id !== wasm.DATA_COUNT);
  return wasm.moduleOf(
    kept.map((section) => ({ ...section, body: made.get(section.id) ?? section.body })),
  );
}

const PAGE_BYTES = 65_536;
const I32 = 0x7f;
/** Three numbers in, none out: what copying and filling memory take. */
const PAID_TYPE: readonly number[] = [0x60, 3, I32, I32, I32, 0];
/** A function without locals that does nothing but trap. */
const TRAP: readonly number[] = [3, 0, 0x00, 0x0b];
/** A number that can be set, and that is as high as it can be until then. */
const FUEL: readonly number[] = [I32, 1, 0x41, ...wasm.i32(0x7fff_ffff), 0x0b];

function constant(value: number): readonly number[] {
  return [I32, 0, 0x41, ...wasm.i32(value), 0x0b];
}

function pagesOf(image: Image): readonly number[] {
  return wasm.u32(image.memory.length / PAGE_BYTES);
}

function exportsOf(
  body: Uint8Array,
  globalCount: number,
  numbers: readonly (readonly [string, number])[],
): readonly wasm.Bytes[] {
  const offered = wasm
    .elementsOf(body, skipExport)
    .filter((each) => ["memory", ...OFFERED].includes(new wasm.Reader(each).text()));
  if (offered.length !== OFFERED.length + 1) throw new Error("the engine lacks a function");
  const globals = ["fuel", ...numbers.map(([name]) => name)];
  return [
    ...offered,
    ...globals.map((name, index) =>
      wasm.joined([wasm.text(name), [GLOBAL_KIND], wasm.u32(globalCount + index)]),
    ),
  ];
}

const GLOBAL_KIND = 3;

/** What is not zero in a memory, as segments that write it there. */
function segmentsOf(memory: Uint8Array): readonly Uint8Array[] {
  const segments: Uint8Array[] = [];
  for (let from = 0; from < memory.length; ) {
    if (memory[from] === 0) {
      from += 1;
      continue;
    }
    let to = from + 1;
    for (let at = to; at < memory.length && at - to < GAP_BYTES; at++) {
      if (memory[at] !== 0) to = at + 1;
    }
    const where = [0, 0x41, ...wasm.i32(from), 0x0b];
    segments.push(wasm.joined([where, wasm.u32(to - from), memory.subarray(from, to)]));
    from = to;
  }
  return segments;
}

/** So many zeros in a row part two segments: fewer cost less than a segment of its own does. */
const GAP_BYTES = 64;

function skipType(reader: wasm.Reader): void {
  if (reader.byte() !== 0x60) throw new Error("a type that is not a function's");
  reader.skip(reader.u32());
  reader.skip(reader.u32());
}

function skipImport(reader: wasm.Reader): void {
  reader.text();
  reader.text();
  if (reader.byte() !== 0) throw new Error("an import that is not a function");
  reader.skipNumber();
}

/** The number of an imported function's type: the end of the import. */
function typeOfImport(bytes: Uint8Array): Uint8Array {
  const reader = new wasm.Reader(bytes);
  reader.text();
  reader.text();
  reader.byte();
  return bytes.subarray(reader.at);
}

function skipGlobal(reader: wasm.Reader): void {
  reader.skip(2);
  if (reader.byte() !== 0x41) throw new Error("a global that does not begin as a number");
  reader.skipNumber();
  reader.skip(1);
}

function skipExport(reader: wasm.Reader): void {
  reader.text();
  reader.byte();
  reader.skipNumber();
}
