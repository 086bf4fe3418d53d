import { never } from "./fault.ts";
import { type AnyShape, fits, isDigest, type Layout, type Shape, type Slot } from "./layout.ts";
import { NESTING_LIMIT } from "./limit.ts";
import {
  appendText,
  finish,
  finishElement,
  openWriter,
  rewind,
  startElement,
  startList,
  startObject,
  type Writer,
  writeBool,
  writeI32,
  writeList,
  writeObject,
  writeText,
  writeU8,
  writeU32,
  writeU64,
} from "./writer.ts";

/** Writes a value of any shape as a ZAP message. A value that its shape cannot hold is a bug, and throws. */
export function encodeShape<T>(shape: Shape<T>, value: T): Uint8Array {
  const draft = takeDraft();
  const root = putShape(draft, shape, value as Value, 0);
  const bytes = finish(draft.writer, root);
  if (draft.writer.bytes.byteLength > DRAFT_LIMIT_BYTES) return bytes;
  spare = draft;
  return bytes.slice();
}

/** A value as its description sees it; that it is of its type the compiler has seen to. */
type Value = Readonly<Record<string, unknown>>;

type Draft = {
  readonly writer: Writer;
  /** Where the children are of the objects that are being written, the innermost last. */
  readonly children: number[];
};

/** A message that fits in here is put together in memory that is kept, and copied out of it. */
const DRAFT_LIMIT_BYTES = 1024 * 1024;

// Taken while a message is being written, and not given back by one that throws.
let spare: Draft | null = null;

function takeDraft(): Draft {
  const draft = spare;
  spare = null;
  if (draft === null) return { writer: openWriter(4096), children: [] };
  rewind(draft.writer);
  return draft;
}

function putShape(draft: Draft, shape: AnyShape, value: Value, depth: number): number {
  if (depth > NESTING_LIMIT) throw new RangeError(`${shape.name} nests deeper than NESTING_LIMIT`);
  if (shape.kind === "struct") return putObject(draft, shape.layout, value, depth);
  const layout = shape.byKind.get(value.kind as string);
  if (layout === undefined) throw new TypeError(`no ${shape.name} is of kind ${value.kind}`);
  return putObject(draft, layout, value, depth);
}

function putObject(draft: Draft, layout: Layout, value: Value, depth: number): number {
  const { writer, children } = draft;
  const first = children.length;
  for (const slot of layout.children) children.push(putChild(draft, slot, value[slot.name], depth));
  const object = startObject(writer, layout.sizeBytes);
  if (layout.tag !== 0) writeU8(writer, object, layout.tag);
  for (const slot of layout.scalars) putScalar(writer, object + slot.at, slot, value[slot.name]);
  let index = first;
  for (const slot of layout.children) {
    const child = children[index++] as number;
    if (slot.type.kind === "object") writeObject(writer, object + slot.at, child);
    else writeList(writer, object + slot.at, child, (value[slot.name] as unknown[]).length);
  }
  children.length = first;
  for (const slot of layout.texts) putText(writer, object + slot.at, slot, value[slot.name]);
  return object;
}

function putChild(draft: Draft, slot: Slot, value: unknown, depth: number): number {
  const { writer } = draft;
  const type = slot.type;
  if (type.kind === "object") return putShape(draft, type.of, value as Value, depth + 1);
  const list = startList(writer);
  if (type.kind === "texts") {
    for (const text of value as readonly string[]) appendText(writer, text);
  } else if (type.kind === "list") {
    for (const element of value as readonly Value[]) {
      const outer = startElement(writer);
      finishElement(writer, putShape(draft, type.of, element, depth + 1), outer);
    }
  }
  return list;
}

function putScalar(writer: Writer, at: number, slot: Slot, value: unknown): void {
  const type = slot.type;
  switch (type.kind) {
    case "bool":
      writeBool(writer, at, value as boolean);
      return;
    case "code": {
      const code = type.codes.get(value as string);
      if (code === undefined) throw new TypeError(`${slot.name} cannot be ${value}`);
      writeU8(writer, at, code);
      return;
    }
    case "u32":
    case "i32":
    case "u64":
      if (!fits(type.kind, value)) throw new RangeError(`${slot.name} cannot be ${value}`);
      if (type.kind === "u64") writeU64(writer, at, value);
      else if (type.kind === "u32") writeU32(writer, at, value);
      else writeI32(writer, at, value);
      return;
    case "text":
    case "digest":
    case "texts":
    case "object":
    case "list":
      throw new Error(`${slot.name} is no scalar`);
    default:
      never(type);
  }
}

function putText(writer: Writer, at: number, slot: Slot, value: unknown): void {
  const text = value as string;
  if (slot.type.kind === "digest" && !isDigest(slot.type.words, text)) {
    throw new TypeError(`${slot.name} is no digest: ${text}`);
  }
  writeText(writer, at, text);
}
