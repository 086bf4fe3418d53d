import { type Bytes, i32, joined, Reader, u32, vector } from "./wasm.ts";

/** Where a module keeps its fuel, and which of its functions copy and fill memory for a price. */
export type Meter = {
  readonly fuelGlobal: number;
  readonly copyFunction: number;
  readonly fillFunction: number;
};

/**
 * The bodies of a module's functions, the first of which has the number `firstNumber`, with a meter:
 * each round of a loop and each entry of a function that may recur takes one from the fuel, and traps
 * where there is none left. Nothing goes on for long without passing one of the two, written in C or in
 * JavaScript, so no call is endless, and where one is stopped is the same on every machine.
 * Copying and filling memory, which one instruction does, are paid by their size.
 */
export function metered(
  bodies: readonly Uint8Array[],
  firstNumber: number,
  meter: Meter,
): readonly Uint8Array[] {
  const recurring = recurringOf(bodies.map(callsOf), firstNumber);
  return bodies.map((body, index) => meteredBody(body, recurring.has(firstNumber + index), meter));
}

function meteredBody(body: Uint8Array, recurs: boolean, meter: Meter): Uint8Array {
  const charge = charging(meter.fuelGlobal, [I32_CONST, 1]);
  const parts: Bytes[] = [];
  let keptFrom = 0;
  const insert = (at: number, bytes: Bytes, nextFrom: number): void => {
    parts.push(body.subarray(keptFrom, at), bytes);
    keptFrom = nextFrom;
  };
  if (recurs) insert(codeStart(body), charge, codeStart(body));
  for (const { code, wide, from, to } of instructionsOf(body)) {
    if (code === LOOP) insert(to, charge, to);
    if (wide === MEMORY_COPY) insert(from, [CALL, ...u32(meter.copyFunction)], to);
    if (wide === MEMORY_FILL) insert(from, [CALL, ...u32(meter.fillFunction)], to);
  }
  return joined([...parts, body.subarray(keptFrom)]);
}

/** The functions that a body calls by their numbers; null where it calls any that a table holds. */
function callsOf(body: Uint8Array): ReadonlySet<number> | null {
  const called = new Set<number>();
  for (const { code, operand } of instructionsOf(body)) {
    if (code === CALL_INDIRECT) return null;
    if (code === CALL) called.add(operand);
  }
  return called;
}

/**
 * The functions that may call themselves, by way of others too: those that call what a table holds,
 * and of the rest those that lie between the rings of direct calls, found by leaving out what calls none
 * of the rest, and what none of the rest calls, for as long as there is any.
 */
function recurringOf(
  calls: readonly (ReadonlySet<number> | null)[],
  firstNumber: number,
): ReadonlySet<number> {
  const indirect: number[] = [];
  const rest = new Map<number, ReadonlySet<number>>();
  for (const [index, called] of calls.entries()) {
    if (called === null) indirect.push(firstNumber + index);
    else rest.set(firstNumber + index, called);
  }
  for (let before = -1; before !== rest.size; ) {
    before = rest.size;
    const called = new Set<number>();
    for (const [number, callees] of rest) {
      const within = [...callees].filter((callee) => rest.has(callee));
      if (within.length === 0) rest.delete(number);
      for (const callee of within) called.add(callee);
    }
    for (const number of rest.keys()) {
      if (!called.has(number)) rest.delete(number);
    }
  }
  return new Set([...indirect, ...rest.keys()]);
}

/** The bodies of the functions that copy and fill: to where, from where or with what, how much. */
export function paidBodies(fuelGlobal: number): {
  readonly copy: Uint8Array;
  readonly fill: Uint8Array;
} {
  const price = [
    ...[LOCAL_GET, 2, I32_CONST, ...i32(PAID_BYTES_LOG2), I32_SHR_U],
    ...[I32_CONST, 1, I32_ADD],
  ];
  const operands = [LOCAL_GET, 0, LOCAL_GET, 1, LOCAL_GET, 2];
  const body = (operation: readonly number[]): Uint8Array =>
    joined([vector([]), charging(fuelGlobal, price), operands, [PREFIX], operation, [END]]);
  return { copy: body([MEMORY_COPY, 0, 0]), fill: body([MEMORY_FILL, 0]) };
}

/** How many bytes a unit of fuel copies or fills, as a power of two. */
const PAID_BYTES_LOG2 = 6;

/** Takes what `price` leaves on the stack from the fuel; traps where that is more than there is. */
function charging(fuelGlobal: number, price: readonly number[]): readonly number[] {
  const fuel = u32(fuelGlobal);
  return [
    ...[GLOBAL_GET, ...fuel, ...price, I32_SUB, GLOBAL_SET, ...fuel],
    ...[GLOBAL_GET, ...fuel, I32_CONST, 0, I32_LT_S, IF, EMPTY, UNREACHABLE, END],
  ];
}

const UNREACHABLE = 0x00;
const LOOP = 0x03;
const IF = 0x04;
const END = 0x0b;
const BR_TABLE = 0x0e;
const CALL = 0x10;
const CALL_INDIRECT = 0x11;
const SELECT_TYPED = 0x1c;
const LOCAL_GET = 0x20;
const GLOBAL_GET = 0x23;
const GLOBAL_SET = 0x24;
const EMPTY = 0x40;
const I32_CONST = 0x41;
const F32_CONST = 0x43;
const F64_CONST = 0x44;
const I32_LT_S = 0x48;
const I32_ADD = 0x6a;
const I32_SUB = 0x6b;
const I32_SHR_U = 0x76;
const PREFIX = 0xfc;
const MEMORY_COPY = 10;
const MEMORY_FILL = 11;

type Instruction = {
  readonly code: number;
  /** The second code of a prefixed instruction; -1 for any other. */
  readonly wide: number;
  /** The function that a direct call calls; -1 for any other. */
  readonly operand: number;
  readonly from: number;
  readonly to: number;
};

/** The instructions of a function's body in their order. One that is not known throws. */
function* instructionsOf(body: Uint8Array): Generator<Instruction> {
  const reader = new Reader(body);
  reader.skip(codeStart(body));
  while (!reader.done) {
    const from = reader.at;
    const code = reader.byte();
    const wide = code === PREFIX ? reader.u32() : -1;
    const operand = code === CALL ? reader.u32() : -1;
    if (code === PREFIX) skipWideOperands(reader, wide);
    else if (code !== CALL) skipOperands(reader, code);
    yield { code, wide, operand, from, to: reader.at };
  }
}

/** Where a body's instructions begin: behind its locals. */
function codeStart(body: Uint8Array): number {
  const reader = new Reader(body);
  for (let left = reader.u32(); left > 0; left--) {
    reader.u32();
    reader.byte();
  }
  return reader.at;
}

/** Passes over what follows an instruction's code. */
function skipOperands(reader: Reader, code: number): void {
  for (let left = numbersAfter(reader, code); left > 0; left--) reader.skipNumber();
  if (code === F32_CONST) reader.skip(4);
  if (code === F64_CONST) reader.skip(8);
}

/** How many numbers in LEB128 follow an instruction's code. */
function numbersAfter(reader: Reader, code: number): number {
  const isPlain = code <= 0x01 || code === 0x05 || code === END || code === 0x0f;
  if (isPlain || code === 0x1a || code === 0x1b || (code >= 0x45 && code <= 0xc4)) return 0;
  if (code === F32_CONST || code === F64_CONST) return 0;
  // Blocks have a type, branches a depth.
  if ((code >= 0x02 && code <= IF) || code === 0x0c || code === 0x0d) return 1;
  // What is done to variables and tables names them; sizes, whole numbers and references have one number.
  if ((code >= LOCAL_GET && code <= 0x26) || (code >= 0x3f && code <= 0x42)) return 1;
  if (code === 0xd0 || code === 0xd2) return 1;
  // An indirect call has a type and a table; a load or a store has how it is aligned, and how far off.
  if (code === CALL_INDIRECT || (code >= 0x28 && code <= 0x3e)) return 2;
  if (code === BR_TABLE) return reader.u32() + 1;
  if (code === SELECT_TYPED) return reader.u32();
  throw new Error(`the instruction 0x${code.toString(16)} is not known`);
}

function skipWideOperands(reader: Reader, wide: number): void {
  const hasTwo = wide === 8 || wide === MEMORY_COPY || wide === 12 || wide === 14;
  if (wide > 17) throw new Error(`the instruction 0xfc ${wide} is not known`);
  // The first eight turn a floating number into a whole one.
  if (wide > 7) reader.skipNumber();
  if (hasTwo) reader.skipNumber();
}
