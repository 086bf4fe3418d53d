import { fail, fault, never, ok, type Result } from "./fault.ts";
import { type Flaw, flawed, malformed, within } from "./flaw.ts";
import { type AnyShape, emptyOf, isDigest, type Layout, type Shape, type Type } from "./layout.ts";
import { NESTING_LIMIT } from "./limit.ts";
import {
  elementEnd,
  readBool,
  readCount,
  readI32,
  readList,
  readObject,
  readU8,
  readU32,
  readU64,
  tailAt,
  textWithin,
} from "./reader.ts";
import { FLAG_COMPRESSED, FLAG_ENCRYPTED, parseZap, type Zap, zapWithin } from "./zap.ts";

export type Limit = { readonly name: string; readonly bytes: number };

/**
 * Reads a value of any shape from a ZAP message. The wire's reader takes a pointer that leaves its
 * message for null; here it is refused, as damage: a file must not be emptied by a flipped bit.
 * Faults: `too_large` above the limit, `malformed` for anything else, with the path as its subject.
 */
export function decodeShape<T>(shape: Shape<T>, bytes: Uint8Array, limit: Limit): Result<T> {
  if (bytes.byteLength > limit.bytes) {
    const size = `${shape.name} has ${bytes.byteLength} bytes`;
    return fail(fault("too_large", `${size}, more than ${limit.name} (${limit.bytes})`));
  }
  const parsed = parseZap(bytes);
  if (!parsed.ok) return parsed;
  const zap = parsed.value;
  if ((zap.flags & (FLAG_COMPRESSED | FLAG_ENCRYPTED)) !== 0) {
    return fail(fault("malformed", `${shape.name} is compressed or encrypted`));
  }
  const flaw: Flaw = { why: "", path: "" };
  const value = getShape(zap, zap.root, shape, flaw, 0);
  return value === undefined ? malformed(flaw, shape.name) : ok(value as T);
}

type Value = Record<string, unknown>;

function getShape(
  zap: Zap,
  object: number,
  shape: AnyShape,
  flaw: Flaw,
  depth: number,
): Value | undefined {
  if (depth > NESTING_LIMIT)
    return flawed(flaw, `nests deeper than NESTING_LIMIT (${NESTING_LIMIT})`);
  if (object < 0) return flawed(flaw, "is missing");
  if (shape.kind === "struct") return getObject(zap, object, shape.layout, flaw, depth);
  const tag = readU8(zap, object);
  const layout = shape.byTag[tag];
  if (layout === undefined) return flawed(flaw, `has the unknown tag ${tag}`);
  return getObject(zap, object, layout, flaw, depth);
}

function getObject(
  zap: Zap,
  object: number,
  layout: Layout,
  flaw: Flaw,
  depth: number,
): Value | undefined {
  if (object + layout.sizeBytes > zap.end) return flawed(flaw, "leaves its message");
  const value: Value = layout.tag === 0 ? {} : { kind: layout.kind };
  for (const slot of layout.slots) {
    const field =
      slot.presence === "absent"
        ? emptyOf(slot.type)
        : getField(zap, object + slot.at, slot.type, flaw, depth);
    if (field === undefined) return within(flaw, `.${slot.name}`);
    value[slot.name] = field;
  }
  return value;
}

function getField(zap: Zap, at: number, type: Type, flaw: Flaw, depth: number): unknown {
  switch (type.kind) {
    case "text":
      return getText(zap, at, flaw);
    case "u64": {
      const value = readU64(zap, at);
      return Number.isNaN(value) ? flawed(flaw, "is 2^53 or more") : value;
    }
    case "bool":
      return readBool(zap, at);
    case "code": {
      const code = readU8(zap, at);
      return type.names[code] ?? flawed(flaw, `has the unknown code ${code}`);
    }
    case "object":
      return getShape(zap, readObject(zap, at), type.of, flaw, depth + 1);
    case "list":
      return getList(zap, at, type.of, flaw, depth);
    case "texts":
      return getTexts(zap, at, flaw);
    case "digest": {
      const text = getText(zap, at, flaw);
      if (text === undefined || isDigest(type.words, text)) return text;
      return flawed(flaw, "is not a SHA-256 digest");
    }
    case "u32":
      return readU32(zap, at);
    case "i32":
      return readI32(zap, at);
    default:
      return never(type);
  }
}

function getText(zap: Zap, at: number, flaw: Flaw): string | undefined {
  const sizeBytes = readU32(zap, at + 4);
  if (sizeBytes === 0) return "";
  const from = tailAt(zap, at);
  if (from < 0) return flawed(flaw, "leaves its message");
  return textWithin(zap, from, from + sizeBytes) ?? flawed(flaw, "is not UTF-8");
}

function getTexts(zap: Zap, at: number, flaw: Flaw): string[] | undefined {
  const count = countAt(zap, at, flaw);
  if (count === undefined) return undefined;
  const texts: string[] = [];
  let from = readList(zap, at);
  while (texts.length < count) {
    const end = elementEnd(zap, from);
    const text = end < 0 ? flawed(flaw, "leaves its message") : textWithin(zap, from + 4, end);
    if (text === undefined || text === null) {
      if (text === null) flawed(flaw, "is not UTF-8");
      return within(flaw, `[${texts.length}]`);
    }
    texts.push(text);
    from = end;
  }
  return texts;
}

function getList(
  zap: Zap,
  at: number,
  of: AnyShape,
  flaw: Flaw,
  depth: number,
): Value[] | undefined {
  const count = countAt(zap, at, flaw);
  if (count === undefined) return undefined;
  const values: Value[] = [];
  let from = readList(zap, at);
  while (values.length < count) {
    const end = elementEnd(zap, from);
    const value =
      end < 0
        ? flawed(flaw, "leaves its message")
        : getElement(zap, from + 4, end, of, flaw, depth);
    if (value === undefined) return within(flaw, `[${values.length}]`);
    values.push(value);
    from = end;
  }
  return values;
}

function getElement(
  zap: Zap,
  from: number,
  to: number,
  of: AnyShape,
  flaw: Flaw,
  depth: number,
): Value | undefined {
  const element = zapWithin(zap.bytes, zap.view, from, to);
  if (typeof element === "string") return flawed(flaw, `is no message: ${element}`);
  return getShape(element, element.root, of, flaw, depth + 1);
}

/** How many elements a list has; one that says it has some, and is null, is damaged. */
function countAt(zap: Zap, at: number, flaw: Flaw): number | undefined {
  const count = readCount(zap, at);
  if (count === readU32(zap, at + 4)) return count;
  return flawed(flaw, "is a list that leaves its message");
}
