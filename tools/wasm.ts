/*
 * Just enough of the WebAssembly binary format to rewrite a module: the core specification, 2.0,
 * chapter 5. What is not known here is refused, so that nothing is skipped by mistake.
 */

/** One section of a module: its id, and its content without its length. */
export type Section = { readonly id: number; readonly body: Uint8Array };

export const CUSTOM = 0;
export const TYPE = 1;
export const IMPORT = 2;
export const FUNCTION = 3;
export const MEMORY = 5;
export const GLOBAL = 6;
export const EXPORT = 7;
export const CODE = 10;
export const DATA = 11;
export const DATA_COUNT = 12;

/** The sections of a module in their order, without the custom ones, which mean nothing to an engine. */
export function sectionsOf(module: Uint8Array): readonly Section[] {
  const reader = new Reader(module);
  reader.skip(HEAD.length);
  const sections: Section[] = [];
  while (!reader.done) {
    const id = reader.byte();
    const body = reader.bytes(reader.u32());
    if (id !== CUSTOM) sections.push({ id, body });
  }
  return sections;
}

export function moduleOf(sections: readonly Section[]): Uint8Array {
  const parts = sections.flatMap(({ id, body }) => [[id], u32(body.length), body]);
  return joined([HEAD, ...parts]);
}

const HEAD: readonly number[] = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

/** The body of the one section of a kind; a module without one throws. */
export function bodyOf(sections: readonly Section[], id: number): Uint8Array {
  const [section, another] = sections.filter((each) => each.id === id);
  if (section === undefined || another !== undefined) throw new Error(`not one section ${id}`);
  return section.body;
}

/** The elements of a vector, each as its bytes; `skip` passes over one. */
export function elementsOf(
  body: Uint8Array,
  skip: (reader: Reader) => void,
): readonly Uint8Array[] {
  const reader = new Reader(body);
  const elements: Uint8Array[] = [];
  for (let left = reader.u32(); left > 0; left--) {
    const from = reader.at;
    skip(reader);
    elements.push(body.subarray(from, reader.at));
  }
  if (!reader.done) throw new Error("a vector that goes on behind its end");
  return elements;
}

/** Bytes with their number before them, as a function's body is written. */
export function sized(bytes: Bytes): Uint8Array {
  return joined([u32(bytes.length), bytes]);
}

export function unsized(bytes: Uint8Array): Uint8Array {
  const reader = new Reader(bytes);
  return reader.bytes(reader.u32());
}

/** A vector: the number of its elements, and each of them. */
export function vector(elements: readonly Bytes[]): Uint8Array {
  return joined([u32(elements.length), ...elements]);
}

export type Bytes = Uint8Array | readonly number[];

export function joined(parts: readonly Bytes[]): Uint8Array {
  let sizeBytes = 0;
  for (const part of parts) sizeBytes += part.length;
  const whole = new Uint8Array(sizeBytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** An unsigned number of at most 32 bits, in LEB128. */
export function u32(value: number): readonly number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) + 128);
  }
}

/** A signed number of at most 32 bits, in LEB128. */
export function i32(value: number): readonly number[] {
  const bytes: number[] = [];
  for (let rest = value | 0; ; rest >>= 7) {
    if (rest >= -64 && rest < 64) return [...bytes, rest & 0x7f];
    bytes.push((rest & 0x7f) | 0x80);
  }
}

export function text(value: string): Uint8Array {
  return sized(Buffer.from(value));
}

/** Reads forward through the bytes of a module; past their end it throws. */
export class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get at(): number {
    return this.#at;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new Error("a module that is cut");
    this.#at += 1;
    return byte;
  }

  u32(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 128) return value;
    }
  }

  /** Passes over a number in LEB128 of any size. */
  skipNumber(): void {
    while (this.byte() >= 128);
  }

  skip(count: number): void {
    this.#at += count;
  }

  bytes(count: number): Uint8Array {
    if (this.#at + count > this.#bytes.length) throw new Error("a module that is cut");
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  text(): string {
    return Buffer.from(this.bytes(this.u32())).toString("utf8");
  }
}
