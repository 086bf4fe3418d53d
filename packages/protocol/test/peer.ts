import { Builder, Message, type StructBuilder, StructView } from "@zap-proto/zap";
import { type AnyShape, emptyOf, type Layout, type Slot } from "../src/layout.ts";

/*
 * The reference runtime, driven by the schema: what it writes and reads is what ours must write and
 * read. Only the offsets are ours; where things go, and what pointers say, is its own.
 */

type Value = Readonly<Record<string, unknown>>;

/** A view with its getters, which the runtime keeps for generated code, made public. */
export class View extends StructView {
  static root(bytes: Uint8Array): View {
    return View.of(Message.parse(bytes).root());
  }
  static of(view: StructView): View {
    return new View(view.data, view.offset);
  }
  readonly get = {
    bool: (at: number) => this.bool(at),
    u8: (at: number) => this.u8(at),
    u16: (at: number) => this.u16(at),
    u32: (at: number) => this.u32(at),
    u64: (at: number) => this.u64(at),
    i8: (at: number) => this.i8(at),
    i16: (at: number) => this.i16(at),
    i32: (at: number) => this.i32(at),
    i64: (at: number) => this.i64(at),
    f32: (at: number) => this.f32(at),
    f64: (at: number) => this.f64(at),
    fixed: (at: number, sizeBytes: number) => this.bytesFixed(at, sizeBytes),
    bytes: (at: number) => this.bytes(at),
    text: (at: number) => this.text(at),
    object: (at: number) => View.of(this.object(at)),
    list: (at: number) => this.list(at),
  };
}

/** A value as the reference runtime writes it. */
export function peerEncode(shape: AnyShape, value: Value): Uint8Array {
  const builder = new Builder(64);
  builder.setRoot(build(builder, shape, value));
  return builder.finish();
}

/** A value as the reference runtime reads it. */
export function peerDecode(shape: AnyShape, bytes: Uint8Array): unknown {
  return view(shape, View.root(bytes));
}

function build(builder: Builder, shape: AnyShape, value: Value): number {
  const layout = shape.kind === "struct" ? shape.layout : shape.byKind.get(value.kind as string);
  if (layout === undefined) throw new Error(`no ${shape.name} is of kind ${value.kind}`);
  const children = layout.children.map((slot) => child(builder, slot, value[slot.name]));
  const object = builder.startObject(layout.sizeBytes);
  if (layout.tag !== 0) object.setU8(0, layout.tag);
  layout.children.forEach((slot, index) => {
    const at = children[index] ?? 0;
    if (slot.type.kind === "object") object.setObject(slot.at, at);
    else object.setList(slot.at, at, (value[slot.name] as unknown[]).length);
  });
  for (const slot of layout.slots) set(object, slot, value[slot.name]);
  return object.finish();
}

function child(builder: Builder, slot: Slot, value: unknown): number {
  const type = slot.type;
  if (type.kind === "object") return build(builder, type.of, value as Value);
  const elements = value as readonly unknown[];
  if (elements.length === 0) return 0;
  const list = builder.startList();
  for (const element of elements) {
    list.addObjectBytes(
      type.kind === "list"
        ? peerEncode(type.of, element as Value)
        : new TextEncoder().encode(element as string),
    );
  }
  return list.finishOffset();
}

function set(object: StructBuilder, slot: Slot, value: unknown): void {
  const { at, type } = slot;
  if (type.kind === "bool") object.setBool(at, value as boolean);
  if (type.kind === "u32") object.setU32(at, value as number);
  if (type.kind === "i32") object.setI32(at, value as number);
  if (type.kind === "u64") object.setU64(at, BigInt(value as number));
  if (type.kind === "code") object.setU8(at, type.codes.get(value as string) ?? 0);
  if (type.kind === "text" || type.kind === "digest") object.setText(at, value as string);
}

function view(shape: AnyShape, at: View): unknown {
  const layout = shape.kind === "struct" ? shape.layout : shape.byTag[at.get.u8(0)];
  if (layout === undefined) throw new Error(`no ${shape.name} has the tag ${at.get.u8(0)}`);
  return fields(layout, at);
}

function fields(layout: Layout, at: View): unknown {
  const named = layout.slots.map((slot) => [slot.name, field(slot, at)]);
  return { ...(layout.kind === "" ? {} : { kind: layout.kind }), ...Object.fromEntries(named) };
}

function field({ at, type, presence }: Slot, { get }: View): unknown {
  if (presence === "absent") return emptyOf(type);
  switch (type.kind) {
    case "bool":
    case "u32":
    case "i32":
      return get[type.kind](at);
    case "u64":
      return Number(get.u64(at));
    case "code":
      return type.names[get.u8(at)];
    // The runtime's own decoder drops a byte order mark, so its bytes are decoded here.
    case "text":
    case "digest":
      return decoder.decode(get.bytes(at));
    case "object":
      return view(type.of, get.object(at));
    case "texts": {
      const list = get.list(at);
      return range(list.len()).map((index) => decoder.decode(list.bytesAt(index)));
    }
    case "list": {
      const list = get.list(at);
      return range(list.len()).map((index) => view(type.of, View.of(list.objectAt(index))));
    }
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}
