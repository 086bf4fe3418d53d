import { expect, test } from "vitest";
import {
  ACTION,
  codeAt,
  EVENT,
  FAULT_CODES,
  idAt,
  MODES,
  type Mode,
  type Outcome,
  struct,
  type TurnId,
  textAt,
  type Usage,
  u64At,
  union,
} from "../src/index.ts";
import { type AnyShape, type Layout, widthOf } from "../src/layout.ts";

const SHAPES = shapesOf([EVENT, ACTION]);
const LAYOUTS = SHAPES.flatMap((shape) => layoutsOf(shape).map((layout) => ({ shape, layout })));

test("no two fields of an object share a byte, and none lies on the tag", () => {
  for (const { shape, layout } of LAYOUTS) {
    const taken = new Map<number, string>(layout.tag === 0 ? [] : [[0, "the tag"]]);
    for (const { name, at, type } of layout.slots) {
      for (let byte = at; byte < at + widthOf(type); byte++) {
        expect(taken.get(byte), `${shape.name}.${layout.kind}.${name}`).toBeUndefined();
        taken.set(byte, name);
      }
    }
  }
});

test("every field lies at a multiple of its own width, as far as 8", () => {
  for (const { shape, layout } of LAYOUTS) {
    for (const { name, at, type } of layout.slots) {
      expect(at % widthOf(type), `${shape.name}.${layout.kind}.${name}`).toBe(0);
    }
  }
});

test("every tag and code is its own, from 1 to 255", () => {
  for (const shape of SHAPES) {
    if (shape.kind === "union") numbersOf([...shape.byKind.values()].map((layout) => layout.tag));
    for (const { slots } of layoutsOf(shape)) {
      for (const { type } of slots) if (type.kind === "code") numbersOf([...type.codes.values()]);
    }
  }
});

test("the codes of faults are those that were given first", () => {
  const fault = SHAPES.find((shape) => shape.name === "Fault");
  const slot = fault?.kind === "struct" ? fault.layout.slots[0] : undefined;
  const codes = slot?.type.kind === "code" ? slot.type.codes : new Map<string, number>();
  expect(codes.size).toBe(FAULT_CODES.length);
  // A few of them stand for all: putting one in the middle moves those behind it.
  const pinned = {
    bad_call: 1,
    io: 13,
    unreachable: 15,
    gone: 25,
    limit: 29,
    handle: 36,
    usage: 44,
  };
  for (const [code, number] of Object.entries(pinned)) expect(codes.get(code)).toBe(number);
});

test("the codes of modes are those of the list of modes", () => {
  const turn = EVENT.byKind.get("turn");
  const mode = turn?.slots.find((slot) => slot.name === "mode")?.type;
  expect(mode?.kind === "code" && [...mode.codes.keys()]).toEqual(MODES);
});

test("a description that is not the whole of its type does not compile", () => {
  const made = [
    // @ts-expect-error a field is missing
    struct<Usage>("Usage", {
      inputTokens: u64At(0),
      cachedTokens: u64At(8),
      outputTokens: u64At(16),
    }),
    // @ts-expect-error a field is of another type
    struct<{ readonly name: string }>("Name", { name: u64At(0) }),
    // @ts-expect-error text is wider than the words
    struct<{ readonly mode: Mode }>("Moded", { mode: textAt(0) }),
    // @ts-expect-error a code is missing
    struct<{ readonly mode: Mode }>("Moded", { mode: codeAt(0, { plan: 1, ask: 2, edits: 3 }) }),
    // @ts-expect-error an id is not any number
    struct<{ readonly id: TurnId }>("Turned", { id: u64At(0) }),
    // @ts-expect-error variants are missing
    union<Outcome>("Outcome", { unknown: { tag: 4, fields: { known: textAt(8) } } }),
  ];
  expect(made).toHaveLength(6);
  expect(struct<{ readonly id: TurnId }>("Turned", { id: idAt(0) }).layout.sizeBytes).toBe(8);
});

function numbersOf(numbers: readonly number[]): void {
  expect(new Set(numbers).size).toBe(numbers.length);
  for (const number of numbers) {
    expect(number).toBeGreaterThanOrEqual(1);
    expect(number).toBeLessThanOrEqual(255);
  }
}

/** Every shape that is within these. */
function shapesOf(roots: readonly AnyShape[]): readonly AnyShape[] {
  const found = new Set<AnyShape>(roots);
  // A set gives what is added while it is walked.
  for (const shape of found) {
    for (const { children } of layoutsOf(shape)) {
      for (const { type } of children) if ("of" in type) found.add(type.of);
    }
  }
  return [...found];
}

function layoutsOf(shape: AnyShape): readonly Layout[] {
  return shape.kind === "struct" ? [shape.layout] : [...shape.byKind.values()];
}
