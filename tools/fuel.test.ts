import { expect, test } from "vitest";
import { metered, paidBodies } from "./fuel.ts";
import * as wasm from "./wasm.ts";

const PAGE_BYTES = 65_536;

/** Functions of one number, written out in instructions. */
const FUNCTIONS = {
  // loop, br 0, end
  endless: [0, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b],
  // if n = 0 return; twice: doubling(n - 1)
  doubling: [
    ...[0, 0x20, 0, 0x45, 0x04, 0x40, 0x0f, 0x0b],
    ...[0x20, 0, 0x41, 1, 0x6b, 0x10, 1],
    ...[0x20, 0, 0x41, 1, 0x6b, 0x10, 1, 0x0b],
  ],
  // n is read, and dropped
  plain: [0, 0x20, 0, 0x1a, 0x0b],
  // plain(n)
  calling: [0, 0x20, 0, 0x10, 2, 0x0b],
  // memory.fill of n bytes, memory.copy of as many
  filling: [0, 0x41, 0, 0x41, 7, 0x20, 0, 0xfc, 11, 0, 0x0b],
  copying: [0, 0x41, 0, 0x41, 0, 0x20, 0, 0xfc, 10, 0, 0, 0x0b],
} as const;
type Name = keyof typeof FUNCTIONS;

test.each<[string, Name, number]>([
  ["a loop without an end", "endless", 0],
  ["a function that calls itself twice, forty deep", "doubling", 40],
])("%s is stopped where the fuel ends", (_, name, operand) => {
  const { call, fuel } = assembled();
  fuel.value = 100_000;
  expect(() => call(name, operand)).toThrow("unreachable");
  expect(fuel.value).toBeLessThan(0);
});

test.each<[string, Name, number, number]>([
  ["a function that only runs on costs nothing", "plain", 1, 0],
  ["nor does one that calls such a one", "calling", 1, 0],
  ["each entry of a function that calls itself costs one", "doubling", 3, 15],
  ["filling costs one, and one for 64 bytes", "filling", PAGE_BYTES, 1 + PAGE_BYTES / 64],
  ["so does copying", "copying", PAGE_BYTES, 1 + PAGE_BYTES / 64],
])("%s", (_, name, operand, price) => {
  const { call, fuel } = assembled();
  fuel.value = 100_000;
  call(name, operand);
  expect(100_000 - fuel.value).toBe(price);
});

test("filling still fills, and what is too large for the memory still traps", () => {
  const { call, memory } = assembled();
  call("filling", 3);
  expect([...new Uint8Array(memory.buffer, 0, 4)]).toEqual([7, 7, 7, 0]);
  expect(() => call("filling", PAGE_BYTES + 1)).toThrow("out of bounds");
});

test("an instruction that is not known is refused, and not passed over", () => {
  const meter = { fuelGlobal: 0, copyFunction: 1, fillFunction: 2 };
  expect(() => metered([Uint8Array.of(0, 0xfd, 0, 0x0b)], 0, meter)).toThrow("0xfd is not known");
});

function assembled() {
  const names = Object.keys(FUNCTIONS) as Name[];
  const meter = { fuelGlobal: 0, copyFunction: names.length, fillFunction: names.length + 1 };
  const paid = paidBodies(meter.fuelGlobal);
  const bodies = metered(
    names.map((name) => Uint8Array.from(FUNCTIONS[name])),
    0,
    meter,
  );
  const module = wasm.moduleOf([
    {
      id: wasm.TYPE,
      body: wasm.vector([
        [0x60, 1, 0x7f, 0],
        [0x60, 3, 0x7f, 0x7f, 0x7f, 0],
      ]),
    },
    { id: wasm.FUNCTION, body: wasm.vector([...names.map(() => [0]), [1], [1]]) },
    { id: wasm.MEMORY, body: wasm.vector([[0, 1]]) },
    { id: wasm.GLOBAL, body: wasm.vector([[0x7f, 1, 0x41, ...wasm.i32(0x7fff_ffff), 0x0b]]) },
    {
      id: wasm.EXPORT,
      body: wasm.vector([
        wasm.joined([wasm.text("memory"), [2, 0]]),
        wasm.joined([wasm.text("fuel"), [3, 0]]),
        ...names.map((name, index) => wasm.joined([wasm.text(name), [0, index]])),
      ]),
    },
    { id: wasm.CODE, body: wasm.vector([...bodies, paid.copy, paid.fill].map(wasm.sized)) },
  ]);
  const { Module, Instance } = Reflect.get(globalThis, "WebAssembly") as {
    readonly Module: new (bytes: Uint8Array) => object;
    readonly Instance: new (module: object) => { readonly exports: object };
  };
  const exports = new Instance(new Module(module)).exports as {
    readonly [key in Name]: (operand: number) => void;
  } & { readonly fuel: { value: number }; readonly memory: { readonly buffer: ArrayBuffer } };
  return {
    call: (name: Name, operand: number) => exports[name](operand),
    fuel: exports.fuel,
    memory: exports.memory,
  };
}
