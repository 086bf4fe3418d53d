export * from "./action.ts";
export * from "./codec.ts";
export * from "./decode.ts";
export * from "./encode.ts";
export * from "./envelope.ts";
export * from "./event.ts";
export * from "./fault.ts";
export * from "./frame.ts";
export * from "./id.ts";
export * from "./json.ts";
export {
  boolAt,
  codeAt,
  digestAt,
  type Field,
  type Fields,
  i32At,
  idAt,
  listAt,
  objectAt,
  type Shape,
  type StructShape,
  struct,
  textAt,
  textsAt,
  type UnionShape,
  u32At,
  u64At,
  union,
  type Variant,
  type Variants,
} from "./layout.ts";
export * from "./limit.ts";
export * from "./message.ts";
export * from "./op.ts";
export * from "./outcome.ts";
export * from "./schema.ts";
export { isWellFormed, wellFormed } from "./utf8.ts";
